package pve

import (
	"strings"
	"time"
)

// readsOnly are the monitor's commands that change nothing. The others are for Sys.Modify, and on 9 some of them, and
// all that the monitor does not have, for root@pam alone, which no token is. Here those are all others.
func readsOnly(command string) bool {
	words := strings.Fields(command)
	return len(words) > 0 && words[0] == "info" || len(words) == 1 && words[0] == "help"
}

// monitorCommand answers as QEMU's monitor, which ends its lines as a terminal wants it. What it says of a machine that
// does not run is an answer, too.
func monitorCommand(s *Server, c *call) (any, error) {
	command := c.get("command")
	words := strings.Fields(command)
	switch {
	case readsOnly(command):
	case s.version == Version84:
		if err := s.need(c.who, "/", "Sys.Modify"); err != nil {
			return nil, err
		}
	case len(words) == 0 || c.who.name() != "root@pam":
		return nil, failf(
			"command '%s' non-existent or not assigned a required permission yet, limiting to root user",
			strings.Join(words[:min(1, len(words))], ""),
		)
	}
	v, err := s.vmOn(c.node, c.vmid)
	switch {
	case err != nil:
		return nil, err
	case !s.running(v):
		return "ERROR: VM " + v.machineID() + " is not running\n", nil
	case strings.Join(words, " ") == "info status":
		return "VM status: running\r\n", nil
	}
	return "unknown command: '" + command + "'\r\n", nil
}

// nothingListed is the answer of what nobody has set up.
func nothingListed(*Server, *call) (any, error) { return []any{}, nil }

// nodeConfig is empty: nobody has described the hypervisor.
func nodeConfig(*Server, *call) (any, error) { return map[string]any{}, nil }

// haMigrate asks the HA manager to move a VM of its own, which it does in one of its next rounds (read in the source).
func (s *Server) haMigrate(c *call, n *node, after time.Duration) string {
	return s.startTask(c.who, c.node, "hamigrate", c.get("vmid"), c, func(t *task) error {
		t.logf("Requesting HA migration for VM %d to node %s", c.vmid, n.Name)
		if err := t.work(); err != nil {
			return err
		}
		s.wg.Go(func() {
			if !sleep(s.ctx, max(after, haRest)) {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			manager := c.byManager()
			s.vmTask(manager, "qmigrate", c.vmid, func(t *task) error { return s.moveVM(t, manager, n) })
		})
		return nil
	})
}
