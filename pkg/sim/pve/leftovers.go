package pve

import (
	"fmt"
	"slices"
)

// destroyFaulty deletes a VM as far as the fault that it meets lets it: disks that cannot be removed stay while the VM
// goes, a lost quorum keeps the VM while its disks go (all observed).
func (s *Server) destroyFaulty(t *task, c *call) error {
	if c.fault == nil || !c.fault.StorageLocked && c.fault.DisksKept == "" && !c.fault.DisksLost {
		return s.destroy(t, c)
	}
	disks := s.disksOf(c)
	kept := c.fault.StorageLocked || c.fault.DisksKept != ""
	if kept && s.version != Version84 {
		t.warn = slices.Concat(t.warn, s.keptDisks(c, disks))
	}
	err := s.destroy(t, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && kept:
		if s.version == Version84 {
			t.addLog(s.keptDisks(c, disks)...)
		}
		s.state.Volumes = append(s.state.Volumes, disks...)
	case err != nil && c.fault.DisksLost:
		s.state.Volumes = slices.DeleteFunc(s.state.Volumes, func(v *volume) bool { return slices.Contains(disks, v) })
	}
	s.changed()
	return err
}

// keptDisks is what is said of disks that cannot be removed: once for the VM, and once more where all images of its id
// are to go.
func (s *Server) keptDisks(c *call, disks []*volume) []string {
	var said, again []string
	for _, v := range disks {
		why := c.fault.DisksKept
		if c.fault.StorageLocked {
			why = fmt.Sprintf("can't lock file '/var/lock/pve-manager/pve-storage-%s' - got timeout", v.Storage)
		}
		said = append(said, fmt.Sprintf("Could not remove disk '%s', check manually: %s", v.id(), why))
		again = append(again, why)
	}
	if s.version != Version84 && c.bool("destroy-unreferenced-disks") {
		said = append(said, again...)
	}
	return said
}

// disksOf are the images of the call's VM.
func (s *Server) disksOf(c *call) []*volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	var disks []*volume
	for _, v := range s.state.Volumes {
		if v.Content == "images" && v.VMID == c.vmid && (v.Node == "" || v.Node == c.node) {
			disks = append(disks, v)
		}
	}
	return disks
}
