# Prints what it takes to call the cluster's API: the CA certificate and the AWS profile that hive has written, each
# after a line that names it.
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
