# Tells of a machine that was just cloned from a template what the template has left on it. Prints lines
#   left KIND WHAT   for each thing that is older than this machine, or somebody else's
#   own NAME VALUE   for what must differ between machines: machine-id, and each host key
#
# TEMPLATE_KEY  the one SSH key that may log in, as in authorized_keys: its second word
set -euo pipefail

root=${SIM_HOST_ROOT:-} # a simulated host without isolation has its own files below it

# The moment at which this machine began, in seconds since 1970: that of its first process. A simulated host without isolation has none
# of its own, and cloud-init has written this file first.
if [ -z "$root" ]; then
  read -r _ btime < <(grep '^btime ' /proc/stat)
  read -r -a init <<<"$(sed 's/.*) //' /proc/1/stat)"
  began=$((btime + init[19] / $(getconf CLK_TCK)))
else
  began=$(stat -c %Y "$root/var/lib/cloud/data/instance-id")
fi

# older KIND PATH... prints what there is below paths, not empty, that is older than this machine.
older() {
  local kind=$1 path file
  shift
  for path in "$@"; do
    [ -e "$path" ] || continue
    while IFS= read -r file; do
      printf 'left %s %s\n' "$kind" "${file#"$root"}"
    done < <("${admin[@]}" find "$path" -xdev -type f -size +0 ! -newermt "@$began" 2>/dev/null | head -n 5)
  done
}

shopt -s nullglob
older host-key "$root"/etc/ssh/ssh_host_*_key
older cloud-init "$root"/var/lib/cloud/instances "$root"/var/lib/cloud/sem
older lease "$root"/var/lib/dhcp "$root"/var/lib/NetworkManager
older log "$root"/var/log
older apt-list "$root"/var/lib/apt/lists
if [ -e "$root/etc/udev/rules.d/70-persistent-net.rules" ]; then
  printf 'left udev-rule %s\n' /etc/udev/rules.d/70-persistent-net.rules
fi
for file in "$HOME/.ssh/authorized_keys" "$root/root/.ssh/authorized_keys"; do
  if [ -n "$("${admin[@]}" grep -Fv -e "$TEMPLATE_KEY" -- "$file" 2>/dev/null | grep -E '^[^#]*[^[:space:]#]' || true)" ]; then
    printf 'left authorized-key %s\n' "${file#"$root"}"
  fi
done
printf 'own machine-id %s\n' "$(cat "$root/etc/machine-id")"
for file in "$root"/etc/ssh/ssh_host_*_key.pub; do
  read -r kind key _ <"$file"
  printf 'own host-key %s\n' "$kind $key"
done
