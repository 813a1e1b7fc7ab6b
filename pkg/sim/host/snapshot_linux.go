package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"hive-test/pkg/process"
)

// Snapshot copies a machine's disk to an id that has none, whether the machine runs or not: its processes stand still
// meanwhile, so that the copy is of one moment, as a snapshot of a real disk is.
func (m *Manager) Snapshot(_ context.Context, from, to string) error {
	if err := errors.Join(checkID(from), checkID(to)); err != nil {
		return fmt.Errorf("snapshot of machine: %w", err)
	}
	mc, err := m.get(from)
	if err != nil {
		return fmt.Errorf("snapshot of machine %s: %w", from, err)
	}
	mc.mu.Lock()
	defer mc.mu.Unlock()
	if r := m.running(from); r != nil {
		defer freeze(r.cmd.Process.Pid)()
	}
	if err := m.copyDisk(from, to); err != nil {
		return fmt.Errorf("snapshot of machine %s: %w", from, err)
	}
	return nil
}

// copyDisk copies the disk of a machine to one that has none, and is not there yet.
func (m *Manager) copyDisk(from, to string) error {
	if _, err := os.Lstat(m.dir(to)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("machine %s already exists", to)
	}
	if err := os.Mkdir(m.dir(to), 0o755); err != nil {
		return err
	}
	disk := filepath.Join(m.dir(from), "upper")
	if _, err := os.Lstat(disk); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := copyTree(disk, filepath.Join(m.dir(to), "upper")); err != nil {
		return errors.Join(err, os.RemoveAll(m.dir(to)))
	}
	return nil
}

// freeze stops all processes below pid, and returns what lets them go on. One that was stopped before stays so.
func freeze(pid int) (thaw func()) {
	stopped := map[int]bool{}
	for found := true; found; { // one that was not stopped yet may have started another
		found = false
		for _, p := range descendants(pid) {
			stat, known := process.ReadStat(p)
			if stopped[p] || !known || stat.Dead() || stat.State == "T" {
				continue
			}
			stopped[p], found = true, true
			_ = syscall.Kill(p, syscall.SIGSTOP)
		}
	}
	return func() {
		for p := range stopped {
			_ = syscall.Kill(p, syscall.SIGCONT)
		}
	}
}

// Rollback stops a machine and gives it the disk that a snapshot has kept. Its addresses stay: they are the cards', and
// no part of the disk.
func (m *Manager) Rollback(ctx context.Context, snapshot, id string) error {
	if err := errors.Join(checkID(snapshot), checkID(id)); err != nil {
		return fmt.Errorf("rollback of machine: %w", err)
	}
	mc, err := m.get(id)
	if err != nil {
		return fmt.Errorf("rollback of machine %s: %w", id, err)
	}
	mc.mu.Lock()
	defer mc.mu.Unlock()
	m.stop(id, mc)
	if _, err := os.Lstat(m.dir(snapshot)); err != nil {
		return fmt.Errorf("rollback of machine %s: %w", id, err)
	}
	if _, err := os.Lstat(m.dir(id)); err == nil {
		lock, err := lockMachine(ctx, m.dir(id))
		if err != nil {
			return fmt.Errorf("rollback of machine %s: %w", id, err)
		}
		defer func() { _ = lock.Close() }()
	}
	if err := errors.Join(os.RemoveAll(m.dir(id)), m.copyDisk(snapshot, id)); err != nil {
		return fmt.Errorf("rollback of machine %s: %w", id, err)
	}
	return nil
}
