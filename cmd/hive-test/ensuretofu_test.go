package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo stands in for the compiler: it tells of 40 packages, and builds a tofu that only knows its version.
const fakeGo = `#!/bin/bash
echo "$*" >>go.calls
case "$*" in
*" -m "*) echo v1.12.6 ;;
*" -deps "*) echo 'go: downloading example.org/a v1' >&2; for i in $(seq 40); do echo stale; done ;;
"build "*)
	for i in $(seq 40); do echo "example.org/p$i" >&2; done
	while [ "$1" != -o ]; do shift; done
	printf '#!/bin/sh\necho OpenTofu v1.12.6\n' >"$2" && chmod +x "$2" ;;
esac
`

// Where no tofu is and none can be downloaded, make says why and how far it is, builds one, and does so once for all
// checkouts.
func TestTofuIsBuiltOnceForAllCheckouts(t *testing.T) {
	cache := t.TempDir()
	first, second := checkout(t), checkout(t)
	out := ensureTofu(t, first, cache)
	for _, want := range []string{
		"tofu: neither tofu nor terraform is here: downloading OpenTofu",
		"tofu: download failed: OpenTofu: ", "; building OpenTofu from its Go module instead: about 4 minutes, once;",
		"tofu: building 40 packages", "tofu:   5%, 2 of 40 packages", "tofu: 100%, 40 of 40 packages", "tofu: built in ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if lines := strings.Count(out, "\n"); lines > 30 || strings.Contains(out, "example.org") {
		t.Errorf("it says %d lines:\n%s", lines, out)
	}
	if out := ensureTofu(t, second, cache); out != "" {
		t.Errorf("the second checkout is not quiet:\n%s", out)
	}
	for _, dir := range []string{first, second} {
		kept := filepath.Join(cache, "hive-test", "tofu", "v1.12.6", "tofu")
		if link, err := os.Readlink(filepath.Join(dir, "bin", "tofu")); err != nil || link != kept {
			t.Errorf("bin/tofu is %q (%v), want %q", link, err, kept)
		}
	}
	if calls, _ := os.ReadFile(filepath.Join(second, "go.calls")); strings.Contains(string(calls), "build") {
		t.Errorf("the second checkout builds:\n%s", calls)
	}
}

// A program that is in bin is used, and stays.
func TestTofuOfTheCheckoutStays(t *testing.T) {
	dir := checkout(t)
	own := filepath.Join(dir, "bin", "tofu")
	if err := os.WriteFile(own, []byte("#!/bin/sh\necho OpenTofu v1.11.0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := ensureTofu(t, dir, t.TempDir()); out != "" {
		t.Errorf("it says:\n%s", out)
	}
	if info, err := os.Lstat(own); err != nil || !info.Mode().IsRegular() {
		t.Errorf("bin/tofu is %v (%v)", info, err)
	}
}

// checkout returns a directory with what the script of `make demo` needs.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program, err := filepath.Abs(filepath.Join(os.Getenv("HIVE_TEST_BIN_DIR"), "hive-test"))
	if err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"bin/hive-test": program, "tofu/program/get.sh": "../../tofu/program/get.sh"} {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		writeProgram(t, filepath.Join(dir, to), raw)
	}
	writeProgram(t, filepath.Join(dir, "path", "go"), []byte(fakeGo))
	for _, tool := range []string{ // and nothing else: no tofu of this machine
		"awk", "bash", "chmod", "dirname", "grep", "ln", "mkdir", "mv", "sed", "seq", "sh", "uname",
	} {
		found, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(found, filepath.Join(dir, "path", tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

func ensureTofu(t *testing.T, dir, cache string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "tofu", "program", "get.sh"))
	cmd.Env = []string{
		"PATH=" + filepath.Join(dir, "path"), "HOME=" + t.TempDir(), "XDG_CACHE_HOME=" + cache,
		"HTTPS_PROXY=http://127.0.0.1:1", "GOCOVERDIR=" + os.Getenv("HIVE_TEST_COVER_DIR"),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
