# Prints the join token of the formation that this node runs, and nothing where hive has none.
set -euo pipefail

if [ -f "$HIVE_CONFIG_DIR/join-token" ]; then
  cat "$HIVE_CONFIG_DIR/join-token"
fi
