package engine

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hive-test/pkg/progress"
)

func TestDebugLog(t *testing.T) {
	known := new(progress.Secrets)
	known.Learn("topsecret")
	d := newDebugLog(known)
	d.event(progress.Event{Kind: progress.Info, Message: "before there was a file"})
	path := filepath.Join(t.TempDir(), "debug.log")
	if err := d.open(path); err != nil {
		t.Fatal(err)
	}
	d.event(progress.Event{Kind: progress.Debug, Node: "ci-1", Message: "a topsecret thing\nin two lines"})
	d.event(progress.Event{Kind: progress.Output, Message: "chatter"})
	d.log.Debug("pve request", "method", "GET", "path", "/version", "status", 200)
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	d.log.Debug("too late")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		` msg=info message="before there was a file"`,
		` msg=debug node=ci-1 message="a [redacted] thing\nin two lines"`,
		` msg="pve request" method=GET path=/version status=200`,
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got\n%s", raw)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, "time=2") || !strings.HasSuffix(line, want[i]) {
			t.Errorf("got  %s\nwant ...%s", line, want[i])
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestDebugLogIsBounded(t *testing.T) {
	d := newDebugLog(nil)
	long := strings.Repeat("x", 64<<10)
	fill := func(n int) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range n {
					d.log.Debug(long)
				}
			})
		}
		all.Wait()
	}
	fill(4)
	path := filepath.Join(t.TempDir(), "debug.log")
	if err := d.open(path); err != nil {
		t.Fatal(err)
	}
	fill(100)
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > debugLimit+debugEarly+100 || strings.Count(string(raw), "no room is left") != 2 ||
		!strings.HasSuffix(string(raw), "is missing\n") {
		t.Errorf("it has %d bytes", len(raw))
	}
}
