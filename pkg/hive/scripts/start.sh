# Starts hive's services on this node and returns; whether they are healthy is judged from outside. Of three ways the
# first that is there is taken: start-dev.sh of a source tree, `hive start`, or each service by itself in start-dev.sh's
# order and with its settings (as of March 2026). Where hive answers already, nothing is started.
#
# HIVE_BIND  the node's own address
set -euo pipefail

config=$(config_file)
[ -n "$config" ] || fail "this node is not initialized: there is no hive.toml in $HIVE_CONFIG_DIR"
mkdir -p "$run_dir" "$log_dir"
touch "$run_dir/used"
if listens "$HIVE_BIND"; then
  printf 'hive runs already\n'
  exit 0
fi

# Services dial one another over TLS under the cluster's CA, which only root can put into the system's store.
bundle=$run_dir/ca-bundle.pem
: >"$bundle"
for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
  if [ -f "$file" ]; then
    cat "$file" >>"$bundle"
    break
  fi
done
cat "$HIVE_CONFIG_DIR/ca.pem" >>"$bundle"
export SSL_CERT_FILE=$bundle

# service NAME COMMAND... starts one service that outlives the connection, with a log and a pid file where hive has them.
service() {
  local name=$1
  shift
  private "$log_dir/$name.log"
  setsid "$@" </dev/null >>"$log_dir/$name.log" 2>&1 &
  printf '%s\n' "$!" >"$log_dir/$name.pid"
}

# wanted NAME succeeds if hive.toml lists that service for this node, or lists none.
wanted() {
  local listed
  listed=$(grep -m1 '^services' "$config" || true)
  [ -z "$listed" ] || [[ $listed == *[\"\']$1[\"\']* ]]
}

# setting SECTION KEY prints a value of this node's section in hive.toml, such as predastore host.
setting() {
  awk -v section="$1" -v key="$2" '
    /^\[/ { inside = ($0 == "[nodes." node "." section "]") }
    /^node *=/ && node == "" { split($0, part, /["\047]/); node = part[2] }
    inside && $1 == key { sub(/^[^=]*= */, ""); gsub(/["\047]/, ""); print; exit }' "$config"
}

start_services() {
  local store node_id plugin tls=(env "HIVE_CONFIG_PATH=$config")
  if wanted nats; then
    service nats env "HIVE_CONFIG_PATH=$HIVE_CONFIG_DIR/nats/nats.conf" "$HIVE_BIN" service nats start
  fi
  if wanted predastore; then
    store=$(setting predastore host)
    node_id=$(setting predastore node_id)
    service predastore env "HIVE_PREDASTORE_BASE_PATH=$HIVE_DIR/predastore/" \
      "HIVE_PREDASTORE_CONFIG_PATH=$HIVE_CONFIG_DIR/predastore/predastore.toml" \
      "HIVE_PREDASTORE_TLS_CERT=$HIVE_CONFIG_DIR/server.pem" "HIVE_PREDASTORE_TLS_KEY=$HIVE_CONFIG_DIR/server.key" \
      "HIVE_PREDASTORE_HOST=${store%:*}" "HIVE_PREDASTORE_PORT=${store##*:}" HIVE_PREDASTORE_BACKEND=distributed \
      "HIVE_PREDASTORE_NODE_ID=$node_id" "$HIVE_BIN" service predastore start
  fi
  plugin=$HIVE_SOURCE_DIR/../viperblock/lib/nbdkit-viperblock-plugin.so
  if wanted viperblock && [ -f "$plugin" ]; then
    service viperblock "${tls[@]}" "HIVE_VIPERBLOCK_PLUGIN_PATH=$plugin" "HIVE_BASE_DIR=$HIVE_DIR/viperblock/" \
      "$HIVE_BIN" service viperblock start
  fi
  if wanted daemon; then
    service hive "${tls[@]}" "HIVE_BASE_DIR=$HIVE_DIR/hive/" "HIVE_WAL_DIR=$HIVE_DIR/hive" "$HIVE_BIN" service hive start
  fi
  if wanted awsgw; then
    service awsgw "${tls[@]}" "HIVE_BASE_DIR=$HIVE_CONFIG_DIR" "HIVE_AWSGW_TLS_CERT=$HIVE_CONFIG_DIR/server.pem" \
      "HIVE_AWSGW_TLS_KEY=$HIVE_CONFIG_DIR/server.key" "$HIVE_BIN" service awsgw start
  fi
  if wanted vpcd; then
    service vpcd "${tls[@]}" "$HIVE_BIN" service vpcd start
  fi
}

code=0
private "$log_dir/start.log"
help=$(help_of start)
if [ -x "$HIVE_SOURCE_DIR/scripts/start-dev.sh" ]; then
  cd "$HIVE_SOURCE_DIR"
  UI=false HIVE_SKIP_BUILD=true CONFIG_DIR=$HIVE_CONFIG_DIR ./scripts/start-dev.sh "$HIVE_DIR/" \
    </dev/null >"$log_dir/start.log" 2>&1 || code=$?
elif [[ $help == *"unknown command"* ]]; then
  start_services
else
  flags=(--config-dir "$HIVE_CONFIG_DIR")
  directory=$(directory_flag "$help")
  if [ -n "$directory" ]; then
    flags+=("$directory" "$HIVE_DIR/")
  fi
  "$HIVE_BIN" start "${flags[@]}" </dev/null >"$log_dir/start.log" 2>&1 || code=$?
fi
if [ "$code" -ne 0 ]; then
  tail -n 200 "$log_dir/start.log" >&2
fi
exit "$code"
