package remote

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
)

func TestSSHConfig(t *testing.T) {
	inv := cluster.Inventory{
		ClusterName: "ci", SSHUser: "tf-user", SSHKeyPath: `/home/a b/50%/"q"\id`,
		Nodes: cluster.Nodes{
			{Name: "ci-1", Index: 1, Management: netip.MustParseAddr("192.0.2.1")},
			{Name: "ci-2", Index: 2, Management: netip.MustParseAddr("2001:db8::2"), SSHPort: 2222},
			{Name: "ci-3", Index: 3},
		},
	}
	got := SSHConfig(inv, "/home/a b/known_hosts")
	want, err := os.ReadFile("testdata/ssh_config.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("no ssh here to read it")
	}
	file := filepath.Join(t.TempDir(), "ssh_config")
	if err := os.WriteFile(file, got, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(ssh, "-G", "-F", file, "ci-2").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range []string{
		"hostname 2001:db8::2", "port 2222", "user tf-user", `identityfile /home/a b/50%%/"q"\id`,
		"stricthostkeychecking true",
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("ssh does not read %q from it:\n%s", line, out)
		}
	}
}
