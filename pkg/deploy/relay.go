package deploy

import (
	"context"

	"hive-test/pkg/cluster"
)

// Relay is a way to Proxmox VE for another program, on this machine, as long as it is not closed.
type Relay struct {
	URL            string // http://127.0.0.1:port
	User, Password string // that log in there, and nowhere else
	Close          func() // waits until nothing is passed on any more
}

// RelayOptions are what a machine that is made through a relay is made of.
type RelayOptions struct {
	Source    VMRef  // is cloned, whatever VM the program names: names are nobody's own
	PublicKey string // may log in besides the program's, in the form of authorized_keys
}

// Relayer lets another program make a machine of the cluster.
type Relayer interface {
	// Relay passes on what a program asks of Proxmox VE, with the rights of this run's token: it may read, clone a VM to the node's
	// id, and change what it has made there. Whatever the program says of it, the VM says whose it is from its beginning, and has the
	// node's network. Nothing else is passed on. It listens on the loopback interface, without TLS, until it is closed.
	Relay(ctx context.Context, r *cluster.Record, node cluster.Node, o RelayOptions) (Relay, error)
}
