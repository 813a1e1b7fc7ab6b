# Stands before every node script. It defines no step of its own.
#
# HIVE_DIR         hive's data on the node (default ~/hive)
# HIVE_BIN         the hive program (default $HIVE_DIR/bin/hive)
# HIVE_CONFIG_DIR  hive's configuration (default $HIVE_DIR/config)
# HIVE_PORT        port of the daemon and of formation (default 4432)
# HIVE_SOURCE_DIR  where hive's source is, if it was built here (default ~/Development/mulga/hive)
set -euo pipefail

HIVE_DIR=${HIVE_DIR:-$HOME/hive}
HIVE_BIN=${HIVE_BIN:-$HIVE_DIR/bin/hive}
HIVE_CONFIG_DIR=${HIVE_CONFIG_DIR:-$HIVE_DIR/config}
HIVE_PORT=${HIVE_PORT:-4432}
HIVE_SOURCE_DIR=${HIVE_SOURCE_DIR:-$HOME/Development/mulga/hive}
log_dir=$HIVE_DIR/logs
run_dir=$HIVE_DIR/run # what hive-test remembers on the node

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

# config_file prints the path of hive's configuration file, whose name changed with the program's; nothing if none is there.
config_file() {
  local name
  for name in hive.toml spinifex.toml; do
    if [ -f "$HIVE_CONFIG_DIR/$name" ]; then
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
    "$HIVE_CONFIG_DIR/ca.key" "$HIVE_CONFIG_DIR/server.key" "$HIVE_CONFIG_DIR/hive.toml" "$HIVE_CONFIG_DIR/spinifex.toml"; do
    if [ -f "$file" ] && [ -r "$file" ]; then
      cat "$file" >"$1/$(basename "$file")"
    fi
  done
  if [ -f "$log_dir/init.log" ]; then
    grep -oh 'spx_join_[A-Za-z0-9_-]*' "$log_dir/init.log" >"$1/join-token.logged" || true
  fi
}

# started PID prints when a process began (ticks since boot), and nothing if it has ended or only waits to be reaped.
started() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  stat=${stat##*) }
  # shellcheck disable=SC2086 # the fields are wanted as words
  set -- $stat
  if [ "$1" != Z ]; then
    printf '%s\n' "${20}"
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
  printf '%s %s\n' "$pid" "$(started "$pid")" >"$run_dir/$name.pid"
}

# is_background NAME succeeds while that command runs, and prints its process id. The start time tells it from a later
# process with the same id.
is_background() {
  local pid began
  [ -f "$run_dir/$1.pid" ] || return 1
  read -r pid began <"$run_dir/$1.pid" || return 1
  [ -n "$began" ] && [ "$(started "$pid")" = "$began" ] || return 1
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
  kill -TERM -- "-$pid" 2>/dev/null || true
  for ((i = 0; i < 100; i++)); do
    is_background "$1" >/dev/null || return 0
    sleep 0.05
  done
  kill -KILL -- "-$pid" 2>/dev/null || true
}

# listens ADDRESS succeeds if something accepts connections on the daemon's port there.
listens() {
  (exec 3<>"/dev/tcp/$1/$HIVE_PORT") 2>/dev/null
}

# help_of COMMAND... prints what hive says of a command's flags, which differ by command and age.
help_of() {
  "$HIVE_BIN" "$@" --help 2>&1 </dev/null || true
}

# directory_flag HELP prints the flag by which a command takes the data directory.
directory_flag() {
  local flag
  for flag in --hive-dir --spinifex-dir --data-dir; do
    if [[ $1 == *"$flag "* ]]; then
      printf '%s\n' "$flag"
      return
    fi
  done
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
# may not fit.
pin() {
  local version
  [ -d "../$1/.git" ] || return 0
  version=$(awk -v name="/$1\$" '$1 ~ name { print $2; exit }' <<<"$2")
  [ -n "$version" ] || return 0
  git -C "../$1" fetch --quiet --tags origin
  git -C "../$1" checkout --quiet --force --detach "$version" 2>/dev/null ||
    git -C "../$1" checkout --quiet --force --detach "${version##*-}"
}

# build_source builds hive in HIVE_SOURCE_DIR, makes HIVE_BIN lead to it and prints its version.
build_source() {
  local stamp modules name
  cd "$HIVE_SOURCE_DIR"
  if has_target quickinstall; then
    stamp=$(sha256sum Makefile)
    if [ "$(cat "$run_dir/quickinstall" 2>/dev/null)" != "$stamp" ]; then
      sudo -n make quickinstall
      printf '%s\n' "$stamp" >"$run_dir/quickinstall"
    fi
  fi
  if [ -x scripts/clone-deps.sh ]; then
    modules=$(cat go.mod 2>/dev/null || true) # before that script changes it
    ./scripts/clone-deps.sh
    pin predastore "$modules"
    pin viperblock "$modules"
  fi
  if [ -x scripts/dev-setup.sh ]; then
    ./scripts/dev-setup.sh
  fi
  make build
  for name in hive spinifex spx; do
    if [ -x "bin/$name" ]; then
      ln -sfn "$HIVE_SOURCE_DIR/bin/$name" "$HIVE_BIN"
      exec "$HIVE_BIN" version
    fi
  done
  fail "make build has left no program in $HIVE_SOURCE_DIR/bin"
}
