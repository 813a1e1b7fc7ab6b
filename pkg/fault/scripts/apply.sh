# Applies the fault to this node. What heals it is armed first.
#
# FAULT_HEAL  the text of heal.sh
set -euo pipefail

dir=$faults/$FAULT_ID
as_root=no
as=() # stands before what undoes the fault
if needs_root; then
  as_root=yes
  as=("${admin[@]}")
fi

# keep NAME VALUE notes a variable for heal.sh.
keep() {
  printf '%s=%q\n' "$1" "$2" >>"$dir/vars.new"
}

# begin makes the record of the fault. There is none where it could not be made.
begin() {
  local up
  (umask 077 && mkdir -p "$faults")
  exec 8>"$faults/lock"
  flock 8
  mine=$(slot)
  if id=$(taken "$mine"); then
    fail "it has such a fault already, $id"
  fi
  with_disks give_room
  trap undo EXIT
  (umask 077 && mkdir "$dir")
  exec 7>"$dir/lock"
  flock 7 # whoever heals it waits until all of it is applied
  printf '%s\n' "$FAULT_HEAL" >"$dir/heal.sh"
  read -r up _ </proc/uptime
  keep id "$FAULT_ID"
  keep kind "$FAULT_KIND"
  keep spec "$FAULT_SPEC"
  keep slot "$mine"
  keep as_root "$as_root"
  keep boot "$(cat /proc/sys/kernel/random/boot_id)"
  keep ends "$((${up%.*} + FAULT_SECONDS))" # of the clock that nobody steps
}

