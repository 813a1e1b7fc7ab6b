package pve

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"

	"hive-test/pkg/sim/host"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The commands that bpg/proxmox 0.111 runs on a hypervisor.
const (
	probeCommand = `/bin/bash -c 'if [ "$(id -u)" = "0" ]; then echo "0"; elif [ $(sudo -n /usr/sbin/pvesm apiinfo 2>&1 | grep "APIVER" | wc -l) -gt 0 ] || sudo -n /usr/sbin/qm --help >/dev/null 2>&1; then echo "1"; else echo "0"; fi'`
	trySudo      = `_try_sudo_check(){ if [ -z "${_try_sudo_cached:-}" ]; then _try_sudo_use_sudo="${TRY_SUDO_USE_SUDO:-0}"; _try_sudo_cached=1; fi; }; try_sudo(){ _try_sudo_check; if [ "$_try_sudo_use_sudo" = "1" ]; then sudo "$@"; else "$@"; fi; }; `
)

func teeCommand(sudo, file string) string {
	return `/bin/bash -c 'export TRY_SUDO_USE_SUDO=` + sudo + `; ` + trySudo +
		`try_sudo /usr/bin/tee /var/lib/vz/snippets/` + file + `'`
}

func importCommand(sudo, image, store, vmid string) string {
	return `/bin/bash -c 'export TRY_SUDO_USE_SUDO=` + sudo + `; set -e; ` + trySudo + `file_id=` + image +
		`; file_format=qcow2; datastore_id_target=` + store + `; vm_id=` + vmid +
		`; disk_options=aio=io_uring,backup=1,iothread=1,discard=on,cache=none,replicate=1; disk_interface=virtio0; source_image=$(try_sudo /usr/sbin/pvesm path $file_id); imported_disk=$(try_sudo /usr/sbin/qm disk import $vm_id $source_image $datastore_id_target -format $file_format | grep unused0 | cut -d : -f 3 | cut -d \'"'"' -f 1); disk_id=${datastore_id_target}:$imported_disk,$disk_options; try_sudo /usr/sbin/qm set $vm_id -${disk_interface} $disk_id'`
}

// createForm is the provider's create call, as recorded.
func createForm(vmid int, name, snippet string) url.Values {
	return url.Values{
		"acpi": {"1"}, "agent": {"enabled=1,fstrim_cloned_disks=0,type=virtio"}, "balloon": {"0"}, "bios": {"seabios"},
		"boot": {"order=virtio0;net0"}, "cicustom": {"vendor=local:snippets/" + snippet}, "ciuser": {"tf-user"},
		"cores": {"4"}, "cpu": {"host"}, "description": {"Managed by Terraform"}, "ide2": {"file=local:cloudinit,"},
		"ipconfig0": {"ip=dhcp"}, "ipconfig1": {"ip=dhcp"}, "keyboard": {"en-us"}, "memory": {"16384"}, "name": {name},
		"net0": {"model=virtio,bridge=vmbr0,firewall=0,macaddr=BC:24:11:00:00:01"},
		"net1": {"model=virtio,bridge=vmbr1,firewall=0"},
		"numa": {"0"}, "onboot": {"1"}, "ostype": {"other"}, "protection": {"0"}, "scsihw": {"virtio-scsi-pci"},
		"sockets": {"1"},
		"sshkeys": {
			"ssh-ed25519%20AAAAC3NzaC1lZDI1NTE5AAAAIMEWWSQh8auB0rU7PIVCqfRW%2Fl2ccmFNffLSbnfF6zRP%20user%40example%20box",
		},
		"tablet": {"1"}, "tags": {"env1;hive-test"}, "template": {"0"}, "vmid": {itoa(vmid)},
	}
}

