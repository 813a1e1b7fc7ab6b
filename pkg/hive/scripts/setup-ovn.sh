# Sets up OVN by hive's own script where that came with hive and can work here; does nothing otherwise.
#
# HIVE_LEADER  node 1's address; the same as HIVE_BIND on node 1
set -euo pipefail

script=$(ovn_script)
[ -n "$script" ] || exit 0
flags=("--encap-ip=$HIVE_BIND")
if [ "$HIVE_BIND" = "$HIVE_LEADER" ]; then
  flags+=(--management)
else
  case $HIVE_LEADER in *:*) HIVE_LEADER="[$HIVE_LEADER]" ;; esac # as OVN writes IPv6 addresses
  flags+=("--ovn-remote=tcp:$HIVE_LEADER:6642")
fi

# plain NIC succeeds if that interface is neither a bridge of Linux nor one of Open vSwitch.
plain() {
  [ -n "$1" ] && [ ! -d "/sys/class/net/$1/bridge" ] && ! "${admin[@]}" ovs-vsctl br-exists "$1" 2>/dev/null
}

# Later scripts refuse a default route over a plain NIC unless they are told to put a macvlan beside it, which leaves SSH alone.
nic=$(ip -4 route show default 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
if [[ $("$script" --help 2>&1 </dev/null || true) == *--macvlan* ]] && plain "$nic"; then
  flags+=(--macvlan "--wan-iface=$nic")
fi
cd "$(dirname "$script")"
exec "${privileged[@]}" "$script" "${flags[@]}"