# arm has the node itself heal the fault when its time is up, whatever becomes of this connection, and when it starts again before.
arm() {
  local timer=no unit=hive-test-fault-$FAULT_ID at_start
  at_start=$root/etc/systemd/system/$unit-restart.service
  if [ "$as_root" = yes ] && has_systemd; then
    timer=yes
    keep timer "$unit.timer"
    keep at_start "$at_start"
  fi
  mv "$dir/vars.new" "$dir/vars"
  if [ "$timer" = yes ]; then
    # What systemctl enable does, but for reading all units anew: it counts at the next start.
    # shellcheck disable=SC2016 # the inner shell expands these
    restart_unit | "${admin[@]}" bash -c '
      wants=${1%/*}/multi-user.target.wants
      cat >"$1" && mkdir -p "$wants" && ln -sf "$1" "$wants/"
    ' arm "$at_start"
    "${admin[@]}" systemd-run --quiet --collect --unit="$unit" --on-active="${FAULT_SECONDS}s" \
      --timer-property=AccuracySec=100ms bash "$dir/heal.sh" "$dir" 7>&- 8>&-
  else
    in_background bash "$dir/heal.sh" "$dir" wait
  fi
}

# restart_unit prints what heals the fault after a restart, which systemd's timer does not outlive.
restart_unit() {
  local path=${dir//%/%%}
  printf '[Unit]\nDescription=Ends the fault %s of hive-test after a restart\n' "$FAULT_ID"
  printf 'ConditionPathExists=%s/vars\nRequiresMountsFor="%s"\nAfter=dbus.service\n' "$path" "$path"
  printf '[Service]\nType=oneshot\nExecStart=/bin/bash "%s/heal.sh" "%s"\n' "$path" "$path"
  printf '[Install]\nWantedBy=multi-user.target\n'
}

# undo takes back what was applied in part. Disks that are full are so again.
undo() {
  local code=$?
  trap - EXIT
  exec 7>&-
  if [ "$code" != 0 ] && [ -f "$dir/vars" ]; then
    "${as[@]}" bash "$dir/heal.sh" "$dir" || true
  elif [ "$code" != 0 ]; then
    rm -rf "$dir"
  fi
  with_disks fill_again
  exit "$code"
}

prepare_process() {
  name=$(service_name "$FAULT_SERVICE")
  pid=$(running "$name")
  [ "$pid" != 0 ] || fail "$name is about to start"
  look_up "$pid"
  keep act "$FAULT_ACT"
  if [ "$layout" = systemd ]; then
    keep unit "$(unit_of "$name")"
    return
  fi
  keep pid "$pid"
  keep since "$since"
  if [ "$FAULT_ACT" = kill ]; then # it is started again as it was
    keep pid_file "$log_dir/$name.pid"
    keep log "$log_dir/$name.log"
    keep cwd "$(readlink "/proc/$pid/cwd")"
    (umask 077 && cp "/proc/$pid/environ" "$dir/environ" && cp "/proc/$pid/cmdline" "$dir/cmdline")
  fi
}

apply_process() {
  case $layout-$FAULT_ACT in
  systemd-pause) "${admin[@]}" systemctl kill --signal=STOP "$(unit_of "$name")" ;;
  systemd-kill)
    "${admin[@]}" systemctl kill --signal=KILL "$(unit_of "$name")"
    "${admin[@]}" systemctl stop "$(unit_of "$name")" # else it would be started again at once
    ;;
  *-pause) kill -STOP "$pid" ;;
  *-kill) kill -KILL "$pid" ;;
  esac
}

# in_background COMMAND... runs a command that outlives the connection. Without the mark of this one it is not ended with it.
in_background() {
  "${as[@]}" env -u HIVE_TEST_RUN setsid -f "$@" </dev/null >/dev/null 2>&1 7>&- 8>&-
}

# sets prints the sets of a table that hold the peers' addresses.
sets() {
  local four='' six='' peer
  for peer in $FAULT_PEERS; do
    case $peer in
    *:*) six=${six:+$six, }$peer ;;
    *) four=${four:+$four, }$peer ;;
    esac
  done
  printf 'set four { type ipv4_addr; %s}\n' "${four:+elements = { $four \}; }"
  printf 'set six { type ipv6_addr; %s}\n' "${six:+elements = { $six \}; }"
}

# chain NAME HOOK PRIORITY SIDE ACTION prints a chain that does so with what goes to (daddr) or comes from (saddr) the peers, but for
# SSH, by which hive-test and bastions come.
chain() {
  printf 'chain %s {\ntype filter hook %s priority %s; policy accept;\n' "$1" "$2" "$3"
  printf 'tcp dport { %s } accept\ntcp sport { %s } accept\n' "$FAULT_PORTS" "$FAULT_PORTS"
  printf 'ip %s @four %s\nip6 %s @six %s\n}\n' "$4" "$5" "$4" "$5"
}

# add_table NAME makes a table of the chains on standard input, in place of one that is left.
add_table() {
  {
    printf 'add table inet %s\ndelete table inet %s\ntable inet %s {\n' "$1" "$1" "$1"
    sets
    cat
    printf '}\n'
  } | "${admin[@]}" nft -f -
}

prepare_partition() {
  keep table hive_test_partition
}

# Each side hears nothing of the other: who sends gets no error, as when a cable is cut.
apply_partition() {
  chain in input -150 saddr 'counter drop' | add_table hive_test_partition
}

prepare_link() {
  keep table hive_test_link
  keep devices "$(shaped && devices | tr '\n' ' ')"
}

apply_link() {
  local device
  {
    if [ "$FAULT_LOSS" = 10000 ]; then # nft knows numbers below the modulus only
      chain in input -150 saddr 'counter drop'
    elif [ "$FAULT_LOSS" != 0 ]; then
      chain in input -150 saddr "numgen random mod 10000 < $FAULT_LOSS counter drop"
    fi
    if shaped; then
      chain out postrouting 300 daddr 'meta priority set 7e57:10'
    fi
  } | add_table hive_test_link
  if shaped; then
    for device in $(devices); do
      shape "$device"
    done
  fi
  if [ "$FAULT_DOWN" != 0 ]; then
    { chain in input -150 saddr 'counter drop' && chain out postrouting 300 daddr 'counter drop'; } >"$dir/down.chains"
    { printf 'add table inet hive_test_link_down\ndelete table inet hive_test_link_down\ntable inet hive_test_link_down {\n' &&
      sets && cat "$dir/down.chains" && printf '}\n'; } >"$dir/down.nft"
    in_background bash "$dir/heal.sh" "$dir" flap "$(milliseconds "$FAULT_UP")" "$(milliseconds "$FAULT_DOWN")"
  fi
}

# milliseconds N prints it in seconds.
milliseconds() {
  printf '%d.%03d\n' "$(($1 / 1000))" "$(($1 % 1000))"
}

# shape DEVICE delays and slows what is marked for the class 7e57:10. All else goes on as if nothing was there.
shape() {
  local rate=${FAULT_RATE}bit quantum=1514 leaf=(pfifo limit "$FAULT_LIMIT")
  if [ "$FAULT_RATE" = 0 ]; then
    rate=100gbit
  fi
  if [ "$FAULT_RATE" = 0 ] || [ "$FAULT_RATE" -ge 10000000 ]; then
    quantum=60000
  fi
  if [ "$FAULT_DELAY" != 0 ]; then
    leaf=(netem limit "$FAULT_LIMIT" delay "${FAULT_DELAY}us")
    if [ "$FAULT_JITTER" != 0 ]; then
      leaf+=("${FAULT_JITTER}us")
    fi
  fi
  "${admin[@]}" tc qdisc replace dev "$1" root handle 7e57: htb default 0
  "${admin[@]}" tc class add dev "$1" parent 7e57: classid 7e57:10 htb rate "$rate" quantum "$quantum"
  "${admin[@]}" tc qdisc add dev "$1" parent 7e57:10 handle 7e58: "${leaf[@]}"
}

prepare_disk() {
  local free available size
  read -r free available size < <("${admin[@]}" stat -f -c '%f %a %S' -- "$FAULT_PATH")
  keep file "$FAULT_PATH/.hive-test-fault-$FAULT_ID"
  keep leave "$FAULT_FREE"
  keep reserved "$(((free - available) * size))" # for root
}

apply_disk() {
  fill "$FAULT_PATH/.hive-test-fault-$FAULT_ID" "$FAULT_FREE"
}

# with_disks COMMAND calls it with the file, the room that is left and the room that is root's for each disk that is full already:
# a record may be on it.
with_disks() {
  local vars
  for vars in "$faults"/*/vars; do
    if [ -f "$vars" ]; then
      ( # it may be healed just now
        kind='' leave=0 reserved=0
        . "$vars" && [ "$kind" = disk ] && "$1" "$file" "$leave" "$reserved"
      ) 2>/dev/null || true
    fi
  done
}

# give_room FILE LEAVE RESERVED takes as much from such a file as a record needs. Where nothing is left, root's room comes first.
give_room() {
  "${admin[@]}" truncate -c -s "-$(((128 << 10) + ($2 > 0 ? 0 : $3)))" -- "$1"
}

# fill_again FILE LEAVE takes what is left of that.
fill_again() {
  ! "${admin[@]}" test -f "$1" || fill "$1" "$2"
}

# fill FILE LEAVE makes that file as large as the disk has room, but for so many bytes: what is left is for those who are not root.
fill() {
  # shellcheck disable=SC2016 # the inner shell expands these
  "${admin[@]}" bash -c '
    set -u
    file=$1 leave=$2 free=%f
    [ "$leave" = 0 ] || free=%a # without what is reserved for root
    : >>"$file" || exit 1
    free() { local blocks size; read -r blocks size < <(stat -f -c "$free %S" -- "$file"); echo $((blocks * size - leave)); }
    want=$(free)
    # What that cannot do, because of what files cost beside their content, is written.
    [ "$want" -le 0 ] || fallocate -o "$(stat -c %s -- "$file")" -l "$want" -- "$file" 2>/dev/null || true
    while want=$(free) && [ "$want" -gt 0 ]; do
      head -c "$want" /dev/zero >>"$file" 2>/dev/null || break
    done
    exit 0
  ' disk "$1" "$2"
}

# wall_less_uptime prints by how many hundredths of a second the clock is ahead of the one that nobody steps.
wall_less_uptime() {
  local up now
  read -r up _ </proc/uptime
  now=$(date +%s%N)
  printf '%s\n' "$((now / 10000000 - ${up%.*} * 100 - 10#${up#*.}))"
}

prepare_clock() {
  ntp=no
  if command -v timedatectl >/dev/null && [ "$(timedatectl show --property=NTP --value 2>/dev/null)" = yes ]; then
    ntp=yes
  fi
  keep ntp "$ntp"
  keep ntp_unit "$(ntp_unit)"
  keep ahead "$(wall_less_uptime)"
}

# ntp_unit prints the unit that sets the clock, of those that timedatectl knows; nothing where none runs.
ntp_unit() {
  local unit
  [ "$ntp" = yes ] || return 0
  for unit in $(cat "$root"/{etc,run,usr/lib}/systemd/ntp-units.d/*.list 2>/dev/null | grep -v '^#'); do
    if systemctl --quiet is-active "$unit"; then
      printf '%s\n' "$unit"
      return
    fi
  done
}

apply_clock() {
  local now
  if [ "$ntp" = yes ]; then
    "${admin[@]}" timedatectl set-ntp false
  fi
  now=$(date +%s.%N)
  "${admin[@]}" date --set="@$((${now%.*} + FAULT_STEP)).${now#*.}" >/dev/null
}

begin
"prepare_$FAULT_KIND"
arm
"apply_$FAULT_KIND"
