# Prints how each of hive's services on this node does, as start.sh has noted it: a line of its name, a tab, "up", "dead" (its
# process is gone), "silent" (it runs and accepts no connections, or hangs, or systemd starts it again and again) or "out" (it was
# left out), a tab, and what there is to say.
# Prints nothing where start.sh never ran.
set -euo pipefail

plan=$run_dir/services
[ -f "$plan" ] || exit 0
while IFS=$'\t' read -r name address reason; do
  if [ "$address" = out ]; then
    printf '%s\tout\t%s\n' "$name" "$reason"
  elif ! pid=$(running "$name"); then
    printf '%s\tdead\tits process is gone\n' "$name"
  elif [ "$pid" = 0 ]; then
    printf '%s\tsilent\tsystemd is about to start it, for it has ended or waits for others\n' "$name"
  elif [ "$layout" = systemd ] && why=$(unsteady "$name"); then
    printf '%s\tsilent\t%s\n' "$name" "$why"
  elif [ "$address" != - ] && ! accepts "${address%:*}" "${address##*:}"; then
    printf '%s\tsilent\tnothing accepts connections at %s\n' "$name" "$address"
  elif why=$(hangs "$name" "$pid" "$address" 3); then
    printf '%s\tsilent\t%s\n' "$name" "$why"
  else
    printf '%s\tup\t%s\n' "$name" "${address#-}"
  fi
done <"$plan"
