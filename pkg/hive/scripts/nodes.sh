# Prints hive's own table of nodes.
set -euo pipefail

exec "$HIVE_BIN" get nodes --config-dir "$HIVE_CONFIG_DIR" --timeout 3s
