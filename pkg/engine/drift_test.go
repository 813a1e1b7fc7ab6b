package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
)

// Look after look leaves nothing behind: no file that is open, no directory, no child, and, as all tests of this package, no goroutine.
func TestLooksForDriftLeakNothing(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") != "yes" {
		t.Skip("it takes long: make soak runs it")
	}
	dir := engine.Simulated(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	settings, err := config.Load(config.LoadOptions{
		Env: os.Getenv, Values: map[string]string{"sim": "true", "node_count": "1", "clusters_dir": dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	hive, err := engine.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	request := engine.Request{Name: "d", Settings: settings}
	if _, err := hive.Up(t.Context(), engine.UpRequest{Request: request}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := hive.Down(context.WithoutCancel(t.Context()), engine.DownRequest{Request: request}); err != nil {
			t.Error(err)
		}
	}()
	look := func(ctx context.Context) (found []engine.Drift) {
		if err := hive.DriftAll(ctx, settings, 2, func(d engine.Drift) error { found = append(found, d); return nil }); err != nil {
			t.Error(err)
		}
		return found
	}
	var before string
	for i := range 6 {
		for _, d := range look(t.Context()) {
			if d.Err != nil || d.Busy != "" || d.Found() {
				t.Errorf("look %d: %+v", i, d)
			}
		}
		cut, cancel := context.WithTimeout(t.Context(), time.Duration(i)*150*time.Millisecond) // and one that is cut short
		look(cut)
		cancel()
		if now := held(t, temporary); i == 1 { // the first ones fill caches
			before = now
		} else if i > 1 && now != before {
			t.Errorf("look %d: %s, before: %s", i, now, before)
		}
	}
}

// held is what this process has open, has as children and has left among temporary files.
func held(t *testing.T, temporary string) string {
	t.Helper()
	files, _ := filepath.Glob("/proc/self/fd/*")
	var open []string
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && !strings.HasPrefix(target, "socket:") && target != "anon_inode:[eventpoll]" {
			open = append(open, target)
		}
	}
	left, err := filepath.Glob(temporary + "/*")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d files, %d children, left %v", len(open), children(), left)
}

// children counts the children of this process.
func children() int {
	count := 0
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // of a thread that has ended there are none
		count += len(strings.Fields(string(raw)))
	}
	return count
}
