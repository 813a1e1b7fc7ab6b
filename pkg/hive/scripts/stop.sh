# Stops everything of hive on this node, a blocked init or join included, and proves that the daemon's port is free. Services are
# stopped one after the other, each before those that it needs.
# It touches nothing that has no pid file under HIVE_DIR, or is no unit of hive's: no guest, no Open vSwitch, no other program.
#
# HIVE_STOP_TIMEOUT  seconds until the port has to be free
# HIVE_STOP_KEEP     a service that is left running, for other nodes' that have not ended yet; nothing is proved then
set -euo pipefail

mkdir -p "$run_dir" "$log_dir"
end init
end join
limit=$((SECONDS + HIVE_STOP_TIMEOUT))

# quit NAME ends that service: with KILL where it has not ended 5 seconds before the time is up.
quit() {
  local pid
  while pid=$(process_runs "$1"); do
    if [ "$SECONDS" -ge "$limit" ]; then
      fail "$1 (process $pid) still runs after $HIVE_STOP_TIMEOUT seconds"
    fi
    if [ $((limit - SECONDS)) -le 5 ]; then
      kill -KILL "$pid" 2>/dev/null || true
    elif [ "${told:-}" != "$pid" ]; then
      kill -TERM "$pid" 2>/dev/null || true
      told=$pid
    fi
    sleep 0.02
  done
  rm -f "$log_dir/$1.pid"
}

# quit_unit NAME has systemd end that service, and start it no more: with KILL where it has not ended 5 seconds before the time is up.
quit_unit() {
  local unit rest=$((limit - SECONDS - 5))
  unit_runs "$1" >/dev/null || return 0
  unit=$(unit_of "$1")
  timeout "$((rest > 1 ? rest : 1))" "${admin[@]}" systemctl stop "$unit" || true
  if unit_runs "$1" >/dev/null; then
    "${admin[@]}" systemctl kill --signal=KILL "$unit" || true
    timeout 5 "${admin[@]}" systemctl stop "$unit" || true
  fi
  if unit_runs "$1" >/dev/null; then
    fail "$unit still runs after $HIVE_STOP_TIMEOUT seconds"
  fi
}

units=no # hive may have been installed in the other layout before
if has_systemd && find_units; then
  units=yes
fi
for name in "${SERVICES[@]}"; do
  if [ "$name" = "${HIVE_STOP_KEEP:-}" ]; then
    continue
  fi
  if [ "$units" = yes ]; then
    quit_unit "$name"
  fi
  quit "$name"
done
for file in "$log_dir"/*.pid; do # of services that are not known here
  name=${file##*/}
  name=${name%.pid}
  if [ -f "$file" ] && [ "$name" != "${HIVE_STOP_KEEP:-}" ]; then
    quit "$name"
  fi
done
if [ -n "${HIVE_STOP_KEEP:-}" ]; then
  exit
fi
rm -f "$run_dir/services"
while listens "$HIVE_BIND"; do
  if [ "$SECONDS" -ge "$limit" ]; then
    fail "something that is not hive's listens on $HIVE_BIND port $HIVE_PORT: $(ss -Hltnp "sport = :$HIVE_PORT" 2>/dev/null || true)"
  fi
  sleep 0.1
done
