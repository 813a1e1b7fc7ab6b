# Prints the join token of the formation that this node runs, and nothing where hive has none.
set -euo pipefail

if is_file "$HIVE_CONFIG_DIR/join-token"; then
  show "$HIVE_CONFIG_DIR/join-token"
fi
