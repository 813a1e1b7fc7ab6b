# Removes hive's configuration, data and AWS profiles from this node, so that it can be formed anew. Programs and logs
# stay. Hive must be stopped.
set -euo pipefail

case $HIVE_DIR in
/ | "$HOME" | "$HOME/" | "") fail "HIVE_DIR is $HIVE_DIR: that is not hive's alone" ;;
/*) ;;
*) fail "HIVE_DIR is $HIVE_DIR: it has to be an absolute path" ;;
esac
if listens "$HIVE_BIND"; then
  fail "hive still listens on $HIVE_BIND port $HIVE_PORT"
fi
rm -f "$run_dir/used"
"${privileged[@]}" rm -f "$HIVE_CONFIG_DIR/join-token"
if [ "$layout" = systemd ]; then
  # What setup.sh has made stays: the first directories, which are the services' users', links, its programs and systemd.env.
  for directory in "$HIVE_CONFIG_DIR" "$HIVE_DIR"; do
    "${privileged[@]}" find "$directory" -xdev -mindepth 2 -depth ! -lname "$HIVE_CONFIG_DIR" -delete
    "${privileged[@]}" find "$directory" -xdev -mindepth 1 -maxdepth 1 -type f ! -name '*.sh' ! -name systemd.env -delete
  done
else
  for path in "$HIVE_DIR"/* "$HIVE_CONFIG_DIR"; do
    case $path in
    "$HIVE_DIR/bin" | "$HIVE_DIR/logs" | "$HIVE_DIR/run") ;;
    *) rm -rf --one-file-system -- "$path" ;;
    esac
  done
fi

for file in "$HOME/.aws/credentials" "$HOME/.aws/config"; do
  if [ -f "$file" ]; then
    kept=$(awk '/^\[/ { drop = /^\[(profile )?(hive|spinifex)\]/ } !drop' "$file")
    if [ -n "$kept" ]; then
      printf '%s\n' "$kept" >"$file"
    else
      rm -f -- "$file" # hive has made it
    fi
  fi
done
rmdir "$HOME/.aws" 2>/dev/null || true # there may be more in it

# As root, init and join put the cluster's CA into the system's store.
stored=${SIM_HOST_ROOT:-}/usr/local/share/ca-certificates/spinifex-ca.crt
if [ -f "$stored" ]; then
  "${admin[@]}" rm -f -- "$stored"
  if [ -z "${SIM_HOST_ROOT:-}" ]; then
    "${admin[@]}" update-ca-certificates >/dev/null 2>&1 || true # what is left then trusts a CA whose key is gone
  fi
fi
