# Prints what is on this node as name=value lines: version, initialized (yes|no), ca (SHA-256), node, nodes (how many the
# configuration names), used (yes if hive was ever started here), time (seconds since 1970), cpus, era (what the program calls itself)
# and written (what the program that wrote the configuration called itself).
set -euo pipefail

printf 'time=%s\n' "$(date +%s)"
printf 'cpus=%s\n' "$(nproc)"
if [ -x "$HIVE_BIN" ]; then
  printf 'version=%s\n' "$("$HIVE_BIN" version 2>/dev/null | head -n 1)"
  printf 'era=%s\n' "$(era)"
fi
config=$(config_file)
if [ -n "$config" ]; then
  printf 'initialized=yes\n'
  printf 'written=%s\n' "$(basename "$config" .toml)"
  printf 'node=%s\n' "$(show "$config" | sed -n "s/^node *= *//p" | head -n 1 | tr -d "\"' ")"
  # Only [nodes.NAME] counts, not its own tables such as [nodes.NAME.nats].
  printf 'nodes=%s\n' "$(show "$config" | grep -Ec '^\[nodes\.[^].]+\]' || true)"
else
  printf 'initialized=no\n'
fi
if is_file "$HIVE_CONFIG_DIR/ca.pem"; then
  printf 'ca=%s\n' "$(show "$HIVE_CONFIG_DIR/ca.pem" | sha256sum | cut -d' ' -f1)"
fi
if [ -f "$run_dir/used" ]; then
  printf 'used=yes\n'
fi
