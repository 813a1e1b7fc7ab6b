# Asks the hive program that was uploaded to ~/hive/bin/hive.uploaded for its version on this node, prints that, and puts the program
# in the place of ~/hive/bin/hive. Where units run hive, it takes the place of theirs, too. One that does not answer as hive does takes
# no place: what was there stays.
#
# HIVE_UPLOADED  "yes" if a program was uploaded; else what is there is checked
#
# It exits with 3, and says nothing, where there is no program, and with 79 where it is refused.
set -euo pipefail

uploaded=$HOME/hive/bin/hive.uploaded # it stays: what is uploaded next may be the same
place=$HOME/hive/bin/hive

if [ "$layout" = systemd ]; then
  need_units
fi
if [ "${HIVE_UPLOADED:-}" != yes ]; then
  [ -x "$HIVE_BIN" ] || exit 3
  tell_version "$HIVE_BIN"
  exit
fi
(tell_version "$uploaded") || {
  code=$?
  rm -f -- "$uploaded"
  exit "$code"
}
if [ -L "$place" ] || ! [ "$uploaded" -ef "$place" ]; then
  ln -f -- "$uploaded" "$place.new"
  mv -fT -- "$place.new" "$place"
fi
if [ "$layout" = systemd ] && ! cmp -s "$uploaded" "$HIVE_BIN"; then
  place_program "$uploaded"
fi
