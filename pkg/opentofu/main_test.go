package opentofu

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets a link to the test binary stand for a program that only knows its version.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "tofu" {
		fmt.Println("OpenTofu v1.99.0\non some_arch")
		return
	}
	goleak.VerifyTestMain(m)
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

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
