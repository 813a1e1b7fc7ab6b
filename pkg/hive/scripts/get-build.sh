# Brings what was built on another node here as ~/hive/run/release.tar.gz, over SSH. Without HIVE_FROM it makes the key for that, and
# prints the public half, which the other node has to admit.
#
# HIVE_FROM       addresses of the other node, the best first
# HIVE_FROM_USER, HIVE_FROM_PORT  who to be there, and the port of its SSH server
# HIVE_FROM_KEYS  its host keys, a line each: no other is taken
# HIVE_SHA256     what the SHA-256 has to be of what comes
set -euo pipefail

key=$run_dir/build-key
if [ -z "${HIVE_FROM:-}" ]; then
  command -v ssh >/dev/null && command -v ssh-keygen >/dev/null || fail "there is no SSH client"
  mkdir -p "$run_dir"
  rm -f -- "$key" "$key.pub"
  ssh-keygen -q -t ed25519 -N '' -C hive-test-build -f "$key"
  cat "$key.pub"
  exit
fi
known=$run_dir/build-hosts
trap 'rm -f -- "$key" "$key.pub" "$known" "$run_dir/release.new"' EXIT
sed 's/^/built /' <<<"$HIVE_FROM_KEYS" >"$known"
options=(-F none -T -n -i "$key" -p "$HIVE_FROM_PORT" -l "$HIVE_FROM_USER" -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityAgent=none
  -o ConnectTimeout=5 -o ServerAliveInterval=5 -o LogLevel=ERROR -o HostKeyAlias=built -o StrictHostKeyChecking=yes
  -o "UserKnownHostsFile=\"$known\"" -o GlobalKnownHostsFile=/dev/null -o UpdateHostKeys=no)
problems=
for address in $HIVE_FROM; do
  if problem=$(ssh "${options[@]}" "$address" 2>&1 >"$run_dir/release.new"); then
    if [ "$(sha256sum <"$run_dir/release.new" | cut -d' ' -f1)" != "$HIVE_SHA256" ]; then
      fail "it has arrived damaged from $address"
    fi
    chmod 600 "$run_dir/release.new"
    mv "$run_dir/release.new" "$run_dir/release.tar.gz"
    exit
  fi
  problem=${problem//$'\r'/}
  problems+="${problems:+; }$address: ${problem##*$'\n'}"
done
fail "$problems"
