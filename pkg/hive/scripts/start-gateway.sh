# Starts hive's gateway on this node and returns once it accepts connections. One that ends instead is started again: at the first
# start of a cluster all gateways write the same records, and one whose write is overtaken by another's ends, as does one that
# waits in vain for the other nodes' stores. What runs is left alone.
#
# Prints the lines of keep_starting.
#
# HIVE_STARTS   how often it is started at most
# HIVE_TIMEOUT  seconds to wait at most
set -euo pipefail

config=$(config_file)
[ -n "$config" ] || fail "this node is not initialized: there is no hive.toml in $HIVE_CONFIG_DIR"
wanted awsgw || exit 0
trust_cluster
own=$(era)
prefix=${own^^}
address=$(service_address awsgw 9999)

start_gateway() {
  # Its base directory is that of the data: it reads config/master.key and bootstrap.json below it.
  start_service awsgw "${prefix}_CONFIG_PATH=$config" "${prefix}_BASE_DIR=$HIVE_DIR" \
    "${prefix}_AWSGW_TLS_CERT=$HIVE_CONFIG_DIR/server.pem" "${prefix}_AWSGW_TLS_KEY=$HIVE_CONFIG_DIR/server.key"
}

start_gateway
keep_starting awsgw "$address" "$HIVE_STARTS" "$HIVE_TIMEOUT" start_gateway
if ! running awsgw >/dev/null; then
  fail "the gateway (awsgw) ended at its start, $HIVE_STARTS times: $(last_line awsgw)"
fi
