package progress_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hive-test/pkg/progress"
)

func TestSecretsAreLearntOnTheWay(t *testing.T) {
	var known progress.Secrets
	if got := known.Mask("token hunter2222"); got != "token hunter2222" {
		t.Errorf("got %q", got)
	}
	known.Learn("hunter2222", " hunter2222\n", "", "another-one")
	if got := known.Values(); len(got) != 2 {
		t.Errorf("got %q", got)
	}
	if got := known.Mask("token hunter2222, another-one"); got != "token [redacted], [redacted]" {
		t.Errorf("got %q", got)
	}
	e := known.MaskEvent(progress.Event{Message: "hunter2222", Explanation: &progress.Explanation{
		What: "hunter2222", Lines: []string{"another-one"},
	}})
	if e.Message != progress.Redacted || e.Explanation.What != progress.Redacted ||
		e.Explanation.Lines[0] != progress.Redacted {
		t.Errorf("got %+v %+v", e, e.Explanation)
	}
}

func TestNobodysSecretsDoNothing(t *testing.T) {
	var nobody *progress.Secrets
	nobody.Learn("x")
	if nobody.Values() != nil || nobody.Mask("text") != "text" || nobody.MaskFiles(t.TempDir()) != nil {
		t.Error("nil secrets know something")
	}
}

func TestSecretsAreSafeForConcurrentUse(t *testing.T) {
	var known progress.Secrets
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			known.Learn("secret-number-" + strings.Repeat("x", i))
			if got := known.Mask("secret-number-" + strings.Repeat("x", i)); strings.Contains(got, "secret") {
				t.Errorf("got %q", got)
			}
		})
	}
	all.Wait()
}

func TestFilesAreMaskedInPlace(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, mode); err != nil {
			t.Fatal(err)
		}
	}
	line := "a line of text that goes on for a while\n"
	large := bytes.Repeat([]byte(line), 20<<20/len(line))
	at := 8<<20 - 5 // across the end of a piece
	copy(large[at:], "hunter2222")
	write("deep/er/small", []byte("one hunter2222 two\n"), 0o640)
	write("clean", []byte("nothing here\n"), 0o600)
	write("large", large, 0o600)
	before, err := os.Stat(filepath.Join(dir, "clean"))
	if err != nil {
		t.Fatal(err)
	}
	var known progress.Secrets
	known.Learn("hunter2222")
	if err := known.MaskFiles(dir); err != nil {
		t.Fatal(err)
	}
	if err := known.MaskFiles(filepath.Join(dir, "missing")); err != nil {
		t.Error(err)
	}
	small, err := os.ReadFile(filepath.Join(dir, "deep/er/small"))
	if err != nil || string(small) != "one [redacted] two\n" {
		t.Errorf("got %q, %v", small, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "deep/er/small")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got %v, %v", info, err)
	}
	after, err := os.Stat(filepath.Join(dir, "clean"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("a file without secrets was replaced: %v", err)
	}
	masked, err := os.ReadFile(filepath.Join(dir, "large"))
	if err != nil || bytes.Contains(masked, []byte("hunter2222")) || !bytes.Equal(masked[:at], large[:at]) ||
		!bytes.HasSuffix(masked, []byte(line)) {
		t.Errorf("the large file is not as it should be: %v", err)
	}
	if len(masked) != len(large) { // [redacted] is as long as what it stands for
		t.Errorf("the large file has %d bytes, of %d", len(masked), len(large))
	}
}
