# Unpacks a release of hive that was uploaded to ~/hive/run/release.tar.gz, and makes HIVE_BIN lead to its program, and what is beside
# that to its plugin of viperblock. In the layout systemd the release installs itself.
#
# HIVE_SHA256  what the SHA-256 has to be of a release that was built elsewhere, which does not install itself (empty: it is one of upstream's)
set -euo pipefail

if [ "$layout" = systemd ]; then
  need_systemd
fi
archive=$run_dir/release.tar.gz
[ -f "$archive" ] || fail "there is no $archive"
if [ -n "${HIVE_SHA256:-}" ] && [ "$(sha256sum <"$archive" | cut -d' ' -f1)" != "$HIVE_SHA256" ]; then
  fail "$archive has arrived damaged: its SHA-256 is not $HIVE_SHA256"
fi
release=$HOME/hive/bin/release
rm -rf -- "$release.new"
mkdir -p "$release.new"
tar -xzf "$archive" -C "$release.new" --no-same-owner || fail "$archive is not a tar archive that gzip has compressed"
rm -rf -- "$release"
mv "$release.new" "$release"

# found NAME prints the path of a file of the release.
found() {
  find "$release" -maxdepth 3 -type f -name "$1" | sort | head -n 1
}

# install_units has the release install itself by its setup.sh: users, units, directories and packages. Packages are left alone on
# nodes that have the main ones, which then need no mirror; the AWS CLI is never installed.
install_units() {
  local setup name prefix variables=() packages=1
  setup=$(found setup.sh)
  [ -n "$setup" ] || fail "the release holds no setup.sh: use --layout dev"
  for name in nbdkit qemu-img ovs-vsctl ovn-nbctl nc; do
    command -v "$name" >/dev/null || packages=0
  done
  for prefix in HIVE SPINIFEX; do
    variables+=("INSTALL_${prefix}_TARBALL=$archive" "INSTALL_${prefix}_SKIP_APT=$packages" "INSTALL_${prefix}_SKIP_AWS=1"
      "INSTALL_${prefix}_SKIP_NEWGRP=1")
  done
  through_apt "${privileged[@]}" env "${variables[@]}" bash "$setup" || fail "${apt_blocked:-setup.sh of the release has failed}"
  use_units || fail "setup.sh has installed no unit of hive's that could be found: *-nats.service"
}

if [ "$layout" = systemd ] && [ -z "${HIVE_SHA256:-}" ]; then
  install_units
  tell_version
  exit
fi
for name in hive spinifex spx; do
  program=$(found "$name")
  if [ -n "$program" ]; then
    chmod +x "$program"
    place_program "$program"
    place_plugin "$(found nbdkit-viperblock-plugin.so)"
    tell_version
    exit
  fi
done
fail "the release holds no program: neither hive, spinifex nor spx"
