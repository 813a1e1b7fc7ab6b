# Prints what of hive is on this node, for whoever leaves it: a line "run" with the names of the services that run, and one "files"
# where its directory is there.
set -euo pipefail

names=()
for name in "${SERVICES[@]}"; do
  if running "$name" >/dev/null; then
    names+=("$name")
  fi
done
if [ "${#names[@]}" -gt 0 ]; then
  printf 'run %s\n' "${names[*]}"
elif listens "$HIVE_BIND"; then
  printf 'run daemon\n' # somebody else has started it
fi
if "${privileged[@]}" test -e "$HIVE_DIR"; then
  printf 'files\n'
fi
