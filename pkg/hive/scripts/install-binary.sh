# Checks the hive program that was uploaded to HIVE_BIN, which has to run on this node, and prints its version.
set -euo pipefail

[ -x "$HIVE_BIN" ] || fail "there is no program $HIVE_BIN"
"$HIVE_BIN" version
