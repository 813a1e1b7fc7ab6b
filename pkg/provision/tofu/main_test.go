package tofu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets links to the test binary stand for other programs: a provider that real tofu talks to, and a program that only
// knows its version.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); {
	case strings.HasPrefix(name, "terraform-provider-proxmox"):
		serveProvider()
	case name == "tofu" || name == "terraform":
		fmt.Println("OpenTofu v1.99.0\non some_arch")
	default:
		os.Exit(m.Run())
	}
}

// link makes a link to the test binary.
func link(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
}
