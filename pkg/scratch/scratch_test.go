package scratch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestBaseIsOursAlone(t *testing.T) {
	name := filepath.Base(mustBase(t, t.TempDir()))
	elsewhere := t.TempDir()
	for want, prepare := range map[string]func(dir string) error{
		"is a link":      func(dir string) error { return os.Symlink(elsewhere, dir) },
		"no directory":   func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"open to others": func(dir string) error { return os.Mkdir(dir, 0o750) },
		"belongs to":     func(dir string) error { return os.Lchown(mustMkdir(t, dir), 4713, 4713) },
	} {
		parent := t.TempDir()
		if err := prepare(filepath.Join(parent, name)); err != nil {
			t.Logf("%s: %v", want, err) // only root gives directories away
			continue
		}
		if _, err := Base(parent); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if left, _ := os.ReadDir(elsewhere); len(left) > 0 {
		t.Errorf("where a link leads there is %v", left)
	}
}

func mustBase(t *testing.T, parent string) string {
	t.Helper()
	for range 2 { // made, and found
		if _, err := Base(parent); err != nil {
			t.Fatal(err)
		}
	}
	base, _ := Base(parent)
	if info, err := os.Stat(base); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info, err)
	}
	return base
}

func mustMkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What a process that is gone has left is removed by the next; what one that lives has, or what outlives its run,
// stays.
func TestTheNextRunSweeps(t *testing.T) {
	base := mustBase(t, t.TempDir())
	alive, err := New(base)
	if err != nil {
		t.Fatal(err)
	}
	killed, err := New(base)
	if err != nil {
		t.Fatal(err)
	}
	outlived, err := New(base)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "60")
	child.Env = []string{"TMPDIR=" + outlived.Path, "PATH=" + os.Getenv("PATH")}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := func() { _, _ = child.Process.Kill(), child.Wait() }
	t.Cleanup(ended)
	for _, d := range []*Dir{killed, outlived} {
		if err := os.WriteFile(filepath.Join(d.Path, "plugin1"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.lock.Close(); err != nil { // as the end of a process does
			t.Fatal(err)
		}
	}
	there := func(d *Dir) bool {
		_, err := os.Stat(d.Path)
		return err == nil
	}
	next, err := New(base)
	if err != nil {
		t.Fatal(err)
	}
	_, noProc := os.Stat("/proc/self/environ")
	if !there(alive) || there(killed) || noProc == nil && !there(outlived) {
		t.Errorf("alive: %v, killed: %v, outlived: %v", there(alive), there(killed), there(outlived))
	}
	ended()
	last, err := New(base)
	if err != nil || there(outlived) {
		t.Errorf("outlived: %v, %v", there(outlived), err)
	}
	for _, d := range []*Dir{alive, next, last} {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(base); err != nil || len(left) != 1 || left[0].Name() != sweepLock {
		t.Errorf("left: %v, %v", left, err)
	}
}
