package pvectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"hive-test/pkg/process"
	"hive-test/pkg/remote"
	"hive-test/pkg/sim/host"
)

const (
	// stopWait is how long a simulator may take to stop its VMs before it is killed.
	stopWait = 30 * time.Second
	// killWait is how long a killed process may take to be gone.
	killWait = 5 * time.Second
)

// exclusive lets one start, stop or status at a time look at a directory.
func (o *options) exclusive(ctx context.Context) (func(), error) {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the simulator's directory: %w", err)
	}
	l := flock.New(filepath.Join(o.dir, "control.lock"))
	if _, err := l.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("wait for another hive-sim in %s: %w", o.dir, err)
	}
	return func() { _ = l.Unlock() }, nil
}

// running returns the running simulator's description, nil if none runs. What a crashed one left in sim.json is no
// sign of life: a running one holds a lock.
func (o *options) running() (*Info, error) {
	l := o.serveLock()
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("look for a running simulator: %w", err)
	}
	if ok {
		return nil, l.Unlock()
	}
	return o.readInfo()
}

func (o *options) start(ctx context.Context, std Streams) error {
	if err := o.checkID(); err != nil {
		return err
	}
	release, err := o.exclusive(ctx)
	if err != nil {
		return err
	}
	defer release()
	info, err := o.running()
	if err != nil {
		return err
	}
	if info != nil {
		fmt.Fprintf(std.Err, "already running (pid %d, %s, %s hosts); flags of this start have no effect\n",
			info.PID, info.Endpoint, info.HostsKind)
		return nil
	}
	kind, why, err := host.Detect(ctx, o.hosts)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Err, "hosts are of kind %s: %s\n", kind, why)
	o.hosts = string(kind)
	return o.spawn(ctx, std)
}

// spawn starts serve in a session of its own and waits until it says that it is ready.
func (o *options) spawn(ctx context.Context, std Streams) error {
	bin, err := o.installBinaries(o.self)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(o.dir, "pve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the simulator's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(bin.self, o.serveArgs()...)
	cmd.Dir = o.dir
	pid, err := process.StartBackground(ctx, cmd, log)
	if err != nil {
		return fmt.Errorf("the simulator did not start: %w (log: %s)", err, log.Name())
	}
	fmt.Fprintf(std.Err, "simulated Proxmox VE %s started (pid %d, log %s)\n", o.version, pid, log.Name())
	return nil
}

func (o *options) serveArgs() []string {
	args := []string{
		"pve", "serve", "--clusters-dir", o.clustersDir, "--hosts", o.hosts, "--pve-version", o.version,
		"--hypervisors", strconv.Itoa(o.hypervisors), "--node-cores", strconv.Itoa(o.nodeCores),
		"--node-memory-gb", strconv.Itoa(o.nodeMemoryGB), "--node-storage-gb", strconv.Itoa(o.nodeStoreGB),
		"--task-duration", o.taskDuration.String(), "--boot-delay", o.bootDelay.String(), "--auth-delay",
		o.authDelay.String(),
		"--agent-timeout", o.agentTimeout.String(), "--resources-lag", o.resourcesLag.String(), "--ha-delay",
		o.haDelay.String(), "--idle", o.idle.String(),
		"--background",
	}
	if o.faults != "" {
		args = append(args, "--faults", o.faults)
	}
	return args
}

func (o *options) stop(ctx context.Context, std Streams) error {
	if _, err := os.Stat(o.dir); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(std.Err, "not running")
		return nil
	}
	release, err := o.exclusive(ctx)
	if err != nil {
		return err
	}
	defer release()
	info, err := o.running()
	if err != nil {
		return err
	}
	if info == nil {
		if err := o.heal(ctx); err != nil {
			return err
		}
		fmt.Fprintln(std.Err, "not running")
	} else {
		if err := o.end(ctx, info.PID); err != nil {
			return err
		}
		fmt.Fprintf(std.Err, "stopped (pid %d)\n", info.PID)
	}
	if !o.wipe {
		return nil
	}
	return o.removeState()
}

// end asks a simulator to end and waits for it; one that does not is killed and cleaned up after.
func (o *options) end(ctx context.Context, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop the simulator (pid %d): %w", pid, err)
	}
	if o.gone(ctx, stopWait) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stop the simulator (pid %d): %w", pid, err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if !o.gone(ctx, killWait) {
		return fmt.Errorf("the simulator (pid %d) does not end", pid)
	}
	return o.heal(ctx)
}

// gone waits until the lock of a running simulator is free.
func (o *options) gone(ctx context.Context, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l := o.serveLock()
	ok, err := l.TryLockContext(ctx, lockPoll)
	if !ok || err != nil {
		return false
	}
	_ = l.Unlock()
	return true
}

// heal removes the processes, namespaces and interfaces of a simulator that has crashed.
func (o *options) heal(ctx context.Context) error {
	info, err := o.readInfo()
	if err != nil || info == nil {
		return err
	}
	m, err := host.NewManager(ctx, host.Options{
		Kind: host.Kind(info.HostsKind), Dir: filepath.Join(o.dir, "hosts"), Self: o.self,
	})
	if err != nil {
		return fmt.Errorf("clean up after a crashed simulator: %w", err)
	}
	if err := m.Close(); err != nil {
		return fmt.Errorf("clean up after a crashed simulator: %w", err)
	}
	if err := os.Remove(o.infoFile()); err != nil {
		return fmt.Errorf("clean up after a crashed simulator: %w", err)
	}
	return nil
}

// require returns the running simulator or says how to start it.
func (o *options) require() (*Info, error) {
	var info *Info
	if _, err := os.Stat(o.dir); err == nil {
		if info, err = o.running(); err != nil {
			return nil, err
		}
	}
	if info == nil {
		return nil,
			fmt.Errorf("not running: start it with hive-sim pve start --clusters-dir %s", remote.Quote(o.clustersDir))
	}
	return info, nil
}

func (o *options) status(_ context.Context, std Streams) error {
	info, err := o.require()
	if err != nil {
		return err
	}
	if o.format == "json" {
		shown := *info
		shown.Token = ""
		return json.NewEncoder(std.Out).Encode(shown)
	}
	_, err = fmt.Fprintf(std.Out, "running  pid %d  %s  Proxmox VE %s  %d hypervisors  %s hosts\n",
		info.PID, info.Endpoint, info.PVEVersion, len(info.Hypervisors), info.HostsKind)
	return err
}

func (o *options) env(_ context.Context, std Streams) error {
	info, err := o.require()
	if err != nil {
		return err
	}
	if o.format == "json" {
		enc := json.NewEncoder(std.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(info)
	}
	for _, v := range [][2]string{
		{"PROXMOX_VE_ENDPOINT", info.Endpoint},
		{"PROXMOX_VE_API_TOKEN", info.Token},
		{"HIVE_TEST_PROXMOX_ENDPOINT", info.Endpoint},
		{"HIVE_TEST_PROXMOX_CA_FILE", info.CAFile},
		{"HIVE_SIM_CA", info.CAFile},
	} {
		if _, err := fmt.Fprintf(std.Out, "export %s=%s\n", v[0], remote.Quote(v[1])); err != nil {
			return err
		}
	}
	return nil
}
