# Unpacks a release of hive that was uploaded to ~/hive/run/release.tar.gz, and makes HIVE_BIN lead to its program, and what is beside
# that to its plugin of viperblock, once the program has told its version as hive does. In the layout systemd the release installs
# itself.
#
# HIVE_SHA256  what the SHA-256 has to be of a release that was built elsewhere, which does not install itself (empty: it is one of upstream's)
#
# It exits with 79 where the release is refused: what was there stays.
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
trap 'rm -rf -- "$release.new"' EXIT # unless it has taken its place by then
tar -xzf "$archive" -C "$release.new" --no-same-owner || fail "$archive is not a tar archive that gzip has compressed"

# found NAME prints the path of a file of the release, below where that is.
found() {
  (cd "$release.new" && find . -maxdepth 3 -type f -name "$1") | sort | head -n 1 | sed 's,^\./,,'
}

# place_release puts the release where it stays.
place_release() {
  rm -rf -- "$release"
  mv "$release.new" "$release"
}

# install_units has the release install itself by its setup.sh: users, units, directories and packages. Packages are left alone on
# nodes that have the main ones, which then need no mirror; the AWS CLI is never installed.
install_units() {
  local setup name prefix variables=() packages=1
  setup=$(found setup.sh)
  [ -n "$setup" ] || refuse "the release holds no setup.sh: use --layout dev"
  place_release
  for name in nbdkit qemu-img ovs-vsctl ovn-nbctl nc; do
    command -v "$name" >/dev/null || packages=0
  done
  for prefix in HIVE SPINIFEX; do
    variables+=("INSTALL_${prefix}_TARBALL=$archive" "INSTALL_${prefix}_SKIP_APT=$packages" "INSTALL_${prefix}_SKIP_AWS=1"
      "INSTALL_${prefix}_SKIP_NEWGRP=1")
  done
  through_apt "${privileged[@]}" env "${variables[@]}" bash "$release/$setup" || fail "${apt_blocked:-setup.sh of the release has failed}"
  use_units || fail "setup.sh has installed no unit of hive's that could be found: *-nats.service"
}

if [ "$layout" = systemd ] && [ -z "${HIVE_SHA256:-}" ]; then
  install_units
  tell_version "$HIVE_BIN"
  exit
fi
for name in hive spinifex spx; do
  program=$(found "$name")
  if [ -n "$program" ]; then
    plugin_file=$(found nbdkit-viperblock-plugin.so)
    chmod +x "$release.new/$program"
    tell_version "$release.new/$program"
    place_release
    place_program "$release/$program"
    place_plugin "$release/${plugin_file:-none}"
    exit
  fi
done
refuse "the release holds no program: neither hive, spinifex nor spx"
