package pve

import "regexp"

// The shapes of names, options and task ids, as Proxmox VE reads them.
var (
	aclPathPattern      = regexp.MustCompile(`^/?[[:alnum:].\-_/:!@+]*$`)
	slashesPattern      = regexp.MustCompile(`/+`)
	placeholderPattern  = regexp.MustCompile(`\{\w+\}`)
	newDiskPattern      = regexp.MustCompile(`^\d+(?:\.\d+)?$`)
	imageNamePattern    = regexp.MustCompile(`^(?:vm|base)-(\d+)-[^/]+\.(raw|qcow2|vmdk)$`)
	vmidPattern         = regexp.MustCompile(`^[1-9][0-9]+$`)
	digitsPattern       = regexp.MustCompile(`^\d+$`)
	ticketPattern       = regexp.MustCompile(`(?:^|\s)PVEAuthCookie[= ]([^;]*)`)
	tokenPattern        = regexp.MustCompile(`(?:^|\s)PVEAPIToken[= ]([^;]*)`)
	isoNamePattern      = regexp.MustCompile(`(?i)\.(?:iso|img)$`)
	templateNamePattern = regexp.MustCompile(`\.tar\.(?:gz|xz|zst|bz2)$|\.tar$`)
	importNamePattern   = regexp.MustCompile(`\.(?:ova|qcow2|raw|vmdk)$`)
	upidPattern         = regexp.MustCompile(
		`^UPID:[a-zA-Z0-9\-.]+:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:[0-9A-Fa-f]{8}:[^:\s]+:[^:\s]*:[^:\s]+:$`,
	)
	integerPattern         = regexp.MustCompile(`^[+-]?\d+$`)
	numberPattern          = regexp.MustCompile(`^(?:[+-]?)(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$`)
	cloudinitPattern       = regexp.MustCompile(`[:/]vm-\d+-cloudinit(?:\.\w+)?$`)
	drivePattern           = regexp.MustCompile(`^(?:(?:ide|sata|scsi|virtio)\d+|efidisk0|tpmstate0)$`)
	unusedPattern          = regexp.MustCompile(`^unused\d+$`)
	netPattern             = regexp.MustCompile(`^net\d+$`)
	numaPattern            = regexp.MustCompile(`^numa\d+$`)
	cloudinitOptionPattern = regexp.MustCompile(
		`^(?:ipconfig\d+|cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys)$`,
	)
	hardwareOptionPattern = regexp.MustCompile(
		`^(?:acpi|bios|hotplug|kvm|machine|scsihw|smbios1|tablet|vga|watchdog|audio0|vmgenid|arch|serial\d+|usb\d+|rng0|ivshmem)$`,
	)
	deviceOptionPattern  = regexp.MustCompile(`^(?:hostpci|parallel)\d+$`)
	restartOptionPattern = regexp.MustCompile(
		`^(?:acpi|agent|arch|args|audio0|balloon|bios|cores|cpu|hugepages|kvm|machine|memory|numa\d*|ostype|scsihw|sockets|smbios1|vcpus|vga|vmgenid|serial\d+)$`,
	)
)
