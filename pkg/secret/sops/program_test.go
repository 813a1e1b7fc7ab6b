package sops

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheProgramReadsWhatIsWritten asks the program itself.
func TestTheProgramReadsWhatIsWritten(t *testing.T) {
	program, err := exec.LookPath("sops")
	if os.Getenv("HIVE_TEST_SOAK") == "" || err != nil {
		t.Skip("the program sops is not on PATH, or this is no soak")
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "keys.txt")
	if err := os.WriteFile(key, testdata(t, "keys.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plain.yaml", "plain.json", "plain.env", "plain.bin"} {
		format := FormatOf(name)
		content := testdata(t, name)
		if format == Binary {
			content = []byte(`{"data": "binary"}`)
		}
		d, err := New(format, content, []Recipient{recipient(t)})
		if err != nil {
			t.Fatal(err)
		}
		agrees := func(step string) {
			t.Helper()
			raw, err := d.Bytes()
			path := filepath.Join(dir, name)
			if err := errors.Join(err, os.WriteFile(path, raw, 0o600)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "-d", path)
			cmd.Env = append(os.Environ(), "SOPS_AGE_KEY_FILE="+key)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s %s: %v\n%s", name, step, err, raw)
			}
			want, err := d.Plain()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(valuesOf(t, format, want), valuesOf(t, format, out), cmp.AllowUnexported(plain{})); diff != "" {
				t.Errorf("%s %s (-ours +sops)\n%s", name, step, diff)
			}
			for _, comment := range regexp.MustCompile(`(?m)# ?[a-z].*$`).FindAllString(string(want), -1) {
				if !strings.Contains(string(out), comment) {
					t.Errorf("%s %s: the comment %q is gone of\n%s", name, step, comment, out)
				}
			}
		}
		agrees("new")
		path := []string{"more"}
		if format == Binary {
			path = nil
		}
		if err := d.Set(path, "a\nb: 'c' # d"); err != nil {
			t.Fatal(err)
		}
		agrees("set")
		if err := d.Rotate([]Recipient{recipient(t)}); err != nil {
			t.Fatal(err)
		}
		agrees("rotated")
	}
	for name := range made() { // what the program has made, and was changed here
		format := FormatOf(name)
		d, err := Open(format, testdata(t, name), testKeys(t))
		if err != nil {
			t.Fatal(err)
		}
		if format != Binary {
			if err := d.Set([]string{"token"}, "changed"); err != nil {
				t.Fatal(err)
			}
		}
		raw, _ := d.Bytes()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "-d", path)
		cmd.Env = append(os.Environ(), "SOPS_AGE_KEY_FILE="+key)
		out, err := cmd.CombinedOutput()
		if err != nil || format != Binary && !strings.Contains(string(out), "changed") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
