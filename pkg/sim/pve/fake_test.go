package pve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/sim/host"
)

// fakeMachines is a host.Machines that keeps machines in memory and boots them at once.
type fakeMachines struct {
	mu       sync.Mutex
	specs    map[string]host.Spec // of disks that exist
	running  map[string]time.Time
	agentOff bool
	deaf     bool // ignores shutdown
	startErr error
	execs    map[int]host.ExecResult
	files    map[string]string // in all of them

	renumbered []string
}

var _ host.Machines = (*fakeMachines)(nil)

func newFake() *fakeMachines {
	return &fakeMachines{
		specs: map[string]host.Spec{}, running: map[string]time.Time{}, execs: map[int]host.ExecResult{},
	}
}

func (f *fakeMachines) Kind() host.Kind { return host.KindProcess }

func (f *fakeMachines) SSHPort() int { return 22 }

func (f *fakeMachines) Start(_ context.Context, spec host.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.startErr != nil {
		return f.startErr
	}
	if !f.running[spec.ID].IsZero() {
		return errors.New("machine runs already")
	}
	f.specs[spec.ID], f.running[spec.ID] = spec, time.Now()
	return nil
}

func (f *fakeMachines) State(id string) host.PowerState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running[id].IsZero() {
		return host.Stopped
	}
	return host.Running
}

func (f *fakeMachines) Booted(id string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[id]
}

func (f *fakeMachines) Shutdown(ctx context.Context, id string) error {
	f.mu.Lock()
	deaf := f.deaf
	f.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Stop(ctx, id)
}

func (f *fakeMachines) Stop(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, id)
	return nil
}

func (f *fakeMachines) Remove(ctx context.Context, id string) error {
	_ = f.Stop(ctx, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.specs, id)
	return nil
}

func (f *fakeMachines) SetIPv6(bool) error { return nil }

func (f *fakeMachines) Renumber(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renumbered = append(f.renumbered, id)
	return nil
}

func (f *fakeMachines) Clone(_ context.Context, from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.specs[from]; !ok {
		return fmt.Errorf("no machine %s", from)
	}
	if _, ok := f.specs[to]; ok {
		return fmt.Errorf("machine %s exists", to)
	}
	f.specs[to] = f.specs[from]
	return nil
}

func (f *fakeMachines) Snapshot(ctx context.Context, from, to string) error {
	return f.Clone(ctx, from, to)
}

func (f *fakeMachines) Rollback(ctx context.Context, snapshot, id string) error {
	return errors.Join(f.Remove(ctx, id), f.Clone(ctx, snapshot, id))
}

func (f *fakeMachines) up(id string) error {
	if f.agentOff || f.running[id].IsZero() || f.specs[id].Unbooted {
		return host.ErrAgentNotRunning
	}
	return nil
}

func (f *fakeMachines) Interfaces(_ context.Context, id string) ([]host.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.up(id); err != nil {
		return nil, err
	}
	out := []host.Interface{{
		Name: "lo", MAC: "00:00:00:00:00:00", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")},
	}}
	for i, n := range f.specs[id].NICs {
		addr := n.Address
		if !addr.IsValid() {
			addr = netip.MustParsePrefix(fmt.Sprintf("127.77.%d.%d/16", i, len(id)))
		}
		out = append(out, host.Interface{Name: fmt.Sprintf("eth%d", i), MAC: n.MAC, Addresses: []netip.Prefix{addr}})
	}
	return out, nil
}

func (f *fakeMachines) Exec(_ context.Context, id string, argv []string, stdin []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.up(id); err != nil {
		return 0, err
	}
	if argv[0] == "/nope" {
		return 0, &fs.PathError{Op: "exec", Path: argv[0], Err: fs.ErrNotExist}
	}
	pid := 600 + len(f.execs)
	if argv[0] == "tee" {
		f.execs[pid] = f.tee(argv[len(argv)-1], stdin)
		return pid, nil
	}
	f.execs[pid] = host.ExecResult{Exited: true, Stdout: []byte(strings.Join(argv[1:], " ") + "\n" + string(stdin))}
	return pid, nil
}

// tee writes a file; there is no directory /nope.
func (f *fakeMachines) tee(file string, content []byte) host.ExecResult {
	if strings.HasPrefix(file, "/nope/") {
		return host.ExecResult{
			Exited: true, ExitCode: 1, Stdout: content,
			Stderr: []byte("tee: " + file + ": No such file or directory\n"),
		}
	}
	if f.files == nil {
		f.files = map[string]string{}
	}
	f.files[file] = string(content)
	return host.ExecResult{Exited: true, Stdout: content}
}

func (f *fakeMachines) ExecStatus(_ context.Context, id string, pid int) (host.ExecResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.up(id); err != nil {
		return host.ExecResult{}, err
	}
	r, ok := f.execs[pid]
	if !ok {
		return r, errors.New("no such process")
	}
	delete(f.execs, pid)
	return r, nil
}

func (f *fakeMachines) ReadFile(_ context.Context, id, path string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.up(id); err != nil {
		return nil, err
	}
	if content, ok := f.files[path]; ok {
		return []byte(content), nil
	}
	if path == "/etc/hostname" {
		return []byte(f.specs[id].CloudInit.Hostname + "\n"), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

func (f *fakeMachines) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = map[string]time.Time{}
	return nil
}

func (f *fakeMachines) spec(id string) host.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.specs[id]
}
