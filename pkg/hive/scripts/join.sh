# Joins this node to the cluster that node 1 forms, and waits for the end of it.
#
# HIVE_NODE        the node's name
# HIVE_LEADER      host:port of the formation server
# HIVE_JOIN_TOKEN  the join token; empty if this hive has none
# HIVE_FORCE       "yes" joins an initialized node again, where hive has a flag for it
# HIVE_FLAGS       further flags, one a line
# HIVE_AWAIT       seconds to wait at most
set -euo pipefail

end join # one that an earlier run has left behind
flags=(--node "$HIVE_NODE" --host "$HIVE_LEADER" --bind "$HIVE_BIND" --port "$HIVE_PORT" --config-dir "$HIVE_CONFIG_DIR")
help=$(help_of admin join)
directory=$(directory_flag --data-dir --hive-dir --spinifex-dir <<<"$help")
if [ -n "$directory" ]; then
  flags+=("$directory" "$HIVE_DIR/")
fi
if [ -n "${HIVE_JOIN_TOKEN:-}" ]; then
  flags+=(--token "$HIVE_JOIN_TOKEN") # hive takes it in no other way; it ends with this formation
fi
if [[ $help == *--no-telemetry* ]]; then
  flags+=(--no-telemetry)
fi
if [ "${HIVE_FORCE:-}" = yes ] && [[ $help == *--force* ]]; then
  flags+=(--force)
fi
mapfile -t more < <(printf '%s' "${HIVE_FLAGS:-}")
background join "${privileged[@]}" "$HIVE_BIN" admin join "${flags[@]}" "${more[@]}"
code=0
await join "$HIVE_AWAIT" || code=$?
if [ "$code" -ne 0 ]; then
  end join
fi
exit "$code"
