package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A login shell whose start-up file prints something: what commands print, and files, are as with a silent one.
func TestNoisyLoginShell(t *testing.T) {
	t.Parallel()
	s, h := connected(t)
	s.startUp = `echo "Welcome to $HOSTNAME"; echo "$BASH_EXECUTION_STRING"; printf 'no line end'`
	var lines []string
	got, err := h.Run(t.Context(), Command{Script: "echo one; cat; echo err >&2", Stdin: strings.NewReader("two\n"), OnLine: func(stream, line string) {
		if stream == "stdout" {
			lines = append(lines, line)
		}
	}})
	if err != nil || string(got.Stdout) != "one\ntwo\n" || string(got.Stderr) != "err\n" ||
		strings.Join(lines, ",") != "one,two" {
		t.Errorf("got %q and %q, lines %q, %v", got.Stdout, got.Stderr, lines, err)
	}
	local, content := randomFile(t, 3<<20)
	for _, want := range []bool{true, false} { // the second time by its checksum, which a command prints
		if changed, err := h.Upload(t.Context(), local, "there", 0o644); err != nil || changed != want {
			t.Errorf("changed %v, want %v: %v", changed, want, err)
		}
	}
	back := filepath.Join(t.TempDir(), "back")
	if err := h.Download(t.Context(), "there", back); err != nil {
		t.Fatal(err)
	}
	checkFile(t, back, content, 0o600)
}

// Where the shell starts no SFTP server at all, the error says what it printed instead.
func TestLoginShellInPlaceOfSFTP(t *testing.T) {
	t.Parallel()
	s, h := connected(t)
	s.startUp = `echo "This account is not available."; exit 1`
	local, _ := randomFile(t, 10)
	_, err := h.Upload(t.Context(), local, "there", 0o644)
	contains(
		t, err, "ci-1",
		`the login shell of tf-user on ci-1 prints text ("This account is not available.") and starts no SFTP server`,
		"make it silent",
	)
	if _, err := os.Stat(filepath.Join(s.home, "there")); err == nil {
		t.Error("the file is there")
	}
	got, err := h.Run(t.Context(), Command{Argv: []string{"true"}})
	if err == nil || !strings.Contains(string(got.Stdout), "not available") {
		t.Errorf("got %q, %v", got.Stdout, err)
	}
}

// What is not announced is the command's output all the same, and more than a shell prints is not waited for.
func TestOutputIsOwnAfterItsMark(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxNoise+1)
	for _, test := range []struct {
		name        string
		pieces      []string
		want, noise string
	}{
		{"silent", []string{"MARK", "a"}, "a", ""},
		{"noise", []string{"hello\nMARKa\n", "b"}, "a\nb", "hello\n"},
		{"mark in pieces", []string{"he", "lloMA", "RKa", "MARK"}, "aMARK", "hello"},
		{"no mark", []string{"hello"}, "hello", ""},
		{"too much", []string{long, "MARKa"}, long + "MARKa", ""},
		{"nothing", nil, "", ""},
	} {
		o := newOutput(DefaultKeep, nil)
		o.from("MARK")
		for _, piece := range test.pieces {
			o.write(0, []byte(piece))
		}
		o.write(1, []byte("err"))
		var got Result
		if noise := o.finish(&got); string(got.Stdout) != test.want || noise != test.noise ||
			string(got.Stderr) != "err" {
			t.Errorf("%s: got %.40q and noise %q", test.name, got.Stdout, noise)
		}
	}
}
