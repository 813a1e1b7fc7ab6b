package remote

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// Defaults of a Config.
const (
	DefaultConnectTimeout = 10 * time.Second
	DefaultKeepAlive      = 10 * time.Second
	DefaultTerminal       = "xterm-256color"
)

// Config says how the nodes of one cluster are reached.
type Config struct {
	User       string
	KeyPath    string // private key; empty: what AgentSocket holds
	KnownHosts string // the cluster's own known_hosts file; made with mode 0600 where missing
	// AgentSocket is the SSH agent that holds KeyPath where that is protected by a passphrase, or is empty; empty:
	// none.
	AgentSocket string
	// ProxyJump are the hosts that nodes are reached through, with KeyPath, their identity files and the agent; empty:
	// directly.
	ProxyJump cluster.JumpHosts
	// ConnectTimeout bounds TCP connect, handshake and authentication together, and opening a session.
	ConnectTimeout time.Duration
	// KeepAlive is how often an idle or busy connection is asked for a sign of life. One that gives none for three
	// times as long is closed, and what runs on it fails with ErrConnectionLost.
	KeepAlive time.Duration
	// Grace is how long a command has to end after TERM, before KILL; default 2 s.
	Grace time.Duration
	// Silence is how long a node may say nothing while files are copied; default 1 min.
	Silence time.Duration
	// Terminal is the TERM of interactive sessions.
	Terminal string
	// Log gets debug records about connections and of each command: node, ms, name, exit; nil: none.
	Log *slog.Logger
}

// ErrClosed means that the Dialer was closed.
var ErrClosed = errors.New("the SSH connections of this run are closed")

// ErrAuth means that the node took the connection and refused user or key. On a host that still boots this is
// transient: its user may not exist yet. On one that is up it means the wrong user or key.
var ErrAuth = progress.WithCode(errors.New("the node refused the SSH login"), "login-refused")

// Dialer makes and keeps the connections to nodes. All its methods, and those of its hosts, are safe for concurrent
// use.
type Dialer struct {
	cfg      Config
	signers  []ssh.Signer
	hostKeys *hostKeys
	jumps    []*Host
	sums     sums
	ctx      context.Context
	cancel   context.CancelFunc

	mu     sync.Mutex
	closed bool
	hosts  map[cluster.Node]*Host
	work   sync.WaitGroup
}

// NewDialer reads the key and dials nothing yet. An unreadable or unusable key is an error that says what to do.
func NewDialer(cfg Config) (*Dialer, error) {
	switch {
	case cfg.User == "":
		return nil, errors.New("no SSH user is set")
	case cfg.KnownHosts == "":
		return nil, errors.New("no known_hosts file is set")
	}
	signers, err := loadSigners(cfg.KeyPath, cfg.AgentSocket)
	if err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, DefaultConnectTimeout)
	cfg.KeepAlive = cmp.Or(cfg.KeepAlive, DefaultKeepAlive)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	cfg.Silence = cmp.Or(cfg.Silence, time.Minute)
	cfg.Terminal = cmp.Or(cfg.Terminal, DefaultTerminal)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Dialer{
		cfg: cfg, signers: signers,
		hostKeys: &hostKeys{path: cfg.KnownHosts},
		hosts:    map[cluster.Node]*Host{},
	}
	d.jumps = d.jumpHosts()
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d, nil
}

// Host returns the host that node is. The same node gives the same Host, and with it the same connection.
func (d *Dialer) Host(node cluster.Node) *Host {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[node]
	if h == nil {
		h = &Host{dialer: d, node: node, slots: make(chan struct{}, maxSessions), via: d.last()}
		d.hosts[node] = h
	}
	return h
}

// Group returns the hosts of nodes in their order.
func (d *Dialer) Group(nodes cluster.Nodes) Group {
	g := make(Group, len(nodes))
	for i, n := range nodes {
		g[i] = d.Host(n)
	}
	return g
}

// Close ends all connections and waits until that is done. It may be called twice. Callers have waited for their
// commands: what those have left on the nodes runs on.
func (d *Dialer) Close() error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	hosts := slices.Collect(maps.Values(d.hosts))
	d.mu.Unlock()
	if first {
		var leaving sync.WaitGroup
		for _, h := range hosts {
			leaving.Go(h.dismiss)
		}
		leaving.Wait()
	}
	d.cancel()
	if first {
		for _, h := range slices.Concat(hosts, d.jumps) {
			h.Drop(ErrClosed)
		}
	}
	d.work.Wait()
	return nil
}

// spawn runs f unless the dialer is closed; Close waits for it.
func (d *Dialer) spawn(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.work.Go(f)
	return nil
}

// clientConfig prefers the cheapest of the sound algorithms: twenty handshakes at once are felt on a small machine, and
// by nodes that are busy. OpenSSH leaves P-256 to OpenSSL's assembler, while its own X25519 is the portable one: a
// tenth of all that a connection costs an OpenSSH server.
func (d *Dialer) clientConfig(node, addr string, verdict *error) (*ssh.ClientConfig, error) {
	known, err := d.hostKeys.load()
	if err != nil {
		return nil, err
	}
	supported := ssh.SupportedAlgorithms()
	cfg := &ssh.ClientConfig{
		HostKeyAlgorithms: algorithms(known, addr),
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			*verdict = d.hostKeys.check(known, node, addr, remote, key)
			return *verdict
		},
		ClientVersion: "SSH-2.0-hive-test",
	}
	cfg.KeyExchanges = first(ssh.KeyExchangeECDHP256, supported.KeyExchanges)
	cfg.Ciphers = first(ssh.CipherAES128GCM, supported.Ciphers)
	return cfg, nil
}

func first(preferred string, all []string) []string {
	others := slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == preferred })
	return slices.Concat([]string{preferred}, others)
}

// permanent says whether trying again cannot help.
func permanent(err error) bool {
	_, changed := errors.AsType[*HostKeyError](err)
	return changed || errors.Is(err, ErrKnownHosts) || errors.Is(err, ErrClosed) || errors.Is(err, errRevoked)
}

var errRevoked = errors.New("its host key is marked as revoked")
