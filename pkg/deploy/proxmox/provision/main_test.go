package provision

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// scratch is a directory that lasts as long as the tests.
var scratch string

// providerBinary is where the provider of these tests is built, once for all of them and only if one needs it. It is a
// program of its own because tofu reads and checks its whole file at every step, and because it need not be slowed down
// by -race.
var providerBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "provider")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./testdata/provider").CombinedOutput()
	if err != nil {
		return path, fmt.Errorf("build the provider of the tests: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hive-test-provider-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// link makes a link at path to a program.
func link(t *testing.T, program, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, path); err != nil {
		t.Fatal(err)
	}
}
