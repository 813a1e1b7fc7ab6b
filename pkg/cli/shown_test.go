package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What nodes print acts neither upon a terminal nor upon the job in whose log it is; files get it as it is.
func TestShown(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil || !isTerminal(terminal) {
		t.Skip("no terminal can be made here: ", err)
	}
	defer func() { _ = terminal.Close() }()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	const said = "\x1b]0;title\a\x1b[2Jred\r::add-mask::x\n##vso[task.x]"
	for name, test := range map[string]struct {
		env  string // a variable that is "true"
		to   interface{ Write([]byte) (int, error) }
		want string
	}{
		"a pipe":               {"", new(bytes.Buffer), said},
		"a terminal":           {"", terminal, "red\n::add-mask::x\n##vso[task.x]"},
		"the log of a job":     {"GITHUB_ACTIONS", new(bytes.Buffer), "red\n| ::add-mask::x\n## vso[task.x]"},
		"Azure's":              {"TF_BUILD", new(bytes.Buffer), "red\n| ::add-mask::x\n## vso[task.x]"},
		"a file of that job's": {"GITHUB_ACTIONS", file, said},
	} {
		a := &app{Environment: Environment{Getenv: func(key string) string { return map[string]string{test.env: "true"}[key] }}}
		if got := a.shown(test.to, said); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// A session's output is held back by the line, and no longer than a line may be.
func TestSessionOutputInAJob(t *testing.T) {
	var out bytes.Buffer
	a := &app{Environment: Environment{Stdout: &out, Stderr: &out, Getenv: func(key string) string { return map[string]string{"GITHUB_ACTIONS": "true"}[key] }}}
	stdout, _, flush := a.sessionOutput(false)
	for _, piece := range []string{"a\n:", ":error::x\n", strings.Repeat("y", longestLine+1), "\n:", ":b"} {
		if _, err := stdout.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(out.String(), "b") || !strings.Contains(out.String(), "yyy") {
		t.Errorf("before its end, %q is shown", out.String()[:20])
	}
	if err := flush(); err != nil || strings.ReplaceAll(out.String(), "y", "") != "a\n| ::error::x\n\n| ::b" {
		t.Errorf("%q, %v", strings.ReplaceAll(out.String(), "y", ""), err)
	}
	if raw, _, _ := a.sessionOutput(true); raw != a.Stdout {
		t.Error("raw output is changed")
	}
}
