# Takes from this node what is its own, so that whoever is cloned from its disk is another machine: identity, keys, leases, logs.
# Nobody can log in afterwards: it is the last that is done here.
set -euo pipefail

root=${SIM_HOST_ROOT:-} # a simulated host without isolation has its own files below it

# empty FILE... leaves files without content, where they are there.
empty() {
  local file
  for file in "$@"; do
    if "${admin[@]}" test -f "$file"; then
      "${admin[@]}" truncate -s 0 -- "$file"
    fi
  done
}

# gone PATH... removes what is there.
gone() {
  [ "$#" -eq 0 ] || "${admin[@]}" rm -rf --one-file-system -- "$@"
}

shopt -s nullglob dotglob
gone "$root"/var/lib/cloud/{instance,instances,data,sem,seed} "$root"/var/lib/hive-test
# Ubuntu's installer leaves a configuration by which cloud-init heeds no drive, and a network of its own.
gone "$root"/etc/cloud/{cloud-init.disabled,cloud.cfg.d/99-installer.cfg,cloud.cfg.d/*disable-cloudinit-networking.cfg}
gone "$root"/etc/netplan/00-installer-config.yaml
gone "$root"/etc/ssh/ssh_host_*
gone "$root"/var/lib/dhcp/*.leases "$root"/var/lib/NetworkManager/*.lease
gone "$root"/etc/udev/rules.d/70-persistent-net.rules "$root"/var/lib/systemd/random-seed
gone "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/archives/*.deb
gone "$root"/var/log/journal/*
if [ -d "$root/var/log" ]; then
  "${admin[@]}" find "$root/var/log" -xdev -type f '(' -name '*.gz' -o -name '*.xz' -o -name '*.[0-9]' ')' -delete
  "${admin[@]}" find "$root/var/log" -xdev -type f -exec truncate -s 0 -- {} +
fi
gone "$HOME"/.bash_history "$HOME"/.hive-test-template "$HOME"/hive/{config,logs,data} "$root"/root/.bash_history
empty "$root/etc/machine-id"
gone "$root/var/lib/dbus/machine-id"
gone "$root/root/.ssh/authorized_keys" "$HOME/.ssh/authorized_keys"
if [ -z "$root" ]; then
  "${admin[@]}" fstrim -a >/dev/null 2>&1 || true # what was deleted takes no room in the copies, where the disk can tell its storage
fi
sync
