package pve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hive-test/pkg/sim/host"
)

// Defaults of Options.
const (
	DefaultAuthDelay    = 3 * time.Second // observed: every refused login takes 3.0 s
	DefaultAgentTimeout = 3 * time.Second // observed: a guest agent that is not there costs 3.0 s
	DefaultOfflineDelay = 3 * time.Second // observed: "No route to host" comes after 3 s
	DefaultLockTimeout  = 10 * time.Second
	DefaultHADelay      = 10 * time.Second // read in the source: the HA manager's rounds
)

// NodeSpec is a hypervisor to make.
type NodeSpec struct {
	Name      string
	Cores     int
	MemoryGB  int
	StorageGB int // of each storage
}

// DefaultNodes are n hypervisors pve1, pve2, … with 64 cores, 256 GB of memory and 2048 GB on each storage.
func DefaultNodes(n int) []NodeSpec {
	out := make([]NodeSpec, 0, n)
	for i := range n {
		out = append(out, NodeSpec{Name: "pve" + strconv.Itoa(i+1), Cores: 64, MemoryGB: 256, StorageGB: 2048})
	}
	return out
}

// Options say what to simulate. Dir and Machines are required.
type Options struct {
	Dir      string     // state, keys and certificates; made with mode 0700
	Version  string     // Version84 (default) or Version92
	Nodes    []NodeSpec // default DefaultNodes(3); ignored where Dir holds a state already
	Machines host.Machines
	Log      *slog.Logger // default: none

	// TaskDuration is how long each task takes at least. 0: as long as the work takes.
	TaskDuration time.Duration
	// AuthDelay holds back every 401; AgentTimeout is how long a call waits for a guest agent; OfflineDelay is the time
	// until an unreachable hypervisor is given up; LockTimeout is the wait for a VM that is being worked on; HADelay is
	// when the HA manager does what is asked of it. For each 0 means the real server's value and a negative value none.
	AuthDelay, AgentTimeout, OfflineDelay, LockTimeout, HADelay time.Duration
	// ResourcesLag makes GET /cluster/resources show names and states that are up to this old, as the real one does for
	// up to 10 s. 0: always fresh.
	ResourcesLag time.Duration
}

// Hypervisor is the SSH side of a hypervisor.
type Hypervisor struct {
	Name         string `json:"name"`
	Address      string `json:"address"`
	Port         int    `json:"port"`
	DatastoreID  string `json:"datastore_id"`
	SnippetStore string `json:"snippet_store"`
}

// Endpoint is how to reach a started server.
type Endpoint struct {
	URL           string // https://127.0.0.1:PORT
	Token         string // root@pam!sim=SECRET: Administrator on /
	CAFile        string
	Hypervisors   []Hypervisor
	SSHUser       string
	SSHPrivateKey string // file; logs in on every hypervisor
}

// Server is a simulated cluster. Its methods are safe for concurrent use.
type Server struct {
	opt     Options
	log     *slog.Logger
	table   map[string]map[string]*method
	routes  []route
	roles   map[string][]string
	version string

	mu      sync.Mutex // guards state, stats and running
	state   *cluster
	stats   map[int]vmStat
	statsAt time.Time
	active  map[string]*task // running tasks by UPID
	vmLocks map[int]chan struct{}
	haStops map[int]func() // how the HA manager was asked to stop a VM

	faults  faultList
	journal journal
	last    lastUse
	skew    atomic.Int64 // of the clock, in nanoseconds
	serving atomic.Int64 // requests to the API that are under way, also those that nobody waits for any more

	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	dirty   chan struct{}
	saved   chan struct{} // closed when the saver has ended
	files   *keyFiles
	started time.Time
}

