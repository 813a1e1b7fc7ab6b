package engine

import (
	"fmt"

	"hive-test/pkg/progress"
)

// change makes the record, in memory, what is asked for where a cluster can be changed to that: its number of nodes and
// the size of each. What the user did not mention stays.
func (s *session) change() error {
	made, asked := &s.Record.Spec, s.Settings.Spec()
	if !s.Makes() {
		return nil
	}
	if err := s.refuseHiddenShrinking(); err != nil {
		return err
	}
	given := func(key string, asked, made any) bool { return s.Settings.Given(key) && asked != made }
	needsRestart := given("cpu_cores", asked.CPUCores, made.CPUCores) ||
		given("memory_mb", asked.MemoryMB, made.MemoryMB)
	if given("disk_size_gb", asked.DiskSizeGB, made.DiskSizeGB) {
		switch {
		case asked.DiskSizeGB < made.DiskSizeGB:
			return usage(fmt.Errorf(
				"the disks of cluster %q have %d GiB and cannot shrink to %d", s.Name, made.DiskSizeGB,
				asked.DiskSizeGB,
			))
		case needsRestart:
			return usage(fmt.Errorf(
				"the disks of running VMs grow alone: change CPUs and memory in another `hive-test up %s`", s.Name,
			))
		}
		made.DiskSizeGB = asked.DiskSizeGB
	}
	for _, value := range []struct {
		key         string
		asked, made *int
	}{{"node_count", &asked.NodeCount, &made.NodeCount}, {"cpu_cores", &asked.CPUCores, &made.CPUCores}, {"memory_mb", &asked.MemoryMB, &made.MemoryMB}} {
		if s.Settings.Given(value.key) {
			*value.made = *value.asked
		}
	}
	if s.Settings.Explicit("ttl") { // a file's is for new clusters: it would move the end at each up
		s.Record.Owner.Expires = expiryAfter(s.started, s.Settings.TTL)
	}
	if s.Settings.Given("placement") {
		made.PlaceBy = asked.PlaceBy
	}
	if s.Settings.Given("avoid_hypervisors") {
		if err := s.Avoid(); err != nil {
			return err
		}
	}
	if s.Settings.Given("os_image") {
		made.OSImage = asked.OSImage
	}
	return nil
}

// refuseHiddenShrinking lets nodes be removed by nothing but the flag: a file or a variable that was made for other
// clusters must not do it.
func (s *session) refuseHiddenShrinking() error {
	asked, made := s.Settings.NodeCount, s.Record.Spec.NodeCount
	source := s.Settings.Source("node_count")
	if !s.Settings.Given("node_count") || asked >= made || s.Settings.Explicit("node_count") {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %q has %s, and %s asks for %d", s.Name, progress.Count(made, "node"), source, asked),
		fmt.Sprintf("--node-count %d removes the others, --node-count %d keeps them", asked, made)))
}
