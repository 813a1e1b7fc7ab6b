package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hive-test/pkg/sim/sshd"
)

const (
	controlFD = 3 // socket to the manager
	lockFD    = 4 // the machine's lock, held for as long as its init lives

	// shutdownPatience is how long processes get between being asked to end and being killed.
	shutdownPatience = 5 * time.Second
)

// guest is a machine seen from inside: its init.
type guest struct {
	cfg     guestConfig
	root    string     // "/", or for kind process the machine's directory tree
	ready   sync.Mutex // held during setup
	procs   *procs
	agent   *agent
	account account
	agentUp atomic.Bool
	ctx     context.Context // the machine's life, not a call's
	cancel  context.CancelFunc
	off     chan bool // power is to go off; true: processes are asked first

	network sync.Mutex  // guards the addresses and the SSH server's place
	nics    []guestNIC  // with the addresses that they have now
	ssh     io.Closer   // nil until the machine has booted
	sshd    sshd.Config // what serves there
}

// runInit is a machine's first process. It ends when it is told to, or when its manager is gone.
func runInit() int {
	// A machine is small: it must not take the memory that a Go program would find worth taking.
	debug.SetGCPercent(50)
	syscall.Umask(0o022)
	closeInherited()
	conn, err := controlConn()
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		return 1
	}
	g := &guest{root: "/", off: make(chan bool, 4)}
	g.resetSignals()
	g.ctx, g.cancel = context.WithCancel(context.Background())
	defer g.cancel()
	go func() {
		serveControl(conn, g.handlers())
		// The manager is gone, or has cut the power.
		g.off <- false
	}()
	g.powerDown(<-g.off)
	return 0
}

// resetSignals makes sure that the machine's processes start with default signal handling, whatever the simulator was
// started with (nohup ignores SIGHUP, a shell's & SIGINT): what is caught here is default in a child, what is ignored
// would be ignored there too. SIGTERM is a request to power off.
func (g *guest) resetSignals() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGALRM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	go func() {
		for sig := range signals {
			if sig == syscall.SIGTERM {
				g.off <- true
			}
		}
	}()
}

// closeInherited closes what the simulator itself inherited and passed on unawares: a pipe of whoever started it would
// otherwise stay open for as long as the machine runs. The two files meant for an init are kept from its children. What
// the Go runtime has open is marked as not to be inherited, and so is told apart.
func closeInherited() {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if fd == controlFD || fd == lockFD {
			syscall.CloseOnExec(fd)
		} else if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

func controlConn() (net.Conn, error) {
	f := os.NewFile(controlFD, "control")
	if f == nil {
		return nil, errors.New("not started by a simulator: no control socket")
	}
	defer func() { _ = f.Close() }()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("not started by a simulator: %w", err)
	}
	return conn, nil
}

// powerDown ends all processes. Of kind netns the kernel would end the rest with this process; asking comes first.
func (g *guest) powerDown(graceful bool) {
	// A power cut in the middle of the setup finds no process yet.
	if !g.ready.TryLock() {
		return
	}
	defer g.ready.Unlock()
	if g.procs == nil {
		return
	}
	if graceful {
		g.procs.ask(shutdownPatience, g.signalAll)
	}
	g.cancel()
	g.procs.kill(g.signalAll)
}

// signalAll signals every process of the machine but this one.
func (g *guest) signalAll(sig syscall.Signal) {
	if g.cfg.Kind == KindNetns {
		_ = syscall.Kill(-1, sig)
		return
	}
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, sig)
	}
}

// path is where a file of the machine is for this process.
func (g *guest) path(p string) string { return filepath.Join(g.root, p) }

// setup makes the machine's surroundings: everything that can fail for reasons of the real machine.
func (g *guest) setup(cfg guestConfig) error {
	g.ready.Lock()
	defer g.ready.Unlock()
	g.cfg, g.nics = cfg, cfg.NICs
	switch cfg.Kind {
	case KindNetns:
		if err := enterRoot(cfg); err != nil {
			return err
		}
		if err := unix.Sethostname([]byte(cfg.CloudInit.Hostname)); err != nil {
			return fmt.Errorf("set host name: %w", err)
		}
		if err := configureNICs(cfg.NICs); err != nil {
			return err
		}
	case KindProcess:
		g.root = filepath.Join(cfg.Dir, "upper")
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become the reaper of the machine's processes: %w", err)
		}
		if err := g.makeTree(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown kind of host %q", cfg.Kind)
	}
	g.procs = newProcs(cfg.Kind == KindNetns)
	g.agent = &agent{g: g, running: map[int]*agentProcess{}}
	go g.boot()
	return nil
}

