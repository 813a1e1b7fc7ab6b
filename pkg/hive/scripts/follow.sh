# Prints the end of hive's logs on this node, and what is added to them, until it is ended. tail names the file when it changes.
# Before, it tells when each file was written last: "==> @SECONDS FILE <==".
#
# HIVE_LINES  how many lines of each log it begins with
set -euo pipefail

mkdir -p "$log_dir"
files=()
for name in init join start nats predastore viperblock hive spinifex awsgw vpcd; do
  files+=("$log_dir/$name.log")
done
for file in "$log_dir"/*.log; do
  if [ -f "$file" ] && [[ " ${files[*]} " != *" $file "* ]]; then
    files+=("$file")
  fi
done
if [ "$layout" = systemd ]; then
  for name in nats predastore viperblock "$product" awsgw vpcd; do
    "${privileged[@]}" journalctl --no-pager --quiet --follow --output=cat --unit="$(unit_of "$name")" --lines="$HIVE_LINES" 2>/dev/null |
      while IFS= read -r line; do
        printf '==> %s.log <==\n%s\n' "$name" "$line" # in one write, so that lines of different services stay apart
      done &
  done
fi
for file in "${files[@]}"; do
  if written=$(stat -c %Y -- "$file" 2>/dev/null); then
    printf '==> @%s %s <==\n' "$written" "$file"
  fi
done
# Logs that are not there yet are waited for; that they are not is no news.
exec tail -n "$HIVE_LINES" -F -- "${files[@]}" 2>/dev/null
