package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
)

func TestPlace(t *testing.T) {
	gib := func(total, used uint64) (uint64, uint64) { return total << 30, used << 30 }
	host := func(name string, total, used uint64) Hypervisor {
		h := Hypervisor{Name: name, Online: true}
		h.MemoryTotal, h.MemoryUsed = gib(total, used)
		return h
	}
	hosts := []Hypervisor{host("a", 32, 22), host("b", 32, 4), host("c", 32, 8), host("d", 64, 0)}
	away := host("e", 128, 0)
	away.Online = false
	hosts = append(hosts, away)
	names := []string{"e", "a", "b", "c"} // d is none that was asked for
	for name, tc := range map[string]struct {
		way           string
		count, memory int // GiB
		want          []string
	}{
		"spread":             {"", 3, 8, nil},
		"pack":               {cluster.PlacePack, 5, 8, []string{"a", "b", "b", "b", "c"}},
		"memory":             {cluster.PlaceMemory, 4, 8, []string{"b", "c", "b", "c"}},
		"no room, pack":      {cluster.PlacePack, 2, 40, []string{"b", "c"}},
		"no room, memory":    {cluster.PlaceMemory, 2, 40, []string{"b", "c"}},
		"nothing to be made": {cluster.PlaceMemory, 0, 8, []string{}},
	} {
		if diff := cmp.Diff(tc.want, Place(tc.way, names, hosts, tc.count, tc.memory<<10)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := Place(cluster.PlacePack, []string{"e"}, hosts, 2, 1); got != nil {
		t.Errorf("nothing is known of e, and it was chosen: %v", got)
	}
}
