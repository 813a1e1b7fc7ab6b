# Stands before every node script. It defines no step of its own.
#
# HIVE_LAYOUT      how hive is installed: dev (in ~/hive, started by these scripts), systemd (as its own setup.sh does: units, data in
#                  /var/lib, configuration in /etc) or auto (default): systemd where hive's units are there, else dev
# HIVE_DIR         hive's data on the node (default ~/hive; in the layout systemd, as the next two, what is there)
# HIVE_BIN         the hive program (default $HIVE_DIR/bin/hive)
# HIVE_CONFIG_DIR  hive's configuration (default $HIVE_DIR/config)
# HIVE_PORT        port of the daemon and of formation (default 4432)
# HIVE_BIND        the node's own address
# HIVE_SOURCE_DIR  where hive's source is, if it was built here (default ~/Development/mulga/hive)
# HIVE_ROOT        stands before the paths of the system, for tests (default empty)
# HIVE_VERSION, HIVE_COMMIT  what a program that is built here says of itself (default: what git says of the source)
# HIVE_NAMED       what the user calls the program or the release that is installed (default: its path)
# HIVE_QUICKINSTALL  no: a build does not install the packages that it needs
set -euo pipefail

root=${HIVE_ROOT:-}
admin=() # stands before commands that need root
if [ "$EUID" != 0 ]; then
  admin=(sudo -n)
fi
privileged=() # stands before commands that touch what is root's in this layout: nothing in the layout dev
product=      # hive or spinifex: units, users and directories have it in their names

# has_systemd succeeds if systemd runs this node. Simulated nodes share files with the machine, whose systemd is not theirs.
has_systemd() {
  local first
  [ -z "${SIM_HOST_ROOT:-}" ] && [ -d "$root/run/systemd/system" ] &&
    read -r first 2>/dev/null <"$root/proc/1/comm" && [ "$first" = systemd ]
}

# find_units sets product, program and unit_dir to what hive's units here are called, what they run and where they are; it fails where
# there are none.
find_units() {
  local unit
  for unit in "$root"/{etc,usr/local/lib,usr/lib,lib}/systemd/system/*-nats.service; do
    [ -f "$unit" ] || continue
    program=$(sed -n 's/^ExecStart=\([^ ]*\) service nats start.*/\1/p' "$unit")
    if [ -n "$program" ]; then
      unit_dir=${unit%/*}
      product=${unit##*/}
      product=${product%-nats.service}
      return
    fi
  done
  return 1
}

# use_units makes the paths those of hive's units; it fails where there are none.
use_units() {
  find_units || return 1
  HIVE_DIR=$root/var/lib/$product
  HIVE_CONFIG_DIR=$root/etc/$product
  HIVE_BIN=$root$program
}

run_dir=${HIVE_DIR:-$HOME/hive}/run # what hive-test remembers on the node
log_dir=${HIVE_DIR:-$HOME/hive}/logs
layout=${HIVE_LAYOUT:-auto}
if [ "$layout" != dev ]; then
  if has_systemd && use_units; then
    layout=systemd
  elif [ "$layout" = auto ]; then
    layout=dev
  fi
fi
if [ "$layout" = systemd ]; then
  privileged=("${admin[@]}")
fi
HIVE_DIR=${HIVE_DIR:-$HOME/hive}
HIVE_BIN=${HIVE_BIN:-$HIVE_DIR/bin/hive}
HIVE_CONFIG_DIR=${HIVE_CONFIG_DIR:-$HIVE_DIR/config}
HIVE_PORT=${HIVE_PORT:-4432}
HIVE_SOURCE_DIR=${HIVE_SOURCE_DIR:-$HOME/Development/mulga/hive}

# Hive itself takes any HIVE_* variable of its environment as a setting (HIVE_PORT would move its services): these stay
# variables of the script and are not handed on.
for name in $(compgen -A export HIVE_); do
  export -n "${name?}"
