# heal.sh DIR [wait]: heals the fault whose record is DIR, at once or when its time is up, and removes the record. It stands alone, for
# it outlives who has put it there, and it may run several times at once. heal.sh DIR flap UP DOWN takes a link down for DOWN seconds
# after each UP, until it is healed.
set -uo pipefail

dir=$1
export PATH=$PATH:/usr/sbin:/sbin

# now prints for how many seconds the node has run.
now() {
  local up
  read -r up _ </proc/uptime
  printf '%s\n' "${up%.*}"
}

# tick sets ticks to for how many hundredths of a second the node has run: the clock may be stepped.
tick() {
  local up
  read -r up _ </proc/uptime
  ticks=$((10#${up%.*} * 100 + 10#${up#*.}))
}

# pause SECONDS waits until so long after the end of the pause before, and no longer than the fault lasts.
pause() {
  end=$((end + 10#${1/./} / 10))
  while tick && [ -f "$dir/vars" ] && [ "$ticks" -lt "$end" ]; do
    sleep 0.05
  done
  if [ "$ticks" -gt "$((end + 100))" ]; then # it was kept from running: there is nothing to catch up with
    end=$ticks
  fi
  [ -f "$dir/vars" ]
}

if [ "${2:-}" = flap ]; then
  tick
  end=$ticks
  while pause "$3"; do
    nft -f "$dir/down.nft" 2>/dev/null || break
    pause "$4" || true
    nft delete table inet hive_test_link_down 2>/dev/null
  done
  exit 0
fi
if [ "${2:-}" = wait ]; then
  # shellcheck source=/dev/null
  . "$dir/vars" || exit 1
  while [ -d "$dir" ] && [ "$(now)" -lt "$ends" ]; do
    sleep 0.5
  done
fi
{ exec 9<"$dir/lock"; } 2>/dev/null || exit 0 # it is healed
flock 9
[ -f "$dir/vars" ] || exit 0
timer=
at_start=
ntp_unit=
# shellcheck source=/dev/null
. "$dir/vars"
same_boot=no
if [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ]; then
  same_boot=yes
fi

# runs PID SINCE succeeds if that process is the one that began then.
runs() {
  local stat
  { read -r -d '' stat <"/proc/$1/stat"; } 2>/dev/null || [ -n "${stat:-}" ] || return 1
  stat=${stat##*) }
  # shellcheck disable=SC2086 # the fields are wanted as words
  set -- $stat "$2"
  [ "$1" != Z ] && [ "${20}" = "${!#}" ]
}

heal_process() {
  local pid_now words=() variables=()
  [ "$same_boot" = yes ] || return 0
  case ${unit:+unit}-$act in
  unit-pause) systemctl kill --signal=CONT "$unit" ;;
  unit-kill) systemctl reset-failed "$unit" 2>/dev/null || true; systemctl start --no-block "$unit" ;;
  -pause) ! runs "$pid" "$since" || kill -CONT "$pid" ;;
  -kill)
    # Where it was configured anew, or is started already, there is nothing to do.
    read -r pid_now <"$pid_file" && [ "$pid_now" = "$pid" ] && ! runs "$pid" "$since" || return 0
    { mapfile -d '' words <"$dir/cmdline"; } 2>/dev/null
    if [ "${#words[@]}" = 0 ]; then
      echo "how it was started is lost: $dir/cmdline"
      return 1
    fi
    mapfile -d '' variables < <(grep -zv '^HIVE_TEST_RUN=' "$dir/environ")
    cd "$cwd" || return
    setsid env -i "${variables[@]}" "${words[@]}" </dev/null >>"$log" 2>&1 9<&- &
    printf '%s\n' "$!" >"$pid_file"
    ;;
  esac
}

# drop_table NAME removes that table, where it is there.
drop_table() {
  nft "add table inet $1; delete table inet $1"
}

heal_partition() {
  drop_table "$table"
}

heal_link() {
  local device
  drop_table "$table" && drop_table hive_test_link_down || return
  for device in $devices; do
    if [[ $(tc qdisc show dev "$device" 2>/dev/null) == *'htb 7e57: root'* ]]; then
      tc qdisc del dev "$device" root || return
    fi
  done
}

heal_disk() {
  rm -f -- "$file"
}

heal_clock() {
  local ticks wall
  if [ "$same_boot" = yes ]; then
    tick
    wall=$((ahead + ticks))
    date --set="@$(printf '%d.%02d' "$((wall / 100))" "$((wall % 100))")" >/dev/null || return
  fi
  if [ "$ntp" = yes ]; then
    timedatectl set-ntp true || timedatectl set-ntp true || return # a busy node may take longer than it waits
  fi
  if [ -n "$ntp_unit" ]; then # timedatectl does not say whether that starts; on a full disk it may not
    systemctl reset-failed "$ntp_unit" 2>/dev/null
    systemctl start "$ntp_unit"
  fi
}

if ! said=$("heal_$kind" 2>&1 9<&-); then
  printf '%s\n' "${said:-it could not be healed}" >"$dir/error"
  printf '%s\n' "${said:-it could not be healed}" >&2
  exit 1
fi
if [ -n "$at_start" ]; then
  rm -f -- "$at_start" "${at_start%/*}/multi-user.target.wants/${at_start##*/}"
fi
rm -rf "$dir"
if [ "$kind" = link ]; then # of one that was taken down just now
  drop_table hive_test_link_down 2>/dev/null
fi
if [ -n "$timer" ]; then
  systemctl stop "$timer" 2>/dev/null || true
fi