// makeTree makes what a machine of kind process has for a root: a directory with fresh /run and /tmp and the commands
// that would otherwise answer for the real machine.
func (g *guest) makeTree() error {
	for _, dir := range []string{"run", "tmp"} {
		if err := os.RemoveAll(g.path(dir)); err != nil {
			return fmt.Errorf("clear /%s: %w", dir, err)
		}
	}
	for _, dir := range []string{"etc/ssh", "home", "root", "run", "tmp", "var/lib", "var/log", shimDir} {
		if err := os.MkdirAll(g.path(dir), 0o755); err != nil {
			return fmt.Errorf("make /%s: %w", dir, err)
		}
	}
	for _, name := range []string{"sudo", "cloud-init", "apt-get", "journalctl", "hostname"} {
		if err := linkTo(g.path(filepath.Join(shimDir, name)), g.cfg.Guest); err != nil {
			return err
		}
	}
	return nil
}

// shimDir is first in the PATH of machines of kind process.
const shimDir = "usr/lib/hive-sim/bin"

func configureNICs(nics []guestNIC) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	for _, nic := range nics {
		link, err := netlink.LinkByName(nic.Name)
		if err != nil {
			return fmt.Errorf("find %s: %w", nic.Name, err)
		}
		if nic.Address.IsValid() {
			if err := netlink.AddrAdd(link, address(nic.Address)); err != nil {
				return fmt.Errorf("give %s address %s: %w", nic.Name, nic.Address, err)
			}
		}
		announce(nic.Name)
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", nic.Name, err)
		}
	}
	return nil
}

// announce makes the kernel tell the network whose address this is when the card comes up: an address that another
// machine had a moment ago is otherwise looked for at that machine's MAC for some seconds.
func announce(nic string) {
	// without these things are slower, not wrong
	_ = os.WriteFile("/proc/sys/net/ipv4/conf/"+nic+"/arp_notify", []byte("1"), 0)
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+nic+"/ndisc_notify", []byte("1"), 0)
}

// boot runs in the background, in the order of a real boot: cloud-init's first stage makes the user and the host keys,
// SSH and the agent come up, cloud-init's last stage runs what the vendor data asks for.
func (g *guest) boot() {
	if g.cfg.Unbooted || !g.sleep(g.cfg.BootDelay) {
		return
	}
	ci := newCloudInit(g)
	ci.initStage()
	if err := g.serveSSH(); err != nil {
		fmt.Fprintln(os.Stderr, "init: no SSH:", err)
	}
	g.agentUp.Store(g.cfg.Agent)
	if !g.sleep(finishDelay(g.cfg.BootDelay)) {
		return
	}
	ci.finalStage()
}

// sleep waits; false means that power went off meanwhile.
func (g *guest) sleep(d time.Duration) bool {
	if d <= 0 {
		return g.ctx.Err() == nil
	}
	select {
	case <-g.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (g *guest) serveSSH() error {
	key, err := sshd.LoadKey(g.path("etc/ssh/ssh_host_ed25519_key"), "")
	if err != nil {
		return err
	}
	var d net.Dialer
	g.network.Lock()
	defer g.network.Unlock()
	g.sshd = sshd.Config{
		HostKey: key, Authorized: g.authorized, Exec: g.execSession, SFTPExec: g.sftpSession,
		DirectTCPIP: func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) },
	}
	return g.listenSSH()
}

// listenSSH opens the SSH server's port where the machine is now. It is to be called with the network held.
func (g *guest) listenSSH() error {
	addr := "" // of either family
	if g.cfg.Kind == KindProcess {
		if len(g.nics) == 0 {
			return errors.New("the machine has no network card")
		}
		addr = g.nics[0].Address.Addr().String()
	}
	l, err := net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(g.cfg.SSHPort)))
	if err != nil {
		return err
	}
	g.ssh = l
	go func() { _ = sshd.Serve(g.ctx, l, g.sshd) }()
	return nil
}

