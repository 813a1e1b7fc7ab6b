# Puts a file onto the node, once its checksum was compared, and installs what it knows: go*.tar.gz becomes /usr/local/go, awscli*.zip the
# AWS CLI, images (*.img, *.qcow2) go to ~/images. Anything else stays in ~/downloads.
#
# TEMPLATE_NAME    of the file
# TEMPLATE_URL     where it is; empty: it was uploaded to ~/.hive-test-template already
# TEMPLATE_SHA256  what it must be
set -euo pipefail

root=${SIM_HOST_ROOT:-} # a simulated host without isolation has its own files below it
here=$HOME/.hive-test-template
file=$here/$TEMPLATE_NAME
mkdir -p "$here"

sum_of() {
  sha256sum "$1" | cut -c1-64
}

if [ -n "$TEMPLATE_URL" ]; then
  command -v curl >/dev/null || fail "there is no curl on the node: put it into the layer's packages"
  curl --fail --silent --show-error --location --retry 3 --output "$file" -- "$TEMPLATE_URL"
fi
got=$(sum_of "$file")
if [ "$got" != "$TEMPLATE_SHA256" ]; then
  rm -f -- "$file"
  fail "$TEMPLATE_NAME has the SHA-256 $got, and not $TEMPLATE_SHA256 as the settings have it"
fi

case $TEMPLATE_NAME in
go[0-9]*.tar.gz)
  "${admin[@]}" mkdir -p "$root/usr/local"
  "${admin[@]}" rm -rf --one-file-system -- "$root/usr/local/go"
  "${admin[@]}" tar -C "$root/usr/local" -xzf "$file"
  ;;
awscli*.zip)
  command -v unzip >/dev/null || fail "there is no unzip on the node: put it into the layer's packages"
  rm -rf -- "$here/aws"
  unzip -q -d "$here" -- "$file"
  "${admin[@]}" "$here/aws/install" --update --install-dir "$root/usr/local/aws-cli" --bin-dir "$root/usr/local/bin"
  rm -rf -- "$here/aws"
  ;;
*.img | *.qcow2)
  mkdir -p "$HOME/images"
  mv -- "$file" "$HOME/images/$TEMPLATE_NAME"
  ;;
*)
  mkdir -p "$HOME/downloads"
  mv -- "$file" "$HOME/downloads/$TEMPLATE_NAME"
  ;;
esac
rm -f -- "$file"
