package api

import (
	"cmp"
	"slices"

	"hive-test/pkg/cluster"
)

// Place chooses the hypervisor of each of count new VMs of memory MiB among those that are named, by what Proxmox VE
// says of them: with PlacePack the first that has the memory, with PlaceMemory the one with most of it free, in the
// order of the names where two are equal. Where none has the memory, the one with most of it is taken: Preflight tells
// what is wrong. It returns nil, which is round-robin, for any other way, and where nothing is known of them.
func Place(way string, names []string, hosts []Hypervisor, count, memory int) []string {
	if way != cluster.PlacePack && way != cluster.PlaceMemory {
		return nil
	}
	type room struct {
		name string
		free int64 // MiB
	}
	var rooms []room
	for _, name := range names {
		i := slices.IndexFunc(hosts, func(h Hypervisor) bool { return h.Name == name })
		if i >= 0 && hosts[i].Online && !hosts[i].Unknown {
			rooms = append(rooms, room{name, (int64(hosts[i].MemoryTotal) - int64(hosts[i].MemoryUsed)) >> 20})
		}
	}
	if len(rooms) == 0 {
		return nil
	}
	most := func() int {
		best := slices.MaxFunc(rooms, func(a, b room) int { return cmp.Compare(a.free, b.free) })
		return slices.Index(rooms, best)
	}
	chosen := make([]string, count)
	for i := range chosen {
		at := -1
		if way == cluster.PlacePack {
			at = slices.IndexFunc(rooms, func(r room) bool { return r.free >= int64(memory) })
		}
		if at < 0 {
			at = most()
		}
		chosen[i] = rooms[at].name
		rooms[at].free -= int64(memory)
	}
	return chosen
}