done
PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin # a login without a terminal lacks them
export PATH

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# lock_holder reads what a program has complained of and prints which lock of apt's somebody else holds, and who; nothing where that is
# not what it complains of. Early versions of apt do not say who: the kernel does.
lock_holder() {
  local text file pid name
  text=$(sed -n '/Could not get lock /{s/.*Could not get lock //p;q;}')
  if [ -z "$text" ]; then
    return
  fi
  file=${text%% *}
  file=${file%.}
  pid=$(sed -n 's/.*held by process \([0-9]*\).*/\1/p' <<<"$text")
  if [ -z "$pid" ]; then
    pid=$(awk -v inode="$(stat -c %i "$root$file" 2>/dev/null)" \
      '$2 != "->" { n = split($6, at, ":"); if (at[n] == inode) { print $5; exit } }' "$root/proc/locks" 2>/dev/null) || true
  fi
  if [ -z "$pid" ]; then
    printf '%s is held by another program\n' "$file"
    return
  fi
  name=$(tr '\0' ' ' 2>/dev/null <"$root/proc/$pid/cmdline") || name=
  name=${name:-$(sed -n 's/.*(\(.*\)).*/\1/p' <<<"$text")}
  printf '%s is held by process %s (%s)\n' "$file" "$pid" "${name% }"
}

apt_tries=60  # with 10 seconds between them: timers of the system's own take minutes after a first boot
apt_blocked=  # who holds a lock of apt's still, after the last of them

# through_apt CMD... runs a command that uses apt, and again while somebody else holds one of apt's locks: DPkg::Lock::Timeout waits for
# those of dpkg only, and not for those of the lists and of the archives.
through_apt() {
  local try holder told='' said
  said=$(mktemp)
  for ((try = 1; ; try++)); do
    if [ "$try" = 1 ]; then
      if { "$@" 2>&1 1>&3 | tee "$said" >&2; } 3>&1; then break; fi
    elif "$@" 2>"$said"; then
      break
    fi
    holder=$(lock_holder <"$said")
    if [ -z "$holder" ] || [ "$try" -ge "$apt_tries" ]; then
      [ "$try" = 1 ] || cat "$said" >&2
      apt_blocked=$holder
      rm -f "$said"
      return 1
    fi
    if [ "$holder" != "$told" ]; then
      printf 'waiting for apt: %s\n' "$holder"
      told=$holder
    fi
    sleep 10
  done
  rm -f "$said"
}

# is_file PATH succeeds if hive has such a file, which may be root's.
is_file() {
  "${privileged[@]}" test -f "$1"
}

# show PATH prints a file of hive's.
show() {
  "${privileged[@]}" cat "$1"
}

# config_file prints the path of hive's configuration file, whose name changed with the program's; nothing if none is there.
config_file() {
  local name
  for name in hive.toml spinifex.toml; do
    if is_file "$HIVE_CONFIG_DIR/$name"; then
      printf '%s\n' "$HIVE_CONFIG_DIR/$name"
      return
    fi
  done
}

# keep_secrets DIR copies what this node keeps secret, as far as it is there, so that its values can be taken out of everything
# that is shown or kept. A join token that is no longer valid is still in the log of init.
keep_secrets() {
  local file
  for file in "$HOME/.aws/credentials" "$HIVE_CONFIG_DIR/join-token" "$HIVE_CONFIG_DIR/master.key" \
    "$HIVE_CONFIG_DIR/ca.key" "$HIVE_CONFIG_DIR/server.key" "$HIVE_CONFIG_DIR/hive.toml" "$HIVE_CONFIG_DIR/spinifex.toml" \
    "$HIVE_CONFIG_DIR/system-credentials.json" "$HIVE_CONFIG_DIR/bootstrap.json" "$HIVE_CONFIG_DIR/nats/nats.conf" \
    "$HIVE_CONFIG_DIR/predastore/predastore.toml" "$HIVE_DIR/bootstrap.json"; do
    if is_file "$file" && "${privileged[@]}" test -r "$file"; then
      show "$file" >"$1/${file##*/}"
    fi
  done
  if is_file "$HIVE_DIR/awsgw/bootstrap.json"; then
    show "$HIVE_DIR/awsgw/bootstrap.json" >"$1/awsgw-bootstrap.json"
  fi
  if [ -f "$log_dir/init.log" ]; then
    grep -oh 'spx_join_[A-Za-z0-9_-]*' "$log_dir/init.log" >"$1/join-token.logged" || true
  fi
}

