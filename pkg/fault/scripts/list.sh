# Prints a line "fault", ID, SPEC, the seconds that are left, and why healing has failed (- if it has not), with tabs between, for each
# fault that this node has.
set -euo pipefail

read -r up _ </proc/uptime
for vars in "$faults"/*/vars; do
  [ -f "$vars" ] || continue
  (
    # shellcheck source=/dev/null
    . "$vars"
    left=$((ends - ${up%.*}))
    why=-
    if [ -f "${vars%/vars}/error" ]; then
      why=$(tr '\t\n' '  ' <"${vars%/vars}/error")
      why=${why% }
    elif [ "$boot" != "$(cat /proc/sys/kernel/random/boot_id)" ]; then
      left=0
    fi
    printf 'fault\t%s\t%s\t%s\t%s\n' "$id" "$spec" "$left" "$why"
  )
done
