# Starts hive's services on this node: with start-dev.sh where hive was built from source, else with `hive start`.
# Whether they are healthy is judged from outside.
set -euo pipefail

[ -n "$(config_file)" ] || fail "this node is not initialized: there is no hive.toml in $HIVE_CONFIG_DIR"
mkdir -p "$run_dir" "$log_dir"
touch "$run_dir/used"

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

code=0
private "$log_dir/start.log"
if [ -x "$HIVE_SOURCE_DIR/scripts/start-dev.sh" ]; then
  cd "$HIVE_SOURCE_DIR"
  UI=false HIVE_SKIP_BUILD=true ./scripts/start-dev.sh "$HIVE_DIR/" </dev/null >"$log_dir/start.log" 2>&1 || code=$?
else
  flags=(--config-dir "$HIVE_CONFIG_DIR")
  help=$(help_of start)
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
