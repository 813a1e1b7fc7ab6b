# Checks the hive program that was uploaded to HIVE_BIN, which has to run on this node, and prints its version. Where units run hive,
# it takes the place of theirs.
#
# HIVE_UPLOADED  "yes" if a program was uploaded; else what is there is checked
#
# It exits with 3, and says nothing, where there is no program.
set -euo pipefail

if [ "$layout" = systemd ]; then
  need_units
  if [ "${HIVE_UPLOADED:-}" = yes ] && ! cmp -s "$HOME/hive/bin/hive" "$HIVE_BIN"; then
    place_program "$HOME/hive/bin/hive"
  fi
fi
[ -x "$HIVE_BIN" ] || exit 3
tell_version