// readdress gives the cards other addresses while the machine runs.
func (g *guest) readdress(nics []guestNIC) error {
	g.network.Lock()
	defer g.network.Unlock()
	before := g.nics
	g.nics = nics
	if g.cfg.Kind == KindNetns {
		return replaceAddresses(before, nics)
	}
	if g.ssh == nil {
		return nil
	}
	_ = g.ssh.Close()
	return g.listenSSH()
}

// replaceAddresses changes the addresses of cards that are up.
func replaceAddresses(before, now []guestNIC) error {
	for i, nic := range now {
		if nic.Address == before[i].Address {
			continue
		}
		link, err := netlink.LinkByName(nic.Name)
		if err != nil {
			return fmt.Errorf("find %s: %w", nic.Name, err)
		}
		if err := netlink.AddrDel(link, &netlink.Addr{IPNet: ipNet(before[i].Address)}); err != nil {
			return fmt.Errorf("take address %s from %s: %w", before[i].Address, nic.Name, err)
		}
		if err := netlink.AddrAdd(link, address(nic.Address)); err != nil {
			return fmt.Errorf("give %s address %s: %w", nic.Name, nic.Address, err)
		}
	}
	return nil
}

// interfaces is what the guest agent tells of the machine's cards.
func (g *guest) interfaces() ([]Interface, error) {
	if g.cfg.Kind == KindProcess {
		list := []Interface{{
			Name: "lo", MAC: "00:00:00:00:00:00", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")},
		}}
		g.network.Lock()
		defer g.network.Unlock()
		for _, nic := range g.nics {
			list = append(list, Interface{Name: nic.Name, MAC: nic.MAC, Addresses: []netip.Prefix{nic.Address}})
		}
		return list, nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var list []Interface
	for _, link := range links {
		i := Interface{Name: link.Attrs().Name, MAC: link.Attrs().HardwareAddr.String()}
		if i.MAC == "" {
			i.MAC = "00:00:00:00:00:00"
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			addr, _ := netip.AddrFromSlice(a.IP)
			ones, _ := a.Mask.Size()
			i.Addresses = append(i.Addresses, netip.PrefixFrom(addr.Unmap(), ones))
		}
		list = append(list, i)
	}
	// As the kernel numbers them, but never with a tunnel device before the cards.
	slices.SortStableFunc(list, func(a, b Interface) int { return interfaceRank(a.Name) - interfaceRank(b.Name) })
	return list, nil
}

func interfaceRank(name string) int {
	switch {
	case name == "lo":
		return 0
	case len(name) > 3 && name[:3] == "eth":
		return 1
	}
	return 2
}

// handlers are what a manager calls, over the control socket. The agent's calls work once it is up.
func (g *guest) handlers() map[string]handler {
	var once sync.Once
	return map[string]handler{
		"Setup": handle(func(cfg guestConfig) (nothing, error) {
			err := errors.New("the machine is already set up")
			once.Do(func() { err = g.setup(cfg) })
			return nothing{}, err
		}),
		// The end of the connection tells that it is done.
		"PowerOff":   handle(func(graceful bool) (nothing, error) { g.off <- graceful; return nothing{}, nil }),
		"Readdress":  handle(func(nics []guestNIC) (nothing, error) { return nothing{}, g.readdress(nics) }),
		"Interfaces": whenUp(g, func(nothing) ([]Interface, error) { return g.interfaces() }),
		"Exec":       whenUp(g, func(r execRequest) (int, error) { return g.agent.exec(r) }),
		"ExecStatus": whenUp(g, func(pid int) (ExecResult, error) { return g.agent.status(pid) }),
		"ReadFile":   whenUp(g, func(path string) ([]byte, error) { return g.agent.readFile(path) }),
	}
}

func whenUp[In, Out any](g *guest, f func(In) (Out, error)) handler {
	return handle(func(in In) (out Out, err error) {
		if !g.agentUp.Load() {
			return out, ErrAgentNotRunning
		}
		return f(in)
	})
}