# look_up PID sets since to when that process began (ticks since boot), and to nothing if it has ended or only waits to be reaped (one
# whose first thread waits for the others to end still has its files and ports: it has not ended); and
# stopped to yes or no, as a signal has stopped it or not. It is asked in loops: what it finds is not printed, for a process that reads
# it would cost more than all else.
look_up() {
  local stat pid=$1 threads
  since=
  stopped=no
  { read -r -d '' stat <"/proc/$1/stat"; } 2>/dev/null || [ -n "${stat:-}" ] || return 0
  stat=${stat##*) }
  # shellcheck disable=SC2086 # the fields are wanted as words
  set -- $stat
  threads=()
  if [ "$1" = Z ]; then
    threads=("/proc/$pid/task/"*)
  fi
  if [ "$1" != Z ] || [ "${#threads[@]}" -gt 1 ]; then
    since=${20}
  fi
  if [ "$1" = T ]; then
    stopped=yes
  fi
}

# private FILE empties a file, or makes it, so that only its owner can read it: what programs print may hold secrets.
private() {
  (umask 077 && : >"$1")
  chmod 600 "$1"
}

# background NAME COMMAND... runs a command that outlives the connection: log, process id and exit status are kept.
background() {
  local name=$1 pid
  shift
  mkdir -p "$log_dir" "$run_dir"
  rm -f "$run_dir/$name.exit" "$run_dir/$name.pid"
  private "$log_dir/$name.log"
  # shellcheck disable=SC2016 # the inner shell expands these
  setsid bash -c 'out=$1; shift; code=0; "$@" || code=$?; echo "$code" >"$out.new"; mv "$out.new" "$out"' \
    background "$run_dir/$name.exit" "$@" </dev/null >>"$log_dir/$name.log" 2>&1 &
  pid=$!
  look_up "$pid"
  printf '%s %s\n' "$pid" "$since" >"$run_dir/$name.pid"
}

# is_background NAME succeeds while that command runs, and prints its process id. The start time tells it from a later
# process with the same id.
is_background() {
  local pid began
  [ -f "$run_dir/$1.pid" ] || return 1
  read -r pid began <"$run_dir/$1.pid" || return 1
  look_up "$pid"
  [ -n "$began" ] && [ "$since" = "$began" ] || return 1
  printf '%s\n' "$pid"
}

# await NAME SECONDS waits until that command has ended and returns its exit status: 124 if it still runs then, 125 if
# it ended without one (it was killed, or the node was restarted).
await() {
  local name=$1 end=$((SECONDS + $2))
  while [ ! -f "$run_dir/$name.exit" ]; do
    if ! is_background "$name" >/dev/null; then
      sleep 0.1 # between its end and the file's appearance
      [ -f "$run_dir/$name.exit" ] || return 125
    elif [ "$SECONDS" -ge "$end" ]; then
      return 124
    fi
    sleep 0.05
  done
  return "$(cat "$run_dir/$name.exit")"
}

# end NAME ends that command and all that it has started.
end() {
  local pid i
  pid=$(is_background "$1") || return 0
  "${privileged[@]}" kill -TERM -- "-$pid" 2>/dev/null || true
  for ((i = 0; i < 100; i++)); do
    is_background "$1" >/dev/null || return 0
    sleep 0.05
  done
  "${privileged[@]}" kill -KILL -- "-$pid" 2>/dev/null || true
}

# listens ADDRESS succeeds if something accepts connections on the daemon's port there.
listens() {
  accepts "$1" "$HIVE_PORT"
}

# help_of COMMAND... prints what hive says of a command's flags, which differ by command and age.
help_of() {
  "$HIVE_BIN" "$@" --help 2>&1 </dev/null || true
}

# directory_flag FLAG... prints the first of these flags that the help text on standard input lists. The flags of init and of join
# have different names, and join lists those of init too, which it ignores.
directory_flag() {
  local flag help
  help=$(cat)
  for flag in "$@"; do
    if [[ $help == *"$flag "* ]]; then
      printf '%s\n' "$flag"
      return
    fi
  done
}

# era prints the name of hive's own service, which the program was renamed with: hive or spinifex. Configuration file, log and
# variables have it in their names.
era() {
  if [[ $(help_of service) =~ (^|[[:space:]])spinifex[[:space:]] ]]; then
    printf 'spinifex\n'
  else
    printf 'hive\n'
  fi
}

# SERVICES are hive's services in the order in which they stop: each before those that it needs. The daemon writes its state
# through NATS when it ends, and waits 10 seconds for one that is gone.
SERVICES=(vpcd awsgw hive-ui spinifex-ui hive spinifex viperblock predastore nats)

# unit_of NAME prints the unit of that service.
unit_of() {
  case $1 in
  hive | spinifex) printf '%s-daemon.service\n' "$product" ;;
  hive-ui | spinifex-ui) printf '%s-ui.service\n' "$product" ;;
  *) printf '%s-%s.service\n' "$product" "$1" ;;
  esac
}

