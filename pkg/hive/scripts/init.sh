# Begins `hive admin init` in the background: with several nodes it blocks until all have joined.
#
# HIVE_NODE               the node's name
# HIVE_NODES              how many nodes the cluster has
# HIVE_BIND               the node's own address (hive's default of 0.0.0.0 makes a single node in early versions)
# HIVE_FORMATION_TIMEOUT  how long init waits for the others, such as 600s
# HIVE_FORCE              "yes" initializes an initialized node again
# HIVE_FLAGS              further flags, one a line
#
# Prints a line "note TEXT" for what was decided here.
set -euo pipefail

if running=$(is_background init); then
  fail "hive admin init is already running (pid $running)"
fi
"${privileged[@]}" mkdir -p "$HIVE_CONFIG_DIR"
"${privileged[@]}" rm -f "$HIVE_CONFIG_DIR/join-token"
flags=(--node "$HIVE_NODE" --nodes "$HIVE_NODES" --bind "$HIVE_BIND" --port "$HIVE_PORT"
  --formation-timeout "$HIVE_FORMATION_TIMEOUT" --config-dir "$HIVE_CONFIG_DIR")
help=$(help_of admin init)
directory=$(directory_flag --hive-dir --spinifex-dir <<<"$help")
if [ -n "$directory" ]; then
  flags+=("$directory" "$HIVE_DIR/")
fi
if [ "${HIVE_FORCE:-}" = yes ]; then
  flags+=(--force)
fi
if [[ $help == *--no-telemetry* ]]; then
  flags+=(--no-telemetry) # a test cluster does not phone home
fi
if [[ $help == *--token-ttl* ]]; then
  flags+=(--token-ttl "$((${HIVE_FORMATION_TIMEOUT%s} + 120))s") # it must be longer than formation
fi
mapfile -t more < <(printf '%s' "${HIVE_FLAGS:-}")
if [[ $help == *--no-external* && " ${more[*]} " != *" --external"* && " ${more[*]} " != *" --no-external"* ]] &&
  ! bridge_there && [ -z "$(ovn_script)" ]; then
  # vpcd would ask for addresses outside; without it the daemon tries in vain for a minute before it runs.
  flags+=(--no-external)
  printf 'note vpcd cannot run here: initialized with --no-external, instances have no network of the outside\n'
fi
background init "${privileged[@]}" "$HIVE_BIN" admin init "${flags[@]}" "${more[@]}"
