# Lets another node read what was built here, ~/hive/run/built.tar.gz, over SSH: admits a key that is good for nothing else and for an
# hour. Prints how to come here: the user, the port, and this node's public host keys. Without HIVE_KEY no such key is admitted any
# longer.
#
# HIVE_KEY  the other node's key, a line as in authorized_keys
set -euo pipefail

readonly mark=hive-test-build # the comment of these keys
keys=$HOME/.ssh/authorized_keys

if [ -z "${HIVE_KEY:-}" ]; then
  if grep -q " $mark\$" "$keys" 2>/dev/null; then
    sed -i --follow-symlinks "/ $mark\$/d" "$keys"
  fi
  exit
fi
[[ $HIVE_KEY == "ssh-ed25519 "*" $mark" && $HIVE_KEY != *[$'\n"']* ]] || fail "HIVE_KEY is no key that get-build.sh has made: $HIVE_KEY"
[ -w "$keys" ] || fail "$keys cannot be written: keys are kept elsewhere here"
archive=$(printf '%q' "$run_dir/built.tar.gz")
until=$(date -d '+1 hour' +%Y%m%d%H%M%S)
if [ -n "$(tail -c 1 "$keys")" ]; then
  printf '\n' >>"$keys"
fi
printf 'restrict,expiry-time="%s",command="cat %s" %s\n' "$until" "$archive" "$HIVE_KEY" >>"$keys"

read -r _ _ _ port <<<"${SSH_CONNECTION:-}" || true
printf 'user=%s\nport=%s\n' "${USER:-$(id -un)}" "${port:-22}"
for file in "$root${SIM_HOST_ROOT:-}"/etc/ssh/ssh_host_*_key.pub; do
  if [ -r "$file" ]; then
    printf 'key=%s\n' "$(cut -d' ' -f1,2 "$file")"
  fi
done
