package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hive-test/pkg/process"
)

// procs starts and reaps the processes of a machine. An init adopts orphans, so it must wait for any child; os/exec's
// own waiting would race with that, so all children are started here and their ends are handed out from one place.
type procs struct {
	mu      sync.Mutex // held while a child is started, so that it is registered before it can be reaped
	closed  bool       // no more children
	waiting map[int]chan syscall.WaitStatus
	jobs    chan func()
	signals chan os.Signal
	idle    chan struct{} // gets a value, if there is room, when no child is left
}

// hostOnly are capabilities by which a machine's root could change the real machine. A VM's root has them over the VM;
// here nothing is behind them but the machine that everything shares.
var hostOnlyCapabilities = [...]uintptr{
	unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_TIME, unix.CAP_SYS_BOOT, unix.CAP_MKNOD, unix.CAP_SYSLOG,
	unix.CAP_MAC_ADMIN, unix.CAP_MAC_OVERRIDE, unix.CAP_WAKE_ALARM, unix.CAP_BLOCK_SUSPEND, unix.CAP_AUDIT_CONTROL,
	unix.CAP_BPF, unix.CAP_PERFMON,
}

// newProcs starts the reaper and the launcher, which run until the process ends. With confine, no child can get a
// capability that reaches beyond the machine.
func newProcs(confine bool) *procs {
	p := &procs{
		waiting: map[int]chan syscall.WaitStatus{},
		jobs:    make(chan func()),
		signals: make(chan os.Signal, 1),
		idle:    make(chan struct{}, 1),
	}
	signal.Notify(p.signals, syscall.SIGCHLD)
	go p.launch(confine)
	go func() {
		for range p.signals {
			p.reap()
		}
	}()
	return p
}

// launch runs jobs on one thread. The bounding set belongs to a thread and is inherited by its children: dropped here,
// it confines what is started and leaves the init itself able to mount and to make devices.
func (p *procs) launch(confine bool) {
	runtime.LockOSThread()
	if confine {
		for _, c := range hostOnlyCapabilities {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
	}
	for job := range p.jobs {
		job()
	}
}

// start runs argv (its first element an absolute path unless path is given) and returns a channel that gets its end.
func (p *procs) start(path string, argv []string, attr *os.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	end := make(chan syscall.WaitStatus, 1)
	var pid int
	var err error
	done := make(chan struct{})
	p.jobs <- func() {
		defer close(done)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed {
			err = errors.New("the machine is powering off")
			return
		}
		var proc *os.Process
		if proc, err = os.StartProcess(path, argv, attr); err != nil {
			return
		}
		pid = proc.Pid
		p.waiting[pid] = end
		_ = proc.Release()
	}
	<-done
	return pid, end, err
}

func (p *procs) reap() {
	for {
		p.mu.Lock()
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			p.mu.Unlock()
			continue
		}
		if pid > 0 {
			if end := p.waiting[pid]; end != nil {
				end <- ws
				delete(p.waiting, pid)
			}
		}
		p.mu.Unlock()
		if pid <= 0 {
			if err == syscall.ECHILD {
				select {
				case p.idle <- struct{}{}:
				default:
				}
			}
			return
		}
	}
}

// alive tells whether any child, of its own or adopted, is left.
func (p *procs) alive() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != unix.ECHILD
}

// ask sends all children SIGTERM, by each, and waits until they have ended or patience is over.
func (p *procs) ask(patience time.Duration, each func(syscall.Signal)) {
	if !p.alive() {
		return
	}
	each(syscall.SIGTERM)
	deadline := time.After(patience)
	for p.alive() {
		select {
		case <-p.idle:
		case <-deadline:
			return
		}
	}
}

// kill ends all children, by each, and lets no more be started.
func (p *procs) kill(each func(syscall.Signal)) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	// Killed processes may have forked meanwhile: repeat until nothing is left, within reason.
	for wait := time.Millisecond; p.alive() && wait < 2*time.Second; wait *= 2 {
		each(syscall.SIGKILL)
		select {
		case <-p.idle:
		case <-time.After(wait):
		}
	}
}

// descendants lists all processes below pid, nearest first.
func descendants(pid int) []int {
	children := map[int][]int{}
	for _, child := range process.All() {
		if stat, known := process.ReadStat(child); known {
			children[stat.Parent] = append(children[stat.Parent], child)
		}
	}
	var all []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return all
}

// lookPath finds a command in a PATH, as a shell would.
func lookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	for dir := range strings.SplitSeq(path, ":") {
		p := filepath.Join(dir, name)
		if dir != "" && executable(p) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

func executable(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if fi.IsDir() || fi.Mode()&0o111 == 0 {
		return &fs.PathError{Op: "exec", Path: path, Err: fs.ErrPermission}
	}
	return nil
}
