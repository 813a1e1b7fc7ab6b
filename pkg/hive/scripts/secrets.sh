# Writes a tar archive of what this node keeps secret to standard output. It is kept nowhere.
set -euo pipefail

stage=$(umask 077 && mktemp -d)
trap 'rm -rf -- "$stage"' EXIT
keep_secrets "$stage"
tar -C "$stage" -cf - .
