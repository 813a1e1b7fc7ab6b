# Stands before the scripts that check, apply, list and end faults, after the one that stands before hive's. heal.sh stands alone.
#
# FAULT_ID       names a fault on all nodes that have it
# FAULT_KIND     link, partition, process, disk, clock or power
# FAULT_SPEC     the fault as users write it
# FAULT_SECONDS  for how long it lasts
# FAULT_ACT, FAULT_SERVICE  of a process: pause or kill, and a service of hive
# FAULT_PEERS    of a link or a partition: the addresses of the other nodes that it is about, with blanks between
# FAULT_PORTS    the ports of the nodes' SSH servers, with commas between: what goes there is never touched
# FAULT_DELAY, FAULT_JITTER  of a link, in microseconds; 0: none
# FAULT_UP, FAULT_DOWN  of a link, in milliseconds; 0: it is not taken down
# FAULT_LOSS     of a link, in ten thousand packets; 0: none
# FAULT_RATE     of a link, in bits a second; 0: as it is
# FAULT_LIMIT    how many packets may wait for such a link
# FAULT_PATH, FAULT_FREE  of a disk: a directory, and how many bytes are left
# FAULT_STEP     of a clock, in seconds
set -euo pipefail

faults=$HOME/.hive-test/faults # a directory for each fault, named by its id: vars, heal.sh, and what is needed to undo it

# service_name NAME prints what that service is called here if it runs: the program was renamed, and its services with it.
service_name() {
  local name
  case $1 in
  daemon) set -- hive spinifex ;;
  ui) set -- hive-ui spinifex-ui ;;
  esac
  for name in "$@"; do
    if running "$name" >/dev/null; then
      printf '%s\n' "$name"
      return
    fi
  done
  return 1
}

# slot prints what the fault takes: a node has one fault at a time of each.
slot() {
  case $FAULT_KIND in
  process) printf 'process %s\n' "$(service_name "$FAULT_SERVICE")" ;;
  disk) printf 'disk %s\n' "$("${admin[@]}" stat -c %m -- "$FAULT_PATH")" ;;
  *) printf '%s\n' "$FAULT_KIND" ;;
  esac
}

# taken SLOT prints the id of the fault that has it already; it fails where none has.
taken() {
  local vars
  for vars in "$faults"/*/vars; do
    if [ -f "$vars" ] && (slot= && . "$vars" && [ "$slot" = "$1" ]); then
      vars=${vars%/vars}
      printf '%s\n' "${vars##*/}"
      return
    fi
  done
  return 1
}

# needs_root succeeds if the fault is not about a process of the user who logs in.
needs_root() {
  [ "$FAULT_KIND" != process ] || [ "$layout" = systemd ]
}

# device_of ADDRESS prints the device by which that address is reached; "local" where it is the node's own.
device_of() {
  local words i
  read -r -a words < <(ip -o route get "$1")
  if [ "${words[0]:-}" = local ]; then
    printf 'local\n'
    return
  fi
  for ((i = 0; i + 1 < ${#words[@]}; i++)); do
    if [ "${words[i]}" = dev ]; then
      printf '%s\n' "${words[i + 1]}"
      return
    fi
  done
  return 1
}

# devices prints those by which the peers are reached, each once.
devices() {
  local peer
  for peer in $FAULT_PEERS; do
    device_of "$peer"
  done | sort -u
}

# shaped succeeds if what the node sends is late or slow.
shaped() {
  [ "$FAULT_DELAY" != 0 ] || [ "$FAULT_RATE" != 0 ]
}
