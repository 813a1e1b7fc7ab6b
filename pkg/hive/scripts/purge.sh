# Removes what is still of hive, and of hive-test, on a node whose data was removed by reset.sh: programs, logs, and source that was
# uploaded. Packages stay, and so does a clone that may be somebody's own.
set -euo pipefail

case $HIVE_DIR in
/ | "$HOME" | "$HOME/" | "") fail "HIVE_DIR is $HIVE_DIR: that is not hive's alone" ;;
/*) ;;
*) fail "HIVE_DIR is $HIVE_DIR: it has to be an absolute path" ;;
esac
clear_source
if [ "$layout" = systemd ]; then
  HIVE_DIR=$HOME/hive # users, units and packages that setup.sh has installed stay
fi
rm -rf --one-file-system -- "$HIVE_DIR" "$HOME/.hive-test"