// TestImageFlow is what the provider does for a VM from a cloud image with a snippet, from upload to deletion.
func TestImageFlow(t *testing.T) {
	_, c, machines := startServer(t, Options{})
	conn := c.login(1, "root")
	if out, _, rc := run(t, conn, probeCommand, ""); out != "0\n" || rc != 0 {
		t.Fatalf("sudo probe = %q, %d", out, rc)
	}
	const vendor = "#cloud-config\nruncmd:\n  - touch /run/done\n"
	if out, errOut, rc := run(t, conn, teeCommand("0", "env1-2.yaml"), vendor); out != vendor || rc != 0 {
		t.Fatalf("tee = %q %q %d", out, errOut, rc)
	}
	checkSFTP(t, c, len(vendor))
	rows, _ := c.ok("GET", "/nodes/pve2/storage/local/content?content=snippets", nil).([]any)
	if len(rows) != 1 {
		t.Fatalf("snippets = %v", rows)
	}
	if exit := c.task("POST", "/nodes/pve2/qemu", createForm(20001, "env1-2", "env1-2.yaml")); exit != "OK" {
		t.Fatalf("create: %s", exit)
	}
	out, errOut, rc := run(t, conn, importCommand("0", SeedImage, "local", "20001"), "")
	want := "update VM 20001: -virtio0 local:20001/vm-20001-disk-0.qcow2,aio=io_uring,backup=1,iothread=1,discard=on,cache=none,replicate=1\n"
	if out != want || rc != 0 {
		t.Fatalf("import = %q %q %d", out, errOut, rc)
	}
	const vm = "/nodes/pve2/qemu/20001"
	if exit := c.task("PUT", vm+"/resize", "disk=virtio0&size=34359738368"); exit != "OK" {
		t.Fatalf("resize: %s", exit)
	}
	if exit := c.task("POST", vm+"/status/start", "timeout=1800"); exit != "OK" {
		t.Fatalf("start: %s", exit)
	}
	got := c.config(vm)
	for _, k := range []string{"digest", "meta", "net1", "smbios1", "vmgenid"} {
		if got[k] == nil {
			t.Errorf("config has no %s", k)
		}
		delete(got, k)
	}
	if diff := cmp.Diff(map[string]any{
		"acpi": 1.0, "agent": "enabled=1,fstrim_cloned_disks=0,type=virtio", "balloon": 0.0, "bios": "seabios",
		"boot": "order=virtio0;net0", "cicustom": "vendor=local:snippets/env1-2.yaml", "ciuser": "tf-user",
		"cores": 4.0,
		"cpu":   "host", "description": "Managed by Terraform",
		"ide2":      "local:20001/vm-20001-cloudinit.qcow2,media=cdrom",
		"ipconfig0": "ip=dhcp", "ipconfig1": "ip=dhcp", "keyboard": "en-us", "memory": "16384", "name": "env1-2",
		"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=0", "numa": 0.0, "onboot": 1.0, "ostype": "other",
		"protection": 0.0, "scsihw": "virtio-scsi-pci", "sockets": 1.0, "tablet": 1.0, "tags": "env1;hive-test",
		"template": 0.0,
		"sshkeys":  createForm(1, "", "")["sshkeys"][0],
		"virtio0":  "local:20001/vm-20001-disk-0.qcow2,aio=io_uring,backup=1,cache=none,discard=on,iothread=1,replicate=1,size=32G",
	}, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	checkMachine(t, machines.spec("20001"), vendor)
	ifs, _ := c.ok("GET", vm+"/agent/network-get-interfaces", nil).(map[string]any)["result"].([]any)
	if len(ifs) != 3 || ifs[1].(map[string]any)["hardware-address"] != "bc:24:11:00:00:01" {
		t.Errorf("interfaces = %v", ifs)
	}
	if exit := c.task("POST", vm+"/status/stop", nil); exit != "OK" {
		t.Errorf("stop: %s", exit)
	}
	if exit := c.task("DELETE", vm+"?destroy-unreferenced-disks=1&purge=1", nil); exit != "OK" {
		t.Errorf("delete: %s", exit)
	}
	if a := c.do("GET", vm+"/status/current", nil); a.Status != 500 || !strings.Contains(a.Reason, "does not exist") {
		t.Errorf("deleted VM: %d %s", a.Status, a.Reason)
	}
	if exit := c.task("DELETE", "/nodes/pve2/storage/local/content/local:snippets%2Fenv1-2.yaml", nil); exit != "OK" {
		t.Errorf("delete snippet: %s", exit)
	}
	if len(machines.specs) != 0 {
		t.Errorf("machines left: %v", machines.specs)
	}
}

func checkSFTP(t *testing.T, c *client, size int) {
	t.Helper()
	fs, err := sftp.NewClient(c.login(1, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fs.Close() }()
	f, err := fs.Open("/var/lib/vz/snippets/env1-2.yaml")
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil || st.Size() != int64(size) {
		t.Errorf("stat = %v, %v", st, err)
	}
}

func checkMachine(t *testing.T, spec host.Spec, vendor string) {
	t.Helper()
	if len(spec.NICs) != 2 || spec.NICs[0].MAC != "BC:24:11:00:00:01" || spec.NICs[1].Bridge != "vmbr1" {
		t.Errorf("cards = %+v", spec.NICs)
	}
	spec.NICs = nil
	want := host.Spec{ID: "20001", Agent: true, CloudInit: host.CloudInit{
		Hostname: "env1-2", User: "tf-user", VendorData: []byte(vendor),
		SSHKeys: []string{
			"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMEWWSQh8auB0rU7PIVCqfRW/l2ccmFNffLSbnfF6zRP user@example box",
		},
	}}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
}

func TestSSHCommands(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	root, other := c.login(0, "root"), c.login(0, "admin")
	if exit := c.task("POST", "/nodes/pve1/qemu", "vmid=340&name=cli&memory=64"); exit != "OK" {
		t.Fatal(exit)
	}
	conf := "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist\n"
	tests := []struct {
		name, user, command string
		out, errOut         string
		rc                  int
	}{
		{name: "probe without root", user: "admin", command: probeCommand, out: "1\n"},
		{name: "tee with sudo", user: "admin", command: teeCommand("1", "a.yaml"), out: "x"},
		{name: "tee without root", user: "admin", command: teeCommand("0", "b.yaml"), out: "x", errOut: "tee: /var/lib/vz/snippets/b.yaml: Permission denied\n", rc: 1},
		{name: "tee elsewhere", command: "tee /etc/passwd", out: "x", errOut: "tee: /etc/passwd: No such file or directory\n", rc: 1},
		{name: "apiinfo", command: "pvesm apiinfo", out: "APIVER 11\nAPIAGE 2\n"},
		{name: "path of a missing file", command: "pvesm path local:iso/missing.img", out: "/var/lib/vz/template/iso/missing.img\n"},
		{name: "path on an unknown storage", command: "pvesm path nope:iso/x.img", errOut: "storage 'nope' does not exist\n", rc: 255},
		{name: "import of a missing file", command: "qm disk import 340 /nonexistent.img local", errOut: "/nonexistent.img: non-existent or non-regular file\n", rc: 2},
		{name: "import to an unknown storage", command: "qm disk import 340 /var/lib/vz/template/iso/debian-12-genericcloud-amd64.img nope", errOut: "storage 'nope' does not exist\n", rc: 255},
		{name: "import to a missing VM", command: "qm disk import 999 /var/lib/vz/template/iso/debian-12-genericcloud-amd64.img local", errOut: conf, rc: 2},
		{name: "import", command: "qm disk import 340 /var/lib/vz/template/iso/debian-12-genericcloud-amd64.img local -format qcow2", out: "importing disk '/var/lib/vz/template/iso/debian-12-genericcloud-amd64.img' to VM 340 ...\nFormatting '/var/lib/vz/images/340/vm-340-disk-0.qcow2', fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib size=2147483648 lazy_refcounts=off refcount_bits=16\ntransferred 0.0 B of 2.0 GiB (0.00%)\ntransferred 1.0 GiB of 2.0 GiB (50.00%)\ntransferred 2.0 GiB of 2.0 GiB (100.00%)\ntransferred 2.0 GiB of 2.0 GiB (100.00%)\nunused0: successfully imported disk 'local:340/vm-340-disk-0.qcow2'\n"},
		{name: "set of a missing volume", command: "qm set 340 -virtio0 local:340/vm-340-disk-7.qcow2", out: "update VM 340: -virtio0 local:340/vm-340-disk-7.qcow2\n", errOut: "volume 'local:340/vm-340-disk-7.qcow2' does not exist\n", rc: 255},
		{name: "set without a volume", command: "qm set 340 -virtio1 'local:'", errOut: "400 Parameter verification failed.\nvirtio1: invalid format - format error\nvirtio1.file: invalid format - unable to parse volume ID 'local:'\n\n\nqm set <vmid> [OPTIONS]\n", rc: 255},
		{name: "set of an unknown option", command: "qm set 340 -bogus 1", errOut: "Unknown option: bogus\n400 unable to parse option\nqm set <vmid> [OPTIONS]\n", rc: 255},
		{name: "set", command: "qm set 340 -virtio0 local:340/vm-340-disk-0.qcow2,aio=io_uring", out: "update VM 340: -virtio0 local:340/vm-340-disk-0.qcow2,aio=io_uring\n"},
		{name: "resize", command: "qm resize 340 virtio0 4G", out: "Image resized.\n"},
		{name: "shrink", command: "qm resize 340 virtio0 1G", errOut: "shrinking disks is not supported\n"},
		{name: "status", command: "qm status 340", out: "status: stopped\n"},
		{name: "status of a missing VM", command: "qm status 999", errOut: conf, rc: 2},
		{name: "anything else", command: "rm -rf /", errOut: "bash: line 1: rm: command not found\n", rc: 127},
		{name: "missing image", command: importCommand("0", "local:iso/none.img", "local", "340"), errOut: "/var/lib/vz/template/iso/none.img: non-existent or non-regular file\n400 Parameter verification failed.\nvirtio0: invalid format - format error\nvirtio0.file: invalid format - unable to parse volume ID 'local:'\n\n\nqm set <vmid> [OPTIONS]\n", rc: 255},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := root
			if tt.user == "admin" {
				conn = other
			}
			stdin := ""
			if strings.Contains(tt.command, "tee") {
				stdin = "x"
			}
			out, errOut, rc := run(t, conn, tt.command, stdin)
			if diff := cmp.Diff([]any{tt.out, tt.errOut, tt.rc}, []any{out, errOut, rc}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFaultOfACommand: what is run on a hypervisor can go wrong, too, once or always; requests are not meant.
func TestFaultOfACommand(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	conn := c.login(1, "admin")
	c.ok("POST", "/sim/faults", map[string]any{
		"path": "/nodes/pve2/pvesm apiinfo**", "method": "SSH", "nth": 1, "status": 5, "reason": "not today",
	})
	c.ok("POST", "/sim/faults", map[string]any{"path": "/nodes/pve2/qm**", "status": 500, "reason": "requests only"})
	if _, errOut, rc := run(t, conn, "sudo -n /usr/sbin/pvesm apiinfo", ""); rc != 5 || errOut != "not today\n" {
		t.Errorf("the first = %q, %d", errOut, rc)
	}
	for _, command := range []string{"sudo -n /usr/sbin/pvesm apiinfo", "sudo -n /usr/sbin/qm --help"} {
		if _, errOut, rc := run(t, conn, command, ""); rc != 0 {
			t.Errorf("%s = %q, %d", command, errOut, rc)
		}
	}
}
