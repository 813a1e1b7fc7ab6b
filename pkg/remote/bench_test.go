package remote

import (
	"testing"

	"hive-test/pkg/cluster"
)

// BenchmarkTrueOn20Hosts is a whole run of one command on twenty hosts: connect, log in, run, close.
func BenchmarkTrueOn20Hosts(b *testing.B) {
	nodes := make(cluster.Nodes, 20)
	for i := range nodes {
		nodes[i] = newServer(b).node(i + 1)
	}
	cfg := testConfig(b)
	for b.Loop() {
		d, err := NewDialer(cfg)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := d.Group(nodes).Run(b.Context(), Command{Argv: []string{"true"}}); err != nil {
			b.Fatal(err)
		}
		_ = d.Close()
	}
}
