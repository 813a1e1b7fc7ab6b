# Installs packages, and sets what the vendor data of cloud-init does elsewhere. On a node that has it all it changes nothing and
# needs no network.
#
# HIVE_OS_ESSENTIALS     yes on nodes without vendor data; else packages are all that is done
# HIVE_OS_PACKAGES       Debian packages, separated by spaces
# HIVE_OS_TIMEZONE       a name of the tz database
# HIVE_OS_SOCKET_BUFFER  largest send and receive buffer of a socket, in bytes
set -euo pipefail

# A simulated host without isolation keeps its files here; the system behind it is somebody's own and stays as it is.
root=${SIM_HOST_ROOT:-}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}
as_root true || fail "$(id -un) may not become root without a password: the image or template must let the user of cloud-init do so"

# quietly CMD... runs a command, and shows what it wrote only where it fails.
quietly() {
  local out
  out=$("$@" 2>&1) || { printf '%s\n' "$out" >&2 && return 1; }
}

packages() {
  local name missing=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    printf 'warning: this is no Debian: it is not known whether it has %s\n' "$HIVE_OS_PACKAGES" >&2
    return
  fi
  for name in $HIVE_OS_PACKAGES; do
    # shellcheck disable=SC2016 # dpkg-query expands it
    if [ "$(dpkg-query -W -f '${db:Status-Status}' "${name%%=*}" 2>/dev/null)" != installed ]; then
      missing+=("$name")
    fi
  done
  if [ "${#missing[@]}" -eq 0 ]; then
    return
  fi
  printf 'installing %s\n' "${missing[*]}"
  # Timers of the system's own may hold the locks for some minutes after a first boot.
  if ! through_apt quietly as_root apt-get -q -o DPkg::Lock::Timeout=300 update ||
    ! through_apt quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install "${missing[@]}"; then
    [ -z "$apt_blocked" ] || fail "${missing[*]} cannot be installed: $apt_blocked for too long; look there: systemctl status apt-daily apt-daily-upgrade"
    fail "${missing[*]} cannot be installed: put them into the image or template, or give the node a way to its package mirror"
  fi
}

buffers() {
  local file=$root/etc/sysctl.d/90-hive.conf want name
  want="net.core.rmem_max = $HIVE_OS_SOCKET_BUFFER
net.core.wmem_max = $HIVE_OS_SOCKET_BUFFER"
  if [ "$(cat "$file" 2>/dev/null)" != "$want" ]; then
    as_root mkdir -p "$(dirname "$file")"
    printf '%s\n' "$want" | as_root tee "$file" >/dev/null
  fi
  if [ -n "$root" ]; then
    return
  fi
  for name in rmem_max wmem_max; do
    # Namespaces have none of their own in most kernels.
    if [ -e "/proc/sys/net/core/$name" ] && [ "$(cat "/proc/sys/net/core/$name")" != "$HIVE_OS_SOCKET_BUFFER" ]; then
      as_root sysctl -q -p "$file" >/dev/null 2>&1 || printf 'warning: the kernel did not take %s\n' "$file" >&2
      return
    fi
  done
}

system() {
  if [ -n "$root" ]; then
    return
  fi
  if [ "$(date +%Z)" != "$HIVE_OS_TIMEZONE" ] && [ -e "/usr/share/zoneinfo/$HIVE_OS_TIMEZONE" ] &&
    [ "$(readlink /etc/localtime)" != "/usr/share/zoneinfo/$HIVE_OS_TIMEZONE" ]; then
    as_root ln -sfn "/usr/share/zoneinfo/$HIVE_OS_TIMEZONE" /etc/localtime
    printf '%s\n' "$HIVE_OS_TIMEZONE" | as_root tee /etc/timezone >/dev/null
  fi
  if [ -d /run/systemd/system ] && ! systemctl is-active -q qemu-guest-agent; then
    as_root systemctl enable --now qemu-guest-agent >/dev/null 2>&1 || true # it starts with the device of the VM
  fi
  if [ -d /run/systemd/system ] && ! systemctl is-active -q chrony; then
    as_root systemctl enable --now chrony >/dev/null 2>&1 || true # where the image keeps time in another way
  fi
  if command -v ufw >/dev/null; then
    as_root ufw disable >/dev/null
  fi
  if getent group kvm >/dev/null && [[ " $(id -nG) " != *" kvm "* ]]; then
    as_root usermod -aG kvm "$(id -un)"
  fi
}

packages
if [ "$HIVE_OS_ESSENTIALS" = yes ]; then
  buffers
  system
fi