# unit_runs NAME prints the process id of that service if it runs, and 0 while systemd is about to start it, again or at first.
unit_runs() {
  local line state='' pid=0
  while IFS= read -r line; do
    case $line in
    ActiveState=*) state=${line#*=} ;;
    MainPID=*) pid=${line#*=} ;;
    esac
  done < <(systemctl show --property=ActiveState,MainPID "$(unit_of "$1")" 2>/dev/null)
  case $state in
  active | reloading | deactivating) printf '%s\n' "$pid" ;;
  activating) printf '0\n' ;;
  *) return 1 ;;
  esac
}

# unsteady NAME succeeds where systemd has started that service again in the last 10 seconds, because it had ended, and prints so: it
# may end again.
unsteady() {
  local line restarts=0 since=0 up
  while IFS= read -r line; do
    case $line in
    NRestarts=*) restarts=${line#*=} ;;
    ActiveEnterTimestampMonotonic=*) since=${line#*=} ;; # in microseconds
    esac
  done < <(systemctl show --property=NRestarts,ActiveEnterTimestampMonotonic "$(unit_of "$1")" 2>/dev/null)
  read -r up _ <"/proc/uptime"
  if [ "${restarts:-0}" -gt 0 ] && [ "$((${up%.*} - ${since:-0} / 1000000))" -lt 10 ]; then
    printf 'it has ended, and systemd has started it again, %s times by now' "$restarts"
    return
  fi
  return 1
}

# journal NAME LINES prints the end of what that service has printed: lines of the journal without their heads.
journal() {
  "${admin[@]}" journalctl --no-pager --quiet --output=cat --unit="$(unit_of "$1")" --lines="$2" 2>/dev/null
}

# last_line NAME prints the last line of that service's log.
last_line() {
  if [ "$layout" = systemd ]; then
    # What systemd itself says of the unit is not its log.
    "${admin[@]}" journalctl --no-pager --quiet --output=cat --lines=1 "_SYSTEMD_UNIT=$(unit_of "$1")" 2>/dev/null || true
  else
    tail -n 1 "$log_dir/$1.log"
  fi
}

