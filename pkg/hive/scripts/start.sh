# Starts hive's services on this node, but its gateway, and returns; whether they are healthy is judged from outside. What runs is
# left alone, unless it hangs. What cannot run here is left out. Each service by itself is the only way that hive has in all its
# versions: they are started in upstream's order and with its settings.
#
# Prints a line "left-out NAME REASON" for each service that is left out, and the lines of end_hung and keep_starting.
set -euo pipefail

config=$(config_file)
[ -n "$config" ] || fail "this node is not initialized: there is no hive.toml in $HIVE_CONFIG_DIR"
mkdir -p "$run_dir" "$log_dir"
touch "$run_dir/used"
trust_cluster
if [ "$layout" = systemd ]; then
  check_units
  hand_over
fi
own=$(era)
prefix=${own^^}
plan=$run_dir/services # of what should run here, for services.sh
: >"$plan.new"

# expect NAME ADDRESS notes that this service should run, and accept connections at ADDRESS (- if it has none). One that hangs is ended
# here, and started anew with those that do not run.
expect() {
  end_hung "$@"
  printf '%s\t%s\n' "$1" "$2" >>"$plan.new"
}

# leave_out NAME REASON notes that this service is not started, and why.
leave_out() {
  printf '%s\tout\t%s\n' "$1" "$2" >>"$plan.new"
  printf 'left-out %s %s\n' "$1" "$2"
}

general=("${prefix}_CONFIG_PATH=$config")
if wanted nats; then
  address=$(service_address nats 4222)
  expect nats "$address"
  start_service nats "${prefix}_CONFIG_PATH=$HIVE_CONFIG_DIR/nats/nats.conf"
  # Later object stores dial NATS once, and end where it does not answer.
  end=$((SECONDS + 15))
  while [ "$SECONDS" -lt "$end" ]; do
    if accepts "${address%:*}" "${address##*:}" || ! running nats >/dev/null; then
      break
    fi
    sleep 0.05
  done
  running nats >/dev/null || fail "nats ended at its start: $(last_line nats)" # nothing else runs without it
fi
start_predastore() {
  start_service predastore "${prefix}_PREDASTORE_BASE_PATH=$HIVE_DIR/predastore/" \
    "${prefix}_PREDASTORE_CONFIG_PATH=$HIVE_CONFIG_DIR/predastore/predastore.toml" \
    "${prefix}_PREDASTORE_TLS_CERT=$HIVE_CONFIG_DIR/server.pem" "${prefix}_PREDASTORE_TLS_KEY=$HIVE_CONFIG_DIR/server.key" \
    "${prefix}_PREDASTORE_HOST=${store%:*}" "${prefix}_PREDASTORE_PORT=${store##*:}" \
    "${prefix}_PREDASTORE_BACKEND=distributed" "${prefix}_PREDASTORE_NODE_ID=$(setting predastore node_id)"
}
if wanted predastore; then
  store=$(service_address predastore 8443)
  expect predastore "$store"
  start_predastore
fi
if wanted viperblock; then
  if [ "$layout" = dev ] && [ ! -f "$plugin" ]; then
    leave_out viperblock "the program came without nbdkit-viperblock-plugin.so"
  elif ! command -v nbdkit >/dev/null; then
    leave_out viperblock "nbdkit is not installed"
  else
    expect viperblock -
    start_service viperblock "${general[@]}" "${prefix}_VIPERBLOCK_PLUGIN_PATH=$plugin" "${prefix}_BASE_DIR=$HIVE_DIR/viperblock/"
  fi
fi
if wanted vpcd; then # before the daemon, which asks it for addresses
  if bridge_there; then
    expect vpcd -
    start_service vpcd "${general[@]}"
  else
    leave_out vpcd "there is no Open vSwitch bridge br-int"
  fi
fi
if wanted daemon; then
  expect "$own" "$(service_address daemon 4432)"
  start_service "$own" "${general[@]}" "${prefix}_BASE_DIR=$HIVE_DIR/$own/" "${prefix}_WAL_DIR=$HIVE_DIR/$own"
fi
if wanted awsgw; then
  expect awsgw "$(service_address awsgw 9999)"
fi
if wanted ui; then
  if ! running "$own-ui" >/dev/null && accepts "$HIVE_BIND" 3000; then
    leave_out "$own-ui" "port 3000 is taken by another program"
  else
    expect "$own-ui" "$HIVE_BIND:3000"
    start_service "$own-ui" "${general[@]}" "${prefix}_UI_HOST=$HIVE_BIND" \
      "${prefix}_UI_TLS_CERT=$HIVE_CONFIG_DIR/server.pem" "${prefix}_UI_TLS_KEY=$HIVE_CONFIG_DIR/server.key"
  fi
fi
mv "$plan.new" "$plan"

# It gives NATS two seconds for an answer, and ends where a busy machine is slower. One that always ends is named by health.
if [ -n "${store:-}" ]; then
  keep_starting predastore "$store" 4 15 start_predastore
fi
