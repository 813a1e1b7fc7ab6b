package host

import (
	"errors"
	"log/slog"
	"path/filepath"
	"time"
)

// Options say how and where a Manager keeps its machines.
type Options struct {
	// Kind of host. It must be one that works here (see Detect); it is never replaced by another.
	Kind Kind
	// Dir is where disks, leases and logs are kept; it is created with mode 0700 and belongs to one Manager at a time.
	Dir string
	// Self is the absolute path of an executable whose main calls Main when IsGuest says so. It becomes every machine's
	// init. Empty means the running executable.
	Self string
	// Hide lists further directories of this machine that its hosts shall see as empty (kind netns). Dir is always
	// hidden.
	Hide []string
	// BootDelay is the time from power-on until SSH and the agent answer. Cloud-init ends a fifth of it later, at most
	// 2 s.
	BootDelay time.Duration
	// Log receives what happens to machines. Nil discards it.
	Log *slog.Logger
}

// ErrUnknownPID is what the guest agent answers about a process that it has not started, or whose end it has already
// reported once (worded as qemu-ga words it).
//
//lint:ignore ST1005 the agent's own words
var ErrUnknownPID = errors.New("Invalid parameter 'pid'")

// IsGuest tells whether a process with these arguments (os.Args) is to run Main: it is the init of a machine, or one of
// the commands sudo, cloud-init, apt-get, journalctl and hostname inside one.
func IsGuest(args []string) bool {
	if len(args) == 0 {
		return false
	}
	switch filepath.Base(args[0]) {
	case "sudo", "cloud-init", "apt-get", "journalctl", "hostname":
		return true
	}
	return len(args) > 2 && args[1] == "host"
}

// finishDelay is how long cloud-init's last stage takes after SSH is up.
func finishDelay(boot time.Duration) time.Duration {
	return min(boot/5, 2*time.Second)
}
