# Prints the end of logs of this node, each after a line that names it.
#
# HIVE_LOGS   names under HIVE_DIR/logs, separated by spaces
# HIVE_LINES  how many lines of each
set -euo pipefail

# shellcheck disable=SC2086 # a list
for name in $HIVE_LOGS; do
  if [ -s "$log_dir/$name.log" ]; then
    printf '==> %s.log\n' "$name"
    tail -n "$HIVE_LINES" "$log_dir/$name.log"
  fi
done
