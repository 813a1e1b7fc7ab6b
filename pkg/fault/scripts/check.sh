# Finds out whether the fault can be applied to this node, and changes nothing. Prints a line "problem TEXT" for each reason why not,
# and "lacks PACKAGE..." for what would have to be installed.
set -euo pipefail

problem() {
  printf 'problem %s\n' "$*"
}

if needs_root && ! "${admin[@]}" true 2>/dev/null; then
  problem "it takes root, and sudo asks $(id -un) for a password"
  exit
fi
command -v flock >/dev/null || printf 'lacks util-linux\n'
command -v setsid >/dev/null || printf 'lacks util-linux\n'

# check_network looks for the programs, and for a network of the node's own.
check_network() {
  local peer
  if [ -z "$FAULT_PEERS" ]; then
    problem "there is no other node"
    return
  fi
  command -v ip >/dev/null && { [ "$FAULT_KIND" != link ] || command -v tc >/dev/null; } || printf 'lacks iproute2\n'
  command -v nft >/dev/null || printf 'lacks nftables\n'
  command -v ip >/dev/null && command -v nft >/dev/null || return 0
  if ! said=$("${admin[@]}" nft list tables 2>&1); then
    problem "nft does not work there: ${said%%$'\n'*}"
  fi
  for peer in $FAULT_PEERS; do
    if [ "$(device_of "$peer")" = local ]; then
      problem "the address $peer of another node is its own, too: the nodes share one network"
      return
    fi
  done
}

# check_link looks for what shapes links in the kernel, and for whoever does so already.
check_link() {
  local device
  command -v tc >/dev/null && shaped || return 0
  for device in $(devices); do
    if [[ $(tc qdisc show dev "$device") =~ qdisc\ ([a-z_]+)\ ([0-9a-f]*[1-9a-f][0-9a-f]*):\ root ]] &&
      [ "${BASH_REMATCH[2]}" != 7e57 ]; then # one of hive-test's without a record is left over, and replaced
      problem "its $device is shaped already, by ${BASH_REMATCH[1]} ${BASH_REMATCH[2]}:"
    fi
  done
  # The modules are loaded by this, and nothing is changed: the network is one that ends at once.
  if [ "$FAULT_DELAY" != 0 ] && ! "${admin[@]}" unshare -n tc qdisc add dev lo root netem delay 1ms 2>/dev/null; then
    if grep -qx 'ID=ubuntu' /etc/os-release 2>/dev/null; then
      printf 'lacks linux-modules-extra-%s\n' "$(uname -r)"
    else
      problem "its kernel $(uname -r) has no netem, which a delay takes: one that has it (CONFIG_NET_SCH_NETEM) is needed"
    fi
  fi
  if ! "${admin[@]}" unshare -n tc qdisc add dev lo root htb 2>/dev/null; then
    problem "its kernel $(uname -r) has no htb, which shapes links"
  fi
}

# check_disk looks at the file system. Simulated hosts have that of the machine that they are on.
check_disk() {
  local blocks size free=%f
  if ! "${admin[@]}" test -d "$FAULT_PATH"; then
    problem "there is no directory $FAULT_PATH"
    exit
  fi
  [ "$FAULT_FREE" = 0 ] || free=%a # without what is reserved for root
  read -r blocks size < <("${admin[@]}" stat -f -c "$free %S" -- "$FAULT_PATH")
  if [ "$((blocks * size))" -le "$FAULT_FREE" ]; then
    problem "no more than $((blocks * size)) bytes are free on the file system of $FAULT_PATH"
  elif [ -n "${SIM_HOST_ROOT:-}" ] || [ -e /usr/lib/hive-sim/guest ]; then
    [ "$((blocks * size))" -le $((256 << 20)) ] ||
      problem "it is simulated, and its disk is that of this machine: mount a small file system there, and fill that"
  fi
}

# check_clock looks whether the clock is the node's own. Who asks compares the kernels that nodes have: one has one clock.
check_clock() {
  local capabilities
  printf 'kernel %s\n' "$(cat /proc/sys/kernel/random/boot_id)"
  if [ -n "${SIM_HOST_ROOT:-}" ] || [ -e /usr/lib/hive-sim/guest ] || [ -e /.dockerenv ] || [ -e /run/.containerenv ] ||
    systemd-detect-virt --container --quiet 2>/dev/null; then
    problem "its clock is not its own: it is a container, or simulated"
    exit
  fi
  capabilities=$("${admin[@]}" sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
  if [ "$((0x$capabilities >> 25 & 1))" = 0 ]; then # CAP_SYS_TIME
    problem "its clock is not its own: it is a container, or simulated"
  fi
}

# check_free looks for a fault of the same kind.
check_free() {
  local id
  if id=$(taken "$(slot)"); then
    problem "it has such a fault already, $id"
    exit
  fi
}

case $FAULT_KIND in
process | disk) ;; # what it is about has to be there first
*) check_free ;;
esac
case $FAULT_KIND in
link)
  check_network
  check_link
  ;;
partition) check_network ;;
disk) check_disk && check_free ;;
clock) check_clock ;;
process)
  if ! service_name "$FAULT_SERVICE" >/dev/null; then
    names=
    for name in "${SERVICES[@]}"; do
      if running "$name" >/dev/null; then
        names="$names $name"
      fi
    done
    problem "no service $FAULT_SERVICE of hive runs there:${names:- none does}"
    exit
  fi
  check_free
  ;;
esac
