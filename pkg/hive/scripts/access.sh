# Prints what it takes to call the cluster's API and its NATS: the CA certificate, the AWS profile that hive has written, and
# the token of NATS where that asks for one, each after a line that names it.
set -euo pipefail

profiles=$HOME/.aws
if [ "$layout" = systemd ] && ! [ -f "$profiles/credentials" ]; then
  profiles=$root/root/.aws # early versions write root's, whoever has called sudo
fi
for file in "$HIVE_CONFIG_DIR/ca.pem" "$profiles/credentials" "$profiles/config"; do
  if is_file "$file"; then
    printf '==> %s\n' "${file##*/}"
    show "$file"
    printf '\n'
  fi
done

if is_file "$HIVE_CONFIG_DIR/nats/nats.conf"; then
  printf '==> nats-token\n'
  show "$HIVE_CONFIG_DIR/nats/nats.conf" | sed -n 's/^[[:space:]]*token:[[:space:]]*"\(.*\)".*/\1/p' | head -n 1
fi