# running NAME prints the process id of that service if it runs.
running() {
  if [ "$layout" = systemd ]; then
    unit_runs "$1"
  else
    process_runs "$1"
  fi
}

# process_runs NAME is running in the layout dev. The number in a pid file may be another process's by now.
process_runs() {
  local pid words i
  [ -f "$log_dir/$1.pid" ] && read -r pid <"$log_dir/$1.pid" || return 1
  for ((i = 0; i < 50; i++)); do
    [[ $pid =~ ^[0-9]+$ ]] || return 1
    look_up "$pid"
    [ -n "$since" ] || return 1
    { mapfile -d '' words <"/proc/$pid/cmdline"; } 2>/dev/null || return 1
    [ "${#words[@]}" = 0 ] || break # it has none while it becomes another program, which takes a moment on a busy node
    sleep 0.01
  done
  [[ ${words[*]} =~ hive|spinifex|spx|nats|predastore|viperblock|awsgw|vpcd ]] || return 1
  printf '%s\n' "$pid"
}

# accepts HOST PORT succeeds if something accepts connections there.
accepts() {
  local host=${1#[}
  { : <>"/dev/tcp/${host%]}/$2"; } 2>/dev/null
}

# hangs NAME PID ADDRESS SECONDS succeeds, and prints why, if that service, whose process that is, does nothing any more: a signal has
# stopped it, or it accepts connections at ADDRESS (- if it has none) and says nothing for so long. NATS speaks first; the others are
# HTTP servers, with TLS or without, that answer any line.
hangs() {
  local host=${3%:*} code=0
  look_up "$2"
  if [ "$stopped" = yes ]; then
    printf 'a signal has stopped its process'
    return
  fi
  [ "$3" != - ] || return 1
  host=${host#[}
  (
    trap '' PIPE # one that has gone does not hang
    exec 3<>"/dev/tcp/${host%]}/${3##*:}"
    [ "$1" = nats ] || printf 'GET / HTTP/1.0\r\n\r\n' >&3
    read -r -t "$4" -n 1 -u 3
  ) >/dev/null 2>&1 || code=$?
  [ "$code" -gt 128 ] || return 1 # of read: the time is up
  printf 'it accepts connections at %s and answers nothing' "$3"
}

# end_hung NAME ADDRESS ends that service where it runs and hangs, so that it can be started anew, and prints a line "hung NAME WHY".
end_hung() {
  local pid why i
  pid=$(running "$1") && [ "$pid" != 0 ] || return 0
  why=$(hangs "$1" "$pid" "$2" 10) || return 0
  printf 'hung %s %s\n' "$1" "$why"
  if [ "$layout" = systemd ]; then
    "${admin[@]}" systemctl kill --signal=KILL "$(unit_of "$1")"
  else
    kill -KILL "$pid" 2>/dev/null || true
  fi
  for ((i = 0; i < 250; i++)); do
    look_up "$pid"
    if [ -z "$since" ]; then
      return
    fi
    sleep 0.02
  done
}

# trust_cluster lets what is started from here trust the cluster's CA: services dial one another over TLS, and only root can put
# the CA into the system's store.
trust_cluster() {
  local file bundle=$run_dir/ca-bundle.pem
  if [ "$layout" = systemd ]; then
    return # init and join run as root there, and have done it
  fi
  mkdir -p "$run_dir"
  {
    for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
      if [ -f "$file" ]; then
        cat "$file"
        break
      fi
    done
    cat "$HIVE_CONFIG_DIR/ca.pem"
  } >"$bundle.$$"
  mv "$bundle.$$" "$bundle"
  export SSL_CERT_FILE=$bundle
}

# start_service NAME VARIABLE=VALUE... starts that service, unless it runs, so that it outlives the connection. Its log and its pid
# file are where upstream's own scripts have them. A unit has its own variables.
start_service() {
  local name=$1 pid i
  shift
  if running "$name" >/dev/null; then
    return
  fi
  if [ "$layout" = systemd ]; then
    start_unit "$name"
    return
  fi
  private "$log_dir/$name.log"
  cd "$HIVE_DIR" # early services leave files in the directory in which they are started
  setsid env "$@" "$HIVE_BIN" service "$name" start </dev/null >>"$log_dir/$name.log" 2>&1 &
  pid=$!
  printf '%s\n' "$pid" >"$log_dir/$name.pid"
  # Until the new process is another program, it looks like this one.
  for ((i = 0; i < 100; i++)); do
    if running "$name" >/dev/null; then
      return
    fi
    look_up "$pid"
    if [ -z "$since" ]; then
      return
    fi
    sleep 0.01
  done
}

# keep_starting NAME ADDRESS STARTS SECONDS COMMAND waits until that service, which was started, accepts connections there, and starts
# it again by COMMAND where it ends instead, STARTS times in all at most. Prints a line "again NAME N LAST-LINE-OF-ITS-LOG" before the Nth start. Whether it runs
# in the end is for the caller to see; one that runs and accepts nothing when the time is up is left to the judgement of health.
keep_starting() {
  local name=$1 address=$2 limit=$3 end=$((SECONDS + $4)) command=$5 starts
  for ((starts = 1; ; starts++)); do
    while running "$name" >/dev/null; do
      if accepts "${address%:*}" "${address##*:}" || [ "$SECONDS" -ge "$end" ]; then
        return
      fi
      sleep 0.05
    done
    if [ "$starts" -ge "$limit" ]; then
      return
    fi
    printf 'again %s %s %s\n' "$name" "$((starts + 1))" "$(last_line "$name")"
    sleep "0.$starts"
    "$command"
  done
}

# start_unit NAME has systemd start that service and returns when it does so: the service may wait for others.
start_unit() {
  local i unit
  unit=$(unit_of "$1")
  "${admin[@]}" systemctl reset-failed "$unit" 2>/dev/null || true
  "${admin[@]}" systemctl start --no-block "$unit"
  for ((i = 0; i < 100; i++)); do
    if running "$1" >/dev/null; then
      return
    fi
    sleep 0.02
  done
}

# hand_over gives what init and join have written, as root, to the user of the units where all have the same one: early versions hand
# it over themselves only where a cluster has one node. Later ones have a user for each service, and always do.
hand_over() {
  local users
  users=$(sed -n 's/^User=//p' "$unit_dir/$product"-*.service | sort -u)
  if [ -n "$users" ] && [ "$users" != root ] && [[ $users != *$'\n'* ]]; then
    "${admin[@]}" chown -Rh "$users:" "$HIVE_CONFIG_DIR" "$HIVE_DIR"
  fi
}

# check_units ends the script where hive's units cannot work: those of early releases wait for NATS at 127.0.0.1, whatever address it
# was given.
check_units() {
  local address
  address=$(setting nats host)
  case $address in
  '' | 0.0.0.0:* | 127.0.0.1:*) return ;;
  esac
  if grep -q '^ExecStartPre=.*127\.0\.0\.1 4222' "$unit_dir/$product"-*.service; then
    fail "this release's units wait for NATS at 127.0.0.1 port 4222, but a cluster's NATS accepts connections at $address only: use a later release, or --layout dev"
  fi
}

# setting SECTION KEY prints a value of this node's section in hive's configuration, such as predastore host.
setting() {
  "${privileged[@]}" awk -v section="$1" -v key="$2" '
    /^\[/ { inside = ($0 == "[nodes." node "." section "]") }
    /^node *=/ && node == "" { split($0, part, /["\047]/); node = part[2] }
    inside && $1 == key { sub(/^[^=]*= */, ""); gsub(/["\047]/, ""); print; exit }' "$(config_file)"
}

# wanted SERVICE succeeds if hive's configuration lists that service for this node, or lists none.
wanted() {
  local listed
  listed=$("${privileged[@]}" grep -m1 '^services' "$(config_file)" || true)
  [ -z "$listed" ] || [[ $listed == *[\"\']$1[\"\']* ]]
}

# service_address SECTION PORT prints where that service accepts connections: as hive's configuration says, else at that port.
service_address() {
  local address
  address=$(setting "$1" host)
  address=${address:-$HIVE_BIND:$2}
  printf '%s\n' "${address/#0.0.0.0:/$HIVE_BIND:}"
}

# bridge_there succeeds if Open vSwitch has the bridge that OVN and vpcd need.
bridge_there() {
  command -v ovs-vsctl >/dev/null && "${admin[@]}" ovs-vsctl br-exists br-int 2>/dev/null
}

# ovn_script prints the path of hive's own script that sets up OVN, where there is one and it can work: it needs Open vSwitch and
# systemd.
ovn_script() {
  local script
  command -v ovs-vsctl >/dev/null && has_systemd || return 0
  for script in "$root/usr/local/share/${product:-}/setup-ovn.sh" "$HIVE_SOURCE_DIR/scripts/setup-ovn.sh" "$HIVE_DIR/bin/release/setup-ovn.sh"; do
    if [ -x "$script" ]; then
      printf '%s\n' "$script"
      return
    fi
  done
}

# need_systemd ends the script on a node that has none.
need_systemd() {
  has_systemd || fail "this node has no systemd (simulated nodes have none): use --layout dev"
}

# need_units ends the script where hive is not installed with units.
need_units() {
  need_systemd
  use_units || fail "hive is not installed with systemd units here: use a release that holds setup.sh (--tarball), or --layout dev"
}

# place_program FILE makes HIVE_BIN that program: the file itself where units are to run it, which see no homes.
place_program() {
  if [ "$layout" = systemd ]; then
    need_units
    "${privileged[@]}" install -m 0755 -- "$1" "$HIVE_BIN"
  else
    ln -sfn "$1" "$HIVE_BIN"
  fi
}

# refuse TEXT... ends the script as one that was given a program or a release that is not hive's.
refuse() {
  printf '%s\n' "$*" >&2
  exit 79
}

# tell_version PROGRAM prints the version of that program, and refuses one that does not answer as hive does.
tell_version() {
  local said code=0
  said=$("$1" version 2>&1 </dev/null) || code=$?
  if [ "$code" -ne 0 ] || ! grep -Eiq '^(hive|spinifex|spx)[: ]' <<<"$said"; then
    said=$(tail -n 3 <<<"$said" | head -c 500)
    refuse "${HIVE_NAMED:-$1} does not answer \`version\` as hive does: it exited with $code and said: ${said:-nothing}"
  fi
  printf '%s\n' "$said"
}

# plugin is where viperblock's plugin for nbdkit is, if the program came with one: beside HIVE_BIN, in the layout dev.
plugin=${HIVE_BIN%/*}/nbdkit-viperblock-plugin.so

# place_plugin FILE makes that lead to the file, if there is one. Nothing is put where its source would be cloned to: what is there
# already is not cloned.
place_plugin() {
  if [ "$layout" = dev ]; then
    rm -f -- "$plugin"
    if [ -f "$1" ]; then
      ln -s "$1" "$plugin"
    fi
  fi
}

# clear_source removes a source tree that was uploaded, not one that is somebody's own.
clear_source() {
  if [ -f "$HIVE_SOURCE_DIR/.uploaded" ]; then
    rm -rf --one-file-system -- "$HIVE_SOURCE_DIR"
  fi
}

# has_target NAME succeeds if the Makefile here has that target.
has_target() {
  grep -q "^$1:" Makefile
}

# pin NAME MODULES checks a sibling repository out at the version that MODULES, the text of go.mod, asks for: its default branch
# may not fit. It is fetched where that version is not known yet: versions do not change.
pin() {
  local version
  [ -d "../$1/.git" ] || return 0
  version=$(awk -v name="/$1\$" '$1 ~ name { print $2; exit }' <<<"$2")
  [ -n "$version" ] || return 0
  if ! check_out "$1" "$version" 2>/dev/null; then
    git -C "../$1" fetch --quiet --tags origin
    check_out "$1" "$version"
  fi
}

# check_out NAME VERSION checks that version of a sibling repository out: a tag, or the commit that ends a pseudo-version.
check_out() {
  git -C "../$1" checkout --quiet --force --detach "$2" 2>/dev/null ||
    git -C "../$1" checkout --quiet --force --detach "${2##*-}"
}

# made prints the program in bin that was made after the file MARK, or any where there is no such file.
made() {
  local name
  for name in hive spinifex spx; do
    if [ -x "bin/$name" ] && { [ ! -e "$1" ] || [ -n "$(find "bin/$name" -cnewer "$1")" ]; }; then
      printf '%s\n' "bin/$name"
      return
    fi
  done
}

# version_of_clone sets HIVE_VERSION and HIVE_COMMIT to what git says of the tree here, where nothing else is known of it.
version_of_clone() {
  if [ -z "${HIVE_VERSION:-}" ] && [ -d .git ]; then
    HIVE_VERSION=$(git describe --tags --always | tr -c 'A-Za-z0-9._+/\n-' '-')
    HIVE_COMMIT=$(git rev-parse --short HEAD)
  fi
}

# build_source builds hive in HIVE_SOURCE_DIR once, makes HIVE_BIN lead to it and prints its version. HIVE_VERSION and HIVE_COMMIT
# are what it says of itself. HIVE_QUICKINSTALL=no leaves out the packages that a build needs.
build_source() {
  local stamp modules program mark=$run_dir/build-begun
  cd "$HIVE_SOURCE_DIR"
  version_of_clone
  if [ -n "${HIVE_VERSION:-}" ]; then
    export VERSION=$HIVE_VERSION COMMIT=${HIVE_COMMIT:-} # upstream's Makefile, also under dev-setup.sh, takes them from here
  fi
  if has_target quickinstall && [ "${HIVE_QUICKINSTALL:-}" != no ]; then
    stamp=$(sha256sum Makefile)
    if [ "$(cat "$run_dir/quickinstall" 2>/dev/null)" != "$stamp" ]; then
      through_apt sudo -n make quickinstall VERSION="${VERSION:-}" COMMIT="${COMMIT:-}" # sudo keeps no variables, and there may be no git to ask
      printf '%s\n' "$stamp" >"$run_dir/quickinstall"
    fi
  fi
  if [ -x scripts/clone-deps.sh ]; then
    modules=$(cat go.mod 2>/dev/null || true) # before that script changes it
    ./scripts/clone-deps.sh
    pin predastore "$modules"
    pin viperblock "$modules"
  fi
  rm -f "$mark"
  : >"$mark"
  sleep 0.01 # the clock of files is coarser than that of processes
  if [ -x scripts/dev-setup.sh ]; then
    ./scripts/dev-setup.sh
  fi
  if [ ! -x scripts/dev-setup.sh ] || [ -z "$(made "$mark")" ]; then # that script of most versions has built it
    make build
  fi
  program=$(made "$mark")
  program=${program:-$(made "$mark.none")}
  [ -n "$program" ] || fail "make build has left no program in $HIVE_SOURCE_DIR/bin"
  tell_version "$HIVE_SOURCE_DIR/$program"
  place_program "$HIVE_SOURCE_DIR/$program"
  place_plugin "$(dirname "$HIVE_SOURCE_DIR")/viperblock/lib/nbdkit-viperblock-plugin.so"
  printf '%s\n' "$HIVE_SOURCE_DIR/$program" >"$run_dir/built" # for pack-build.sh
}
