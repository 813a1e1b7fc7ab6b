package pve

import (
	"fmt"
	"slices"
)

// destroyFaulty deletes a VM as far as the fault that it meets lets it: a storage that is locked keeps its disks while the VM
// goes, a lost quorum keeps the VM while its disks go (both observed).
func (s *Server) destroyFaulty(t *task, c *call) error {
	if c.fault == nil || !c.fault.StorageLocked && !c.fault.DisksLost {
		return s.destroy(t, c)
	}
	disks := s.disksOf(c)
	err := s.destroy(t, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && c.fault.StorageLocked:
		for _, v := range disks {
			t.addLog(fmt.Sprintf("Could not remove disk '%s', check manually: can't lock file '/var/lock/pve-manager/pve-storage-%s' - got timeout", v.id(), v.Storage))
		}
		s.state.Volumes = append(s.state.Volumes, disks...)
	case err != nil && c.fault.DisksLost:
		s.state.Volumes = slices.DeleteFunc(s.state.Volumes, func(v *volume) bool { return slices.Contains(disks, v) })
	}
	s.changed()
	return err
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
