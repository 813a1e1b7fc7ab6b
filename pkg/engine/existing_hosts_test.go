package engine

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
)

func TestHostDifferences(t *testing.T) {
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	record := &cluster.Record{
		Spec: cluster.Spec{SSHUser: "root"}, SSHKeyPath: "/k",
		Nodes: cluster.Nodes{{Name: "a", Index: 1, Management: one, Data: one, SSHPort: 22}, {Name: "b", Index: 2, Management: two, Data: two, SSHPort: 22}},
	}
	file := func(change func(*config.Hosts)) config.Hosts {
		hosts := config.Hosts{SSHUser: "root", SSHKeyPath: "/k", Nodes: record.Clone().Nodes}
		hosts.Nodes[0].SSHPort = 0 // as the file leaves it out
		change(&hosts)
		return hosts
	}
	for name, tc := range map[string]struct {
		hosts     config.Hosts
		jumpGiven bool
		want      []string
	}{
		"the same": {hosts: file(func(*config.Hosts) {})},
		"an address": {
			hosts: file(func(h *config.Hosts) { h.Nodes[1].Management = one }),
			want:  []string{"management of b is 10.0.0.2, and the hosts file says 10.0.0.1"},
		},
		"a node fewer, the other renamed, another port": {
			hosts: file(func(h *config.Hosts) { h.Nodes = cluster.Nodes{{Name: "c", Management: one, Data: one, SSHPort: 23}} }),
			want: []string{
				"the number of nodes is 2, and the hosts file says 1", "node 1 is a, and the hosts file says c", "the SSH port of a is 22, and the hosts file says 23",
			},
		},
		"user, key and way": {
			hosts: file(func(h *config.Hosts) {
				h.SSHUser, h.SSHKeyPath, h.ProxyJump = "ann", "/other", cluster.JumpHosts{{User: "u", Host: "h", Port: 22}}
			}),
			want: []string{
				"the SSH user is root, and the hosts file says ann", "the SSH key is /k, and the hosts file says /other", "the way by jump hosts is , and the hosts file says u@h:22",
			},
		},
		"a way that is named elsewhere": {
			hosts: file(func(h *config.Hosts) { h.ProxyJump = cluster.JumpHosts{{User: "u", Host: "h", Port: 22}} }), jumpGiven: true,
		},
	} {
		if diff := cmp.Diff(tc.want, hostDifferences(record, tc.hosts, tc.jumpGiven)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
