# Heals faults of this node now, and prints a line "healed" with ID and SPEC, or "failed" with ID, SPEC and why, with tabs between, for
# each.
#
# FAULT_IDS  which, with blanks between; empty: all
set -euo pipefail

[ -d "$faults" ] || exit 0
exec 8>"$faults/lock" # nothing is applied meanwhile
flock 8
declare -A seen=()
for dir in "$faults"/*-disk "$faults"/*; do # on a full disk, services that the others are about may not start
  [ -d "$dir" ] && [ -z "${seen[$dir]:-}" ] || continue
  seen[$dir]=yes
  if [ -n "${FAULT_IDS:-}" ] && [[ " $FAULT_IDS " != *" ${dir##*/} "* ]]; then
    continue
  fi
  if [ ! -f "$dir/vars" ]; then # it was never applied
    rm -rf "$dir"
    continue
  fi
  # shellcheck source=/dev/null
  . "$dir/vars" || continue # healed just now
  as=()
  if [ "$as_root" = yes ]; then
    as=("${admin[@]}")
  fi
  if said=$("${as[@]}" bash "$dir/heal.sh" "$dir" 2>&1 8>&-); then
    printf 'healed\t%s\t%s\n' "$id" "$spec"
  else
    printf 'failed\t%s\t%s\t%s\n' "$id" "$spec" "$(printf '%s' "$said" | tr '\t\n' '  ')"
  fi
done
