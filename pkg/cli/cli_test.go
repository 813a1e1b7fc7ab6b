package cli

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/remote"
)

func TestShellLine(t *testing.T) {
	for _, tc := range []struct{ in, want []string }{
		{[]string{"hostname"}, []string{"hostname"}},
		{[]string{"df", "-h", "a b"}, []string{"df", "-h", "a b"}},
		{[]string{"df -h | tail -1"}, []string{"sh", "-c", "df -h | tail -1"}},
		{[]string{"echo $HOME"}, []string{"sh", "-c", "echo $HOME"}},
		{[]string{"/usr/bin/id"}, []string{"/usr/bin/id"}},
		{nil, nil},
	} {
		if diff := cmp.Diff(tc.want, shellLine(tc.in)); diff != "" {
			t.Errorf("shellLine(%q) (-want +got):\n%s", tc.in, diff)
		}
	}
}

func nodes() cluster.Nodes {
	var list cluster.Nodes
	for i := range 3 {
		list = append(list, cluster.Node{
			Name: fmt.Sprintf("ci-1-%d", i+1), Index: i + 1,
			Management: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			Data:       netip.AddrFrom4([4]byte{10, 1, 0, byte(i + 1)}),
		})
	}
	return list
}

func TestAnsibleInventory(t *testing.T) {
	got := ansible(
		cluster.Inventory{
			ClusterName: "ci-1", Nodes: nodes()[:2], SSHUser: "tf-user", SSHKeyPath: "/c/ci-1/id_ed25519",
		},
		"/c/ci-1/ssh_config",
	)
	want := `[ci_1]
ci-1-1 ansible_host=10.0.0.1 ansible_port=22 hive_data_address=10.1.0.1
ci-1-2 ansible_host=10.0.0.2 ansible_port=22 hive_data_address=10.1.0.2

[ci_1_leader]
ci-1-1

[ci_1:vars]
ansible_user="tf-user"
ansible_ssh_common_args="-F /c/ci-1/ssh_config"
ansible_ssh_private_key_file="/c/ci-1/id_ed25519"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Ansible itself reads from the inventory what it is to read, whatever the directory is called.
func TestAnsibleReadsInventory(t *testing.T) {
	program, err := exec.LookPath("ansible-inventory")
	if err != nil {
		t.Skip("no ansible-inventory is installed")
	}
	list := cluster.Nodes{
		{Name: "ci-1", Index: 1, Management: netip.MustParseAddr("fd00::2"), Data: netip.MustParseAddr("::1"), SSHPort: 2222},
		{Name: "ci-2", Index: 2, Management: netip.MustParseAddr("10.0.0.2"), Data: netip.MustParseAddr("10.1.0.2")},
		{Name: "ci-3", Index: 3, Management: netip.MustParseAddr("fe80::3%eth0")},
		{Name: "ci-4", Index: 4}, // up has not found all addresses
	}
	user := `CORP\42 #1`
	for _, dir := range []string{"/c/plain", "/c/50% of a b", `/c/it's "odd"`, `/c/back\slash # hash ; é`, "/c/a=b"} {
		file := filepath.Join(t.TempDir(), "hosts.ini")
		inv := cluster.Inventory{ClusterName: "ci", Nodes: list, SSHUser: user, SSHKeyPath: dir + "/id"}
		if err := os.WriteFile(file, []byte(ansible(inv, dir+"/ssh_config")), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "-i", file, "--list")
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+t.TempDir())
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		var read struct {
			Meta struct {
				Hosts map[string]struct {
					Host string `json:"ansible_host"`
					Port int    `json:"ansible_port"`
					Data string `json:"hive_data_address"`
					User string `json:"ansible_user"`
					Args string `json:"ansible_ssh_common_args"`
					Key  string `json:"ansible_ssh_private_key_file"`
				} `json:"hostvars"`
			} `json:"_meta"`
		}
		if err := json.Unmarshal(out, &read); err != nil {
			t.Fatalf("%s: %v\n%s", dir, err, out)
		}
		host := read.Meta.Hosts["ci-1"]
		if host.Host != "fd00::2" || host.Port != 2222 || host.Data != "::1" || read.Meta.Hosts["ci-2"].Port != 22 ||
			read.Meta.Hosts["ci-3"].Host != "fe80::3%eth0" || len(read.Meta.Hosts) != 3 || host.User != user {
			t.Errorf("%s: addresses are read as %+v", dir, read.Meta.Hosts)
		}
		if want := "-F " + remote.Quote(dir+"/ssh_config"); host.Args != want {
			t.Errorf("%s: the arguments are read as %q, want %q", dir, host.Args, want)
		}
		want := strings.ReplaceAll(dir+"/id", "%", "%%")
		if strings.Contains(dir, `"`) {
			want = "" // ssh_config says it
		}
		if host.Key != want {
			t.Errorf("%s: the key is read as %q, want %q", dir, host.Key, want)
		}
	}
}
