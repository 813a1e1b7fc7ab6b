# Sets up OVN where hive was built from source and brings the script for it; does nothing otherwise.
#
# HIVE_BIND    the node's own address
# HIVE_LEADER  node 1's address; the same as HIVE_BIND on node 1
set -euo pipefail

script=$HIVE_SOURCE_DIR/scripts/setup-ovn.sh
if [ ! -x "$script" ]; then
  exit 0
fi
cd "$HIVE_SOURCE_DIR"
if [ "$HIVE_BIND" = "$HIVE_LEADER" ]; then
  exec "$script" --management "--encap-ip=$HIVE_BIND"
fi
case $HIVE_LEADER in *:*) HIVE_LEADER="[$HIVE_LEADER]" ;; esac # as OVN writes IPv6 addresses
exec "$script" "--ovn-remote=tcp:$HIVE_LEADER:6642" "--encap-ip=$HIVE_BIND"
