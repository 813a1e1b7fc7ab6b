package host

import (
	"net/netip"
	"time"
)

// What the manager and a machine's init say to each other, as lines of JSON over a socket pair that only they hold. Its
// end of file is the machine's power cut: when the simulator dies, by whatever signal, every machine ends.

// guestConfig is all that an init is told. It holds no secrets.
type guestConfig struct {
	Kind      Kind
	ID        string
	Dir       string // the machine's directory; the disk is Dir/upper
	Hide      []string
	Guest     string // the executable for sudo, cloud-init and SFTP: outside path
	NICs      []guestNIC
	SSHPort   int
	CloudInit CloudInit
	Agent     bool
	BootDelay time.Duration
	Unbooted  bool
	Install   []byte
}

type guestNIC struct {
	Name    string // eth0, eth1
	MAC     string // lower case
	Address netip.Prefix
}

type execRequest struct {
	Argv  []string
	Stdin []byte
}

type nothing struct{}