// New makes a server from the state in o.Dir, or a new cluster if there is none. Start makes it answer.
func New(o Options) (*Server, error) {
	if o.Dir == "" || o.Machines == nil {
		return nil, errors.New("simulated Proxmox VE: Dir and Machines must be set")
	}
	o.setDefaults()
	table, err := apiTable(o.Version)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the simulator's directory: %w", err)
	}
	s := &Server{
		opt: o, log: o.Log, table: table, routes: routes(), roles: builtinRoles(o.Version), version: o.Version,
		active: map[string]*task{}, vmLocks: map[int]chan struct{}{}, haStops: map[int]func(){},
		stats: map[int]vmStat{},
		dirty: make(chan struct{}, 1), saved: make(chan struct{}), started: time.Now(),
	}
	s.last.touch()
	if err := s.load(); err != nil {
		return nil, err
	}
	if s.files, err = loadKeys(o.Dir, s.state.Nodes); err != nil {
		return nil, err
	}
	return s, nil
}

func (o *Options) setDefaults() {
	if o.Version == "" {
		o.Version = Version84
	}
	if len(o.Nodes) == 0 {
		o.Nodes = DefaultNodes(3)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value *time.Duration
		real  time.Duration
	}{
		{&o.AuthDelay, DefaultAuthDelay},
		{&o.AgentTimeout, DefaultAgentTimeout},
		{&o.OfflineDelay, DefaultOfflineDelay},
		{&o.LockTimeout, DefaultLockTimeout},
		{&o.HADelay, DefaultHADelay},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.real
		case *d.value < 0:
			*d.value = 0
		}
	}
}

// Start opens the API and every hypervisor's SSH server on 127.0.0.1, on the ports that were used before if they are
// free, and powers on the VMs that were running when the server was closed. It ends when ctx is done or Close is
// called.
func (s *Server) Start(ctx context.Context) (Endpoint, error) {
	s.ctx, s.cancel = context.WithCancel(ctx)
	go s.saver()
	ports := s.files.ports
	api, err := listen(ports.API)
	if err != nil {
		s.cancel()
		return Endpoint{}, fmt.Errorf("open the simulated Proxmox VE's port: %w", err)
	}
	ports.API = api.Addr().(*net.TCPAddr).Port
	e := Endpoint{
		URL:    "https://127.0.0.1:" + strconv.Itoa(ports.API),
		CAFile: s.files.caFile, SSHUser: "root", SSHPrivateKey: s.files.clientKeyFile,
		Token: "root@pam!" + adminToken + "=" + s.adminSecret(),
	}
	l := tls.NewListener(api, &tls.Config{Certificates: []tls.Certificate{s.files.cert}, MinVersion: tls.VersionTLS12})
	s.wg.Go(func() { s.serveTLS(s.ctx, l) })
	for _, n := range s.state.Nodes {
		port, err := s.startSSH(n.Name, ports.SSH[n.Name])
		if err != nil {
			_ = s.Close()
			return Endpoint{}, err
		}
		ports.SSH[n.Name] = port
		e.Hypervisors = append(e.Hypervisors, Hypervisor{
			Name: n.Name, Address: "127.0.0.1", Port: port, DatastoreID: "local", SnippetStore: "local",
		})
	}
	if err := s.files.savePorts(); err != nil {
		_ = s.Close()
		return Endpoint{}, err
	}
	s.resume()
	s.changed()
	return e, nil
}

// listen prefers the port that was used before: clusters remember the endpoint.
func listen(port int) (net.Listener, error) {
	if port != 0 {
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// Close stops answering, ends running tasks and writes the state. The machines are left to their owner: closing them
// after Close lets the next Start power on those that were running.
func (s *Server) Close() error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	s.wg.Wait()
	<-s.saved
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.state.VMs {
		v.PowerOn = s.running(v)
	}
	return s.save()
}

// Idle is how long no request has come in. It is 0 while a VM exists.
func (s *Server) Idle() time.Duration {
	s.mu.Lock()
	vms := len(s.state.VMs)
	s.mu.Unlock()
	if vms > 0 {
		s.last.touch()
		return 0
	}
	return s.last.since()
}

func (s *Server) touch() { s.last.touch() }

type lastUse struct {
	mu sync.Mutex
	at time.Time
}

func (l *lastUse) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = time.Now()
}

func (l *lastUse) since() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.at)
}

func (s *Server) stateFile() string { return filepath.Join(s.opt.Dir, "state.json") }
