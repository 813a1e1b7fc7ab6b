# Packs what was built in HIVE_SOURCE_DIR as a release, ~/hive/run/built.tar.gz, and prints its SHA-256: the programs, the plugin
# of viperblock, and the script that sets up OVN.
set -euo pipefail

program=$(cat "$run_dir/built" 2>/dev/null || true)
[ -x "$program" ] && cmp -s "$program" "$HIVE_BIN" || fail "what is installed there was not built there"
"$program" version >/dev/null || fail "$program does not run"
archive=$run_dir/built.tar.gz
mkdir -p "$run_dir"
parts=(-C "$HIVE_SOURCE_DIR/bin" "$(basename "$program")")
if [ -x "$HIVE_SOURCE_DIR/bin/lb-agent" ]; then
  parts+=(lb-agent)
fi
plugin=$HIVE_SOURCE_DIR/../viperblock/lib/nbdkit-viperblock-plugin.so
if [ -f "$plugin" ]; then
  parts+=(-C "$(dirname "$plugin")" "$(basename "$plugin")")
fi
if [ -f "$HIVE_SOURCE_DIR/scripts/setup-ovn.sh" ]; then
  parts+=(-C "$HIVE_SOURCE_DIR/scripts" setup-ovn.sh)
fi
tar -c --owner=0 --group=0 --mtime=@0 "${parts[@]}" | gzip -1n >"$archive.new"
mv "$archive.new" "$archive"
sha256sum <"$archive" | cut -d' ' -f1
