# Prints the end of logs of this node, each after a line that names it.
#
# HIVE_LOGS   names under HIVE_DIR/logs, or of services whose units write to the journal, separated by spaces
# HIVE_LINES  how many lines of each
set -euo pipefail

# shellcheck disable=SC2086 # a list
for name in $HIVE_LOGS; do
  if [ "$layout" = systemd ] && [[ " ${SERVICES[*]} " == *" $name "* ]]; then
    printf '==> %s.log\n' "$name"
    journal "$name" "$HIVE_LINES" || true
  elif [ -s "$log_dir/$name.log" ]; then
    printf '==> %s.log\n' "$name"
    tail -n "$HIVE_LINES" "$log_dir/$name.log"
  fi
done
