package engine

import (
	"errors"
	"fmt"
	"strings"

	"hive-test/pkg/lifecycle"
)

// Leave is what becomes of hive on the hosts of a hosts file when they are released. The zero value lets it run on.
type Leave struct {
	Stop  bool // stop it
	Purge bool // stop it, and remove its data, programs and profiles
	Yes   bool // purge without asking
}

func (l Leave) hive() lifecycle.Leave {
	switch {
	case l.Purge:
		return lifecycle.LeaveNothing
	case l.Stop:
		return lifecycle.LeaveStopped
	}
	return lifecycle.LeaveRunning
}

// checkLeave refuses what is meant for hosts of a hosts file only, and asks before their data is removed, once.
func (s *session) checkLeave(l *Leave) error {
	if !l.Stop && !l.Purge {
		return nil
	}
	if s.Makes() {
		return usage(fmt.Errorf(
			"--stop-hive and --purge are for clusters of a hosts file: the VMs of %q are destroyed", s.Name,
		))
	}
	if !l.Purge || l.Yes {
		return nil
	}
	hosts := strings.Join(s.Record.Nodes.Names(), ", ")
	agreed, err := s.Confirm("remove hive and all its data from " + hosts + "?")
	switch {
	case err != nil:
		return usage(err)
	case !agreed:
		return usage(errors.New("nothing was removed"))
	}
	l.Yes = true
	return nil
}
