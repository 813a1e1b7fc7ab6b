package simhive

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startLimit bounds how long `start` waits for the daemon's listeners.
const startLimit = 30 * time.Second

// pidNames are the names under which a node's services keep pid files and logs: the daemon is called after the program.
// One process serves them all here, so all pid files hold the same number.
func pidNames(services []string) []string {
	names := make([]string, len(services))
	for i, service := range services {
		names[i] = service
		if service == "daemon" {
			names[i] = "hive"
		}
	}
	return names
}

// start runs the node's services in the background and returns once they listen.
func (p *program) start(args []string) error {
	var o options
	if err := p.parse(p.flagSet("start", &o), args); err != nil {
		return err
	}
	if err := p.injected("start"); err != nil {
		return err
	}
	config, _, err := readConfig(o.layout)
	if err != nil {
		return err
	}
	if pid := runningDaemon(o.layout); pid != 0 {
		p.say("hive is already running (pid %d)", pid)
		return nil
	}
	pid, err := p.spawn(o.layout)
	if err != nil {
		return err
	}
	p.say("Started %s of %s (pid %d)", strings.Join(config.self().Services, ", "), config.Node, pid)
	return nil
}

// spawn starts the daemon in a session of its own and waits until it has written its pid file or died.
func (p *program) spawn(l layout) (int, error) {
	if err := os.MkdirAll(l.logs(""), 0o755); err != nil {
		return 0, fmt.Errorf("Error: make the log directory: %w", err)
	}
	output, err := os.OpenFile(l.logs("hive.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, fmt.Errorf("Error: open the daemon's log: %w", err)
	}
	defer output.Close()
	scale := strconv.FormatFloat(p.settings.TimeScale, 'g', -1, 64)
	daemon := &exec.Cmd{
		Path: p.executable,
		Args: []string{"hive", "daemon", "--config-dir", l.ConfigDir, "--hive-dir", l.DataDir,
			"--sim-era", string(p.settings.Era), "--sim-time-scale", scale},
		Dir:    "/",
		Stdout: output, Stderr: output,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := daemon.Start(); err != nil {
		return 0, fmt.Errorf("Error: start the daemon: %w", err)
	}
	return daemon.Process.Pid, p.awaitDaemon(l, daemon)
}

func (p *program) awaitDaemon(l layout, daemon *exec.Cmd) error {
	exited := make(chan struct{})
	go func() {
		daemon.Wait()
		close(exited)
	}()
	deadline := time.After(startLimit)
	for {
		if readPID(l.logs("hive.pid")) == daemon.Process.Pid {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("Error: hive failed to start (exited immediately): %s", lastLine(l.logs("hive.log")))
		case <-deadline:
			return fmt.Errorf("Error: hive did not listen within %s, see %s", startLimit, l.logs("hive.log"))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// stop ends the node's services.
func (p *program) stop(args []string) error {
	var o options
	if err := p.parse(p.flagSet("stop", &o), args); err != nil {
		return err
	}
	if err := p.injected("stop"); err != nil {
		return err
	}
	pid := runningDaemon(o.layout)
	if pid == 0 {
		p.say("hive is not running")
		return nil
	}
	if err := terminate(pid); err != nil {
		return fmt.Errorf("Error: stop the daemon (pid %d): %w", pid, err)
	}
	for _, name := range pidNames(defaultServices()) {
		os.Remove(o.logs(name + ".pid")) // stale ones do no harm
	}
	p.say("Stopped hive (pid %d)", pid)
	return nil
}

func terminate(pid int) error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := syscall.Kill(pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		for end := time.Now().Add(step.wait); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if !isDaemon(pid) {
				return nil
			}
		}
	}
	return fmt.Errorf("it is still there after SIGKILL")
}

func readPID(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

// runningDaemon returns the pid of this node's daemon, or 0.
func runningDaemon(l layout) int {
	pid := readPID(l.logs("hive.pid"))
	if pid == 0 || !isDaemon(pid) {
		return 0
	}
	return pid
}

// isDaemon tells whether pid is a living simulated daemon. A pid may have been given to another process since, and a dead
// one may be unreaped: neither has the daemon's command line.
func isDaemon(pid int) bool {
	if runtime.GOOS != "linux" {
		return syscall.Kill(pid, 0) == nil
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && slices.Contains(strings.Split(string(text), "\x00"), "daemon")
}
