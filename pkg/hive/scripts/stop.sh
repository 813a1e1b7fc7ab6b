# Stops everything of hive on this node, a blocked init or join included, and proves that the daemon's port is free.
# It touches nothing that has no pid file under HIVE_DIR: no guest, no Open vSwitch, no other program.
#
# HIVE_BIND          the node's own address
# HIVE_STOP_TIMEOUT  seconds until the port has to be free
set -euo pipefail

mkdir -p "$run_dir" "$log_dir"
end init
end join
if [ -x "$HIVE_BIN" ]; then
  # Programs without this command say so; the pid files below are there for them.
  flags=(--config-dir "$HIVE_CONFIG_DIR")
  help=$(help_of stop)
  directory=$(directory_flag "$help")
  if [ -n "$directory" ]; then
    flags+=("$directory" "$HIVE_DIR/")
  fi
  "$HIVE_BIN" stop "${flags[@]}" </dev/null >"$run_dir/stop.log" 2>&1 || true
fi

# service PIDFILE prints the process of a pid file if it is one of hive's.
service() {
  local pid command
  read -r pid <"$1" || return 0
  [[ $pid =~ ^[0-9]+$ ]] && [ -n "$(started "$pid")" ] || return 0
  command=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) || return 0
  if [[ $command =~ hive|spinifex|nats|predastore|viperblock|awsgw|vpcd ]]; then
    printf '%s\n' "$pid"
  fi
}

limit=$((SECONDS + HIVE_STOP_TIMEOUT))
signal=TERM
while :; do
  left=
  for file in "$log_dir"/*.pid; do
    [ -f "$file" ] || continue
    pid=$(service "$file")
    if [ -n "$pid" ]; then
      left="$left $pid"
      kill "-$signal" "$pid" 2>/dev/null || true
    fi
  done
  if [ -z "$left" ] && ! listens "$HIVE_BIND"; then
    rm -f "$log_dir"/*.pid
    exit 0
  fi
  if [ "$SECONDS" -ge "$limit" ]; then
    if [ -n "$left" ]; then
      fail "still running after $HIVE_STOP_TIMEOUT seconds:$left"
    fi
    fail "something that is not hive's listens on $HIVE_BIND port $HIVE_PORT: $(ss -Hltnp "sport = :$HIVE_PORT" 2>/dev/null || true)"
  fi
  if [ $((limit - SECONDS)) -le 5 ]; then
    signal=KILL
  fi
  sleep 0.1
done
