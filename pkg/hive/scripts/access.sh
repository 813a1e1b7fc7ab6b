# Prints what it takes to call the cluster's API: the CA certificate and the AWS profile that hive has written, each
# after a line that names it.
set -euo pipefail

for file in "$HIVE_CONFIG_DIR/ca.pem" "$HOME/.aws/credentials" "$HOME/.aws/config"; do
  if [ -f "$file" ]; then
    printf '==> %s\n' "$(basename "$file")"
    cat "$file"
    printf '\n'
  fi
done
