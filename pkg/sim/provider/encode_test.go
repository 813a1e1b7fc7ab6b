package provider

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
)

func TestEncoders(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"agent", encodeAgent(true, false, "virtio"), "enabled=1,fstrim_cloned_disks=0,type=virtio"},
		{"cpu", encodeCPU("host", nil), "host"},
		{"cpu flags", encodeCPU("kvm64", []string{"+aes", "-pcid"}), "cputype=kvm64,flags=+aes;-pcid"},
		{"tags", encodeTags([]string{" b", "", "a "}), "a;b"},
		{"nic", nic{model: "virtio", bridge: "vmbr0"}.String(), "model=virtio,bridge=vmbr0,firewall=0"},
		{
			"nic, all", nic{
				model: "e1000", bridge: "vmbr1", firewall: true, down: true, mac: "BC:24:11:00:00:01", queues: 4,
				rate: 1.5,
				vlan: 7, mtu: 1400, trunks: []string{"2", "3"},
			}.String(),
			"model=e1000,bridge=vmbr1,firewall=1,link_down=1,macaddr=BC:24:11:00:00:01,queues=4,rate=1.500000,tag=7,mtu=1400,trunks=2;3",
		},
		{"cloud-init drive", drive{volume: "local:cloudinit"}.String(), "file=local:cloudinit,"},
		{"cloud-init drive with format", drive{volume: "local:cloudinit", format: "raw"}.String(), "file=local:cloudinit,format=raw,"},
		{
			"import", drive{
				volume: "local-lvm:32", store: "local-lvm", importFrom: "local:import/x.qcow2", size: 32 << 30,
				options: map[string]string{"aio": "io_uring", "backup": "1", "serial": ""},
			}.String(),
			"file=local-lvm:0,import-from=local:import/x.qcow2,size=34359738368,aio=io_uring,backup=1",
		},
		{"boot", strings.Join(bootOrder(nil, map[string]drive{"virtio0": {}, "scsi0": {}}), ";"), "scsi0;virtio0;net0"},
		{"boot, written", strings.Join(bootOrder([]any{"net0"}, nil), ";"), "net0"},
		{"size", formatSize(10 << 30), "10G"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestSSHKeysAreEncodedTwiceOnTheWire(t *testing.T) {
	keys := []string{"ssh-ed25519 AAAA/+= user@example box", "ssh-rsa B"}
	f := newForm()
	f.Set("sshkeys", encodeKeys(keys))
	want := "sshkeys=ssh-ed25519%2520AAAA%252F%252B%253D%2520user%2540example%2520box%250Assh-rsa%2520B"
	if got := f.Encode(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	back, err := decodeKeys(encodeKeys(keys))
	if diff := cmp.Diff(keys, back); diff != "" || err != nil {
		t.Errorf("read back otherwise (%v):\n%s", err, diff)
	}
}

func TestDecodesDrives(t *testing.T) {
	for s, want := range map[string]drive{
		"local:100/vm-100-disk-0.qcow2,aio=io_uring,size=32G": {
			volume: "local:100/vm-100-disk-0.qcow2", format: "qcow2", size: 32 << 30,
			options: map[string]string{"aio": "io_uring"},
		},
		"none,media=cdrom": {volume: "none", media: "cdrom", options: map[string]string{}},
		"file=local-lvm:vm-9-disk-0,format=raw,size=4M": {
			volume: "local-lvm:vm-9-disk-0", format: "raw", size: 4 << 20,
			options: map[string]string{},
		},
	} {
		got, err := parseDrive(s)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(drive{})); diff != "" || err != nil {
			t.Errorf("%s (%v):\n%s", s, err, diff)
		}
	}
	if _, err := parseDrive("local:x,size=big"); err == nil {
		t.Error("a size that is no size is accepted")
	}
}

func TestRefusesAnswersThatTheRealProviderCannotDecode(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"cores":4,"memory":"2048","name":"a"}`: true,
		`{"memory":2048,"onboot":1}`:             true,
		`{"cores":"4"}`:                          false,
		`{"name":7}`:                             false,
		`{"net0":null}`:                          true,
	} {
		var g guest
		if err := g.UnmarshalJSON([]byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestCredentials(t *testing.T) {
	for text, c := range map[string]credentials{
		"": {token: testToken},
		"the API token must be in the format 'USER@REALM!TOKENID=UUID'":        {token: "root@pam=1"},
		"must provide either username and password, an API token, or a ticket": {username: "root@pam"},
		"the username must end with '@pve' or '@pam'":                          {username: "root", password: "x"},
	} {
		if err := c.check(); fmt.Sprint(errOrEmpty(err)) != text {
			t.Errorf("%q, want %q", err, text)
		}
	}
}

func errOrEmpty(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A wrong token costs 52 s with the real provider: ten listings with pauses
// that double from 0.1 s.
func TestListingsAreRepeatedForAboutFiftySeconds(t *testing.T) {
	var least time.Duration
	p := patiently()
	for n := range p.attempts - 1 {
		d := p.delay(n)
		least += backoff(100 * time.Millisecond)(n)
		if low := 100 * time.Millisecond << n; d < low || d >= low+100*time.Millisecond {
			t.Errorf("pause %d is %s", n, d)
		}
	}
	if p.attempts != 10 || least != 51100*time.Millisecond {
		t.Errorf("%d attempts in %s", p.attempts, least)
	}
	for code, repeated := range map[int]bool{401: true, 403: false, 500: true, 595: true} {
		if got := p.retryIf(&httpError{code: code}); got != repeated {
			t.Errorf("%d: repeated is %v", code, got)
		}
	}
	if p.retryIf(errors.Join(errMissing, &httpError{code: 500})) {
		t.Error("a missing storage is asked for again")
	}
}

func TestTaskPathEscapesTheToken(t *testing.T) {
	got := taskPath("UPID:pve1:00001004:00E2DFEC:6B09F2E1:qmcreate:100:terraform@pve!provider:", "status")
	want := "nodes/pve1/tasks/UPID:pve1:00001004:00E2DFEC:6B09F2E1:qmcreate:100:terraform@pve%21provider:/status"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestRefusesAChangedHostKey(t *testing.T) {
	s := newStage(t)
	home := t.TempDir()
	cfg := sshConfig{
		username: "root", privateKey: s.key, home: home, nodes: map[string]nodeAddress{"pve1": s.nodes["pve1"]},
	}
	first := newShell(cfg, nil)
	client, err := first.connect(t.Context(), "pve1")
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	// Another machine answers at the address that is known by now.
	check, _, err := hostKeys(home, s.nodes["pve1"].String())
	if err != nil {
		t.Fatal(err)
	}
	err = check(s.nodes["pve1"].String(), tcpAddr(s.nodes["pve1"]), publicKey(t))
	if err == nil || !strings.Contains(err.Error(), "REMOTE HOST IDENTIFICATION HAS CHANGED") {
		t.Errorf("a changed key gave %v", err)
	}
}

func TestUpdateSendsWhatChanged(t *testing.T) {
	f := newForm()
	if !f.addStartup([]any{map[string]any{"order": 3, "up_delay": -1, "down_delay": 10}}) {
		t.Error("the startup block is not seen")
	}
	f.addVGA([]any{map[string]any{"type": "serial0", "memory": 16, "clipboard": ""}})
	unused := f.addSerials([]any{map[string]any{"device": "socket"}})
	want := url.Values{"startup": {"order=3,down=10"}, "vga": {"memory=16,type=serial0"}, "serial0": {"socket"}}
	if diff := cmp.Diff(want, f.Values); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"serial1", "serial2", "serial3"}, unused); diff != "" {
		t.Error(diff)
	}
}

func TestHotplugDefaults(t *testing.T) {
	d := wrap(schema.TestResourceDataRaw(t, vmResource().Schema, map[string]any{"node_name": "pve1"}))
	for feature, want := range map[string]bool{"disk": true, "network": true, "cpu": false, "memory": false} {
		if got := d.hotpluggable(feature); got != want {
			t.Errorf("%s: %v", feature, got)
		}
	}
}
