# Prints hive's own table of nodes, which it always takes the whole of --timeout to gather.
set -euo pipefail

config=$(config_file)
[ -n "$config" ] || fail "this node is not initialized: there is no hive.toml in $HIVE_CONFIG_DIR"
exec "${privileged[@]}" "$HIVE_BIN" get nodes --config "$config" --timeout 2s
