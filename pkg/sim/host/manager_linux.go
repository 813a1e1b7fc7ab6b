package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// setupTimeout bounds how long a machine's init may take until its surroundings stand.
const setupTimeout = 30 * time.Second

// Manager makes machines of one kind and keeps them in one directory. It implements [Machines].
type Manager struct {
	opt     Options
	exe     string // what becomes a machine's init
	guest   string // executable behind sudo, cloud-init and SFTP
	sshPort int
	nets    map[string]netip.Prefix
	leases  *leases
	fabric  *fabric // nil for kind process
	claim   net.PacketConn
	lock    *flock.Flock

	mu       sync.Mutex
	machines map[string]*machine
	closed   bool
}

var _ Machines = (*Manager)(nil)

// machine is a power-on of one VM, or none. Its mutex is held while the power changes.
type machine struct {
	mu  sync.Mutex
	run *run // guarded by Manager.mu; nil when stopped
}

// card is where a machine's network card is plugged in. The address of one with DHCP is the lease's.
type card struct {
	guestNIC
	bridge string
	dhcp   bool
}

// run is a machine while it is on.
type run struct {
	cmd     *exec.Cmd
	control *control
	since   time.Time
	cards   []card
	dead    chan struct{} // closed when the init has ended and has been waited for
}

var validID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,31}$`)

// checkID refuses ids that are no name for a directory, or the name of one that is used otherwise.
func checkID(id string) error {
	if !validID.MatchString(id) || id == "bin" || id == "lock" {
		return fmt.Errorf("machine id %q is not valid", id)
	}
	return nil
}

// NewManager prepares the networks for machines of opt.Kind and returns an error if they cannot be had here. What an
// earlier simulator with the same directory left behind is removed; the disks and addresses of its machines are kept,
// and all machines are stopped. ctx bounds the preparation only. Close must be called.
func NewManager(ctx context.Context, opt Options) (*Manager, error) {
	m := &Manager{opt: opt, machines: map[string]*machine{}}
	if err := m.prepare(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Manager) prepare(ctx context.Context) error {
	if err := m.prepareOptions(); err != nil {
		return err
	}
	if err := os.MkdirAll(m.opt.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of simulated hosts: %w", err)
	}
	lock := flock.New(filepath.Join(m.opt.Dir, "lock"))
	if ok, err := lock.TryLock(); err != nil {
		return fmt.Errorf("lock %s: %w", m.opt.Dir, err)
	} else if !ok {
		return fmt.Errorf("another simulator runs with %s: stop it, or use another directory", m.opt.Dir)
	}
	m.lock = lock
	var err error
	if m.leases, err = openLeases(m.opt.Dir); err != nil {
		return err
	}
	if m.opt.Kind == KindNetns {
		err = m.prepareNetns(ctx)
	} else {
		err = m.prepareProcess(ctx)
	}
	if err != nil {
		return err
	}
	return nil
}

func (m *Manager) prepareOptions() (err error) {
	if m.opt.Kind != KindNetns && m.opt.Kind != KindProcess {
		return fmt.Errorf("unknown kind of host %q: use %s or %s", m.opt.Kind, KindNetns, KindProcess)
	}
	if m.opt.Log == nil {
		m.opt.Log = slog.New(slog.DiscardHandler)
	}
	if m.opt.Self == "" {
		if m.opt.Self, err = os.Executable(); err != nil {
			return fmt.Errorf("find this executable: %w", err)
		}
	}
	m.exe = initExecutable(m.opt.Self)
	if m.opt.Dir == "" {
		return errors.New("no directory for simulated hosts is set")
	}
	if m.opt.Dir, err = filepath.Abs(m.opt.Dir); err != nil {
		return fmt.Errorf("directory of simulated hosts: %w", err)
	}
	return nil
}

// initExecutable is self, by the name under which a program that is replaced while it runs still finds itself: its
// machines must speak its own protocol.
func initExecutable(self string) string {
	const own = "/proc/self/exe"
	a, err1 := os.Stat(self)
	b, err2 := os.Stat(own)
	if err1 == nil && err2 == nil && !os.SameFile(a, b) {
		return self
	}
	return own
}

func (m *Manager) prepareNetns(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("hosts of kind netns need root: run as root, or use kind process")
	}
	m.sshPort = 22
	var err error
	if m.guest, err = m.installGuest(); err != nil {
		return err
	}
	outside, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	tag, seed := dirTag(m.opt.Dir)
	if err := removeLeftovers(outside, tag); err != nil {
		outside.Close()
		return err
	}
	k, claim, err := claimSubnet(ctx, m.leases.subnet(), seed, func(k int) bool { return subnetFree(outside, k) })
	if err != nil {
		outside.Close()
		return err
	}
	m.claim = claim
	if m.fabric, err = newFabric(outside, tag, k); err != nil {
		return err
	}
	m.nets = m.fabric.nets
	return m.leases.setSubnet(k, m.nets, m.fabric.six)
}

func (m *Manager) prepareProcess(ctx context.Context) error {
	m.guest = m.opt.Self
	_, seed := dirTag(m.opt.Dir)
	k, claim, err := claimSubnet(ctx, m.leases.subnet(), seed, func(int) bool { return true })
	if err != nil {
		return err
	}
	m.claim = claim
	m.nets = subnets(KindProcess, k)
	m.sshPort = 2222
	var lc net.ListenConfig
	probe := netip.AddrPortFrom(m.nets[managementBridge].Addr().Next(), 22)
	if l, err := lc.Listen(ctx, "tcp4", probe.String()); err == nil {
		_ = l.Close()
		m.sshPort = 22
	}
	return m.leases.setSubnet(k, m.nets, nil)
}

// installGuest keeps a set-uid copy of the executable where only root can reach it; machines get it as their sudo.
func (m *Manager) installGuest() (string, error) {
	dir := filepath.Join(m.opt.Dir, "bin")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory for machines' commands: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("close %s to others: %w", dir, err)
	}
	path := filepath.Join(dir, "guest")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("replace %s: %w", path, err)
	}
	if err := copyFile(m.exe, path, 0o700); err != nil {
		return "", fmt.Errorf("copy %s: %w", m.opt.Self, err)
	}
	if err := unix.Chmod(path, 0o4755); err != nil {
		return "", fmt.Errorf("make %s set-uid: %w", path, err)
	}
	return path, nil
}

// Kind says which kind of host this makes.
func (m *Manager) Kind() Kind { return m.opt.Kind }

// SSHPort is the port of every machine's SSH server: 22, or 2222 for kind process where 22 is not allowed.
func (m *Manager) SSHPort() int { return m.sshPort }

// Networks are the networks behind the bridges vmbr0 (management) and vmbr1 (data). The first address of each is the
// simulator's own.
func (m *Manager) Networks() map[string]netip.Prefix {
	nets := map[string]netip.Prefix{}
	for k, v := range m.nets {
		nets[k] = v
	}
	return nets
}

// errClosed means that the simulator is shutting down, or has.
var errClosed = errors.New("the simulator is shutting down")

// get returns the machine of that id, making its entry. After Close there are none: what Close has seen is all there
// is.
func (m *Manager) get(id string) (*machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	mc := m.machines[id]
	if mc == nil {
		mc = &machine{}
		m.machines[id] = mc
	}
	return mc, nil
}

// running returns the machine's run, nil if it is off.
func (m *Manager) running(id string) *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	mc := m.machines[id]
	if mc == nil || mc.run == nil {
		return nil
	}
	select {
	case <-mc.run.dead:
		return nil
	default:
		return mc.run
	}
}

func (m *Manager) setRun(mc *machine, r *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mc.run = r
}

// State tells whether the machine's processes are alive.
func (m *Manager) State(id string) PowerState {
	if m.running(id) != nil {
		return Running
	}
	return Stopped
}

// Booted is when the machine was started; zero if it is stopped.
func (m *Manager) Booted(id string) time.Time {
	if r := m.running(id); r != nil {
		return r.since
	}
	return time.Time{}
}

func (m *Manager) dir(id string) string { return filepath.Join(m.opt.Dir, id) }

// Start powers a machine on. When it returns, its namespaces, mounts and addresses exist and its boot is going on.
func (m *Manager) Start(ctx context.Context, spec Spec) error {
	if err := checkID(spec.ID); err != nil {
		return err
	}
	mc, err := m.get(spec.ID)
	if err != nil {
		return fmt.Errorf("start machine %s: %w", spec.ID, err)
	}
	mc.mu.Lock()
	defer mc.mu.Unlock()
	if m.running(spec.ID) != nil {
		return fmt.Errorf("machine %s is already running", spec.ID)
	}
	cfg, cards, err := m.guestConfig(spec)
	if err != nil {
		return fmt.Errorf("start machine %s: %w", spec.ID, err)
	}
	r, err := m.powerOn(ctx, cfg, cards)
	if err != nil {
		return fmt.Errorf("start machine %s: %w", spec.ID, err)
	}
	m.setRun(mc, r)
	m.opt.Log.Info("machine started", "id", spec.ID, "kind", string(m.opt.Kind), "pid", r.cmd.Process.Pid)
	return nil
}

// guestConfig checks a specification and gives every card its address.
func (m *Manager) guestConfig(spec Spec) (guestConfig, []card, error) {
	cfg := guestConfig{
		Kind: m.opt.Kind, ID: spec.ID, Dir: m.dir(spec.ID), Hide: m.opt.Hide, Guest: m.guest, SSHPort: m.sshPort,
		CloudInit: spec.CloudInit, Agent: spec.Agent, BootDelay: m.opt.BootDelay,
		Unbooted: spec.Unbooted, Install: spec.Install,
	}
	if spec.Resumed {
		cfg.BootDelay = 0
	}
	if cfg.CloudInit.Hostname == "" {
		cfg.CloudInit.Hostname = "localhost"
	}
	if u := spec.CloudInit.User; u != "" && !validUser.MatchString(u) {
		return cfg, nil, fmt.Errorf("user name %q is not valid", u)
	}
	var cards []card
	for n, nic := range spec.NICs {
		addr, err := m.addressOf(spec.ID, nic)
		if err != nil {
			return cfg, nil, err
		}
		plugged := guestNIC{Name: fmt.Sprintf("eth%d", n), MAC: strings.ToLower(nic.MAC), Address: addr}
		cfg.NICs = append(cfg.NICs, plugged)
		cards = append(cards, card{plugged, nic.Bridge, !nic.Address.IsValid()})
	}
	return cfg, cards, nil
}

// addressOf is the address of a machine's card: the one that it is to have, or DHCP's.
func (m *Manager) addressOf(id string, nic NIC) (netip.Prefix, error) {
	p, ok := m.nets[nic.Bridge]
	if !ok {
		return p, fmt.Errorf("bridge '%s' does not exist", nic.Bridge)
	}
	addr := nic.Address
	if !addr.IsValid() {
		var err error
		if addr, err = m.leases.get(id, strings.ToUpper(nic.MAC), nic.Bridge); err != nil {
			return addr, err
		}
	}
	if addr.Addr().Is6() && m.fabric != nil {
		p = m.fabric.six[nic.Bridge]
		if err := m.fabric.reachIPv6(nic.Bridge); err != nil {
			return addr, err
		}
	}
	if !p.Contains(addr.Addr()) {
		return addr, fmt.Errorf("address %s is not in %s, the simulator's network on %s", addr, p, nic.Bridge)
	}
	return addr, nil
}

var validUser = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// powerOn starts a machine's init, plugs its cards in and lets it set itself up.
func (m *Manager) powerOn(ctx context.Context, cfg guestConfig, cards []card) (*run, error) {
	if err := makeDisk(filepath.Join(cfg.Dir, "upper")); err != nil {
		return nil, fmt.Errorf("make the machine's disk: %w", err)
	}
	var dirs []string
	if m.opt.Kind == KindNetns {
		dirs = []string{"work", "root"}
	}
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("make the machine's directory: %w", err)
		}
	}
	lock, err := lockMachine(ctx, cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()
	r, err := m.spawn(cfg, cards, lock)
	if err != nil {
		return nil, err
	}
	if err := m.setUp(ctx, r, cfg); err != nil {
		m.kill(cfg.ID, r)
		return nil, err
	}
	return r, nil
}

// makeDisk makes a disk that is not there yet, as a cloud image leaves it: its machine-id is empty, so that the first boot
// makes one.
func makeDisk(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "etc", "machine-id"), nil, 0o644)
}

// lockMachine waits until an earlier init of the machine, perhaps of a simulator that was killed a moment ago, is gone.
// The lock goes with the file to the init, which holds it for as long as it lives.
func lockMachine(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "init.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the machine's lock: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock the machine: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("processes of the machine's last start are still alive: %w", ctx.Err())
		case <-time.After(wait):
		}
	}
}

func (m *Manager) spawn(cfg guestConfig, cards []card, lock *os.File) (*run, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer func() { _ = theirs.Close() }()
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	console, err := os.OpenFile(filepath.Join(cfg.Dir, "console.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("open the machine's console: %w", err)
	}
	defer func() { _ = console.Close() }()
	cmd := exec.Command(m.exe)
	cmd.Args = []string{"hive-sim", "host", "init", cfg.ID}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + loginPath, "GOMAXPROCS=2"}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.ExtraFiles = []*os.File{theirs, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if m.opt.Kind == KindNetns {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC
	}
	if err := cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("start the machine's init: %w", err)
	}
	r := &run{
		cmd: cmd, control: newControl(conn), since: time.Now(), cards: cards, dead: make(chan struct{}),
	}
	go func() {
		_ = cmd.Wait()
		m.unplug(cfg.ID, r)
		_ = conn.Close()
		close(r.dead)
	}()
	return r, nil
}

// unplug removes a machine's cards.
func (m *Manager) unplug(id string, r *run) {
	if m.fabric == nil {
		return
	}
	for n := range r.cards {
		m.fabric.detach(id, n)
	}
}

func (m *Manager) setUp(ctx context.Context, r *run, cfg guestConfig) error {
	if m.fabric != nil {
		for n, c := range r.cards {
			if err := m.fabric.attach(r.cmd.Process.Pid, cfg.ID, n, c.bridge, c.guestNIC); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	err := r.control.call(ctx, "Setup", cfg, nil)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// An init that fell over has said why on its console.
	if b, rerr := os.ReadFile(filepath.Join(cfg.Dir, "console.log")); rerr == nil && len(b) > 0 {
		return fmt.Errorf("%w; console: %s", err, strings.TrimSpace(string(b[:min(len(b), 2000)])))
	}
	return err
}

// kill ends a machine's processes at once and waits for that.
func (m *Manager) kill(id string, r *run) {
	if m.opt.Kind == KindProcess {
		// The init kills its descendants, which only it can know; it gets time for that, then they are looked for here.
		_ = r.control.conn.Close()
		select {
		case <-r.dead:
			return
		case <-time.After(5 * time.Second):
		}
		for _, pid := range descendants(r.cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = r.cmd.Process.Kill()
	<-r.dead
	m.opt.Log.Info("machine stopped", "id", id)
}

// Shutdown asks the guest to power off: its processes get SIGTERM and 5 s before they are killed. If ctx ends first,
// the shutdown goes on by itself. Shutting down a stopped machine does nothing.
func (m *Manager) Shutdown(ctx context.Context, id string) error {
	r := m.running(id)
	if r == nil {
		return nil
	}
	if err := r.control.call(ctx, "PowerOff", true, nil); err != nil && !errors.Is(err, ErrAgentNotRunning) {
		return fmt.Errorf("shut machine %s down: %w", id, err)
	}
	select {
	case <-r.dead:
		m.opt.Log.Info("machine shut down", "id", id)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut machine %s down: %w", id, ctx.Err())
	}
}

// Stop ends all processes of the machine at once. Stopping a stopped machine does nothing.
func (m *Manager) Stop(_ context.Context, id string) error {
	mc, err := m.get(id)
	if err != nil {
		return nil // closed: all are stopped
	}
	mc.mu.Lock()
	defer mc.mu.Unlock()
	m.stop(id, mc)
	return nil
}

// stop is to be called with mc.mu held.
func (m *Manager) stop(id string, mc *machine) {
	if r := m.running(id); r != nil {
		m.kill(id, r)
	}
	m.setRun(mc, nil)
}

// Remove stops the machine if need be and deletes its disk, its logs and its addresses. Removing an unknown machine
// does nothing.
func (m *Manager) Remove(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	mc, err := m.get(id)
	if err != nil {
		return fmt.Errorf("remove machine %s: %w", id, err)
	}
	mc.mu.Lock()
	defer mc.mu.Unlock()
	m.stop(id, mc)
	if _, err := os.Lstat(m.dir(id)); err == nil {
		lock, err := lockMachine(ctx, m.dir(id))
		if err != nil {
			return fmt.Errorf("remove machine %s: %w", id, err)
		}
		defer func() { _ = lock.Close() }()
	}
	if err := os.RemoveAll(m.dir(id)); err != nil {
		return fmt.Errorf("remove machine %s: %w", id, err)
	}
	if err := m.leases.release(id); err != nil {
		return fmt.Errorf("remove machine %s: %w", id, err)
	}
	m.opt.Log.Info("machine removed", "id", id)
	return nil
}

// SetIPv6 makes DHCP give addresses of IPv6, and no others, to machines that start, and to those that Renumber moves;
// false: of IPv4 again. It is kept. Hosts of kind process have IPv4 only.
func (m *Manager) SetIPv6(on bool) error {
	if err := m.leases.setIPv6(on); err != nil {
		return fmt.Errorf("addresses of IPv6: %w", err)
	}
	return nil
}

// Renumber gives every card that has its address by DHCP another one, as a DHCP server does that has forgotten its
// leases. A machine that runs has it at once: what was connected to the old one is cut off (kind netns), and nothing
// answers there any more. One that does not run, or never did, has it when it starts.
func (m *Manager) Renumber(ctx context.Context, id string) error {
	mc, err := m.get(id)
	if err != nil {
		return fmt.Errorf("renumber machine %s: %w", id, err)
	}
	mc.mu.Lock()
	defer mc.mu.Unlock()
	if err := m.leases.renew(id); err != nil {
		return fmt.Errorf("renumber machine %s: %w", id, err)
	}
	r := m.running(id)
	if r == nil {
		return nil
	}
	if err := m.readdress(ctx, id, r); err != nil {
		return fmt.Errorf("renumber machine %s: %w", id, err)
	}
	return nil
}

// readdress makes a running machine use the addresses of its leases.
func (m *Manager) readdress(ctx context.Context, id string, r *run) error {
	nics := make([]guestNIC, len(r.cards))
	for n, c := range r.cards {
		nics[n] = c.guestNIC
		if !c.dhcp {
			continue
		}
		var err error
		if nics[n].Address, err = m.addressOf(id, NIC{MAC: c.MAC, Bridge: c.bridge}); err != nil {
			return err
		}
	}
	if err := r.control.call(ctx, "Readdress", nics, nil); err != nil {
		return err
	}
	for n, nic := range nics {
		before := r.cards[n]
		r.cards[n].guestNIC = nic
		if mac, err := net.ParseMAC(nic.MAC); err == nil && m.fabric != nil && nic.Address != before.Address {
			m.fabric.forget(before.bridge, before.Address.Addr())
			m.fabric.introduce(before.bridge, nic.Address.Addr(), mac)
		}
	}
	return nil
}

// Clone copies a stopped machine's disk to an id that has none. A machine that was never started has an empty disk.
func (m *Manager) Clone(_ context.Context, from, to string) error {
	if err := errors.Join(checkID(from), checkID(to)); err != nil {
		return fmt.Errorf("clone machine: %w", err)
	}
	if from == to {
		return fmt.Errorf("clone machine %s: to itself", from)
	}
	src, err := m.get(from)
	if err != nil {
		return fmt.Errorf("clone machine %s: %w", from, err)
	}
	dst, err := m.get(to)
	if err != nil {
		return fmt.Errorf("clone machine %s: %w", from, err)
	}
	first, second := src, dst
	if from > to {
		first, second = dst, src
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	second.mu.Lock()
	defer second.mu.Unlock()
	if m.running(from) != nil {
		return fmt.Errorf("clone machine %s: it is running", from)
	}
	if err := m.copyDisk(from, to); err != nil {
		return fmt.Errorf("clone machine %s: %w", from, err)
	}
	return nil
}

// Interfaces asks the guest agent for the machine's network interfaces.
func (m *Manager) Interfaces(ctx context.Context, id string) (list []Interface, err error) {
	err = m.ask(ctx, id, "Interfaces", nothing{}, &list)
	return list, err
}

// Exec has the guest agent run a command, as root of the machine (kind process: as the simulator's user).
func (m *Manager) Exec(ctx context.Context, id string, argv []string, stdin []byte) (pid int, err error) {
	err = m.ask(ctx, id, "Exec", execRequest{Argv: argv, Stdin: stdin}, &pid)
	return pid, err
}

// ExecStatus asks the guest agent about a command. Its end is reported once; then it is ErrUnknownPID.
func (m *Manager) ExecStatus(ctx context.Context, id string, pid int) (r ExecResult, err error) {
	err = m.ask(ctx, id, "ExecStatus", pid, &r)
	return r, err
}

// ReadFile reads a file through the guest agent, at most 16 MiB of it.
func (m *Manager) ReadFile(ctx context.Context, id, path string) (b []byte, err error) {
	err = m.ask(ctx, id, "ReadFile", path, &b)
	return b, err
}

func (m *Manager) ask(ctx context.Context, id, method string, in, out any) error {
	r := m.running(id)
	if r == nil {
		return ErrAgentNotRunning
	}
	return r.control.call(ctx, method, in, out)
}

// Close stops all machines and removes the networks; disks and addresses stay for the next Manager of the directory.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	machines := map[string]*machine{}
	for id, mc := range m.machines {
		machines[id] = mc
	}
	m.mu.Unlock()
	var wg sync.WaitGroup
	for id, mc := range machines {
		wg.Go(func() {
			mc.mu.Lock()
			defer mc.mu.Unlock()
			m.stop(id, mc)
		})
	}
	wg.Wait()
	if m.fabric != nil {
		m.fabric.close()
		m.fabric = nil
	}
	if m.claim != nil {
		_ = m.claim.Close()
		m.claim = nil
	}
	if m.opt.Dir != "" && m.guest != "" && m.guest != m.opt.Self {
		_ = os.RemoveAll(filepath.Join(m.opt.Dir, "bin"))
	}
	if m.lock != nil {
		if err := m.lock.Unlock(); err != nil {
			return fmt.Errorf("unlock %s: %w", m.opt.Dir, err)
		}
	}
	return nil
}
