package engine

import (
	"fmt"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// change makes the record, in memory, what is asked for where a cluster can be changed to that: its number of nodes and
// the size of each. What the user did not mention stays.
func (s *session) change() error {
	made, asked := &s.record.Spec, s.settings.Spec()
	if made.Deployer == cluster.DeployerExisting {
		return nil
	}
	if err := s.refuseHiddenShrinking(); err != nil {
		return err
	}
	given := func(key string, asked, made any) bool { return s.settings.Given(key) && asked != made }
	needsRestart := given("cpu_cores", asked.CPUCores, made.CPUCores) || given("memory_mb", asked.MemoryMB, made.MemoryMB)
	if given("disk_size_gb", asked.DiskSizeGB, made.DiskSizeGB) {
		switch {
		case asked.DiskSizeGB < made.DiskSizeGB:
			return usage(fmt.Errorf("the disks of cluster %q have %d GiB and cannot shrink to %d", s.name, made.DiskSizeGB, asked.DiskSizeGB))
		case needsRestart:
			return usage(fmt.Errorf("the disks of running VMs grow alone: change CPUs and memory in another `hive-test up %s`", s.name))
		}
		made.DiskSizeGB = asked.DiskSizeGB
	}
	for _, value := range []struct {
		key         string
		asked, made *int
	}{{"node_count", &asked.NodeCount, &made.NodeCount}, {"cpu_cores", &asked.CPUCores, &made.CPUCores}, {"memory_mb", &asked.MemoryMB, &made.MemoryMB}} {
		if s.settings.Given(value.key) {
			*value.made = *value.asked
		}
	}
	if s.settings.Explicit("ttl") { // a file's is for new clusters: it would move the end at each up
		s.record.Owner.Expires = expiryAfter(s.started, s.settings.TTL)
	}
	if s.settings.Given("os_image") {
		made.OSImage = asked.OSImage
	}
	return nil
}

// refuseHiddenShrinking lets nodes be removed by nothing but the flag: a file or a variable that was made for other
// clusters must not do it.
func (s *session) refuseHiddenShrinking() error {
	asked, made := s.settings.NodeCount, s.record.Spec.NodeCount
	source := s.settings.Source("node_count")
	if !s.settings.Given("node_count") || asked >= made || s.settings.Explicit("node_count") {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %q has %s, and %s asks for %d", s.name, progress.Count(made, "node"), source, asked),
		fmt.Sprintf("--node-count %d removes the others, --node-count %d keeps them", asked, made)))
}
