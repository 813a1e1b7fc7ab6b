package remote

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// What the guard is told is what it ends when its input ends: commands that still run, and nothing else.
func TestGuardEndsWhatStillRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	start := func(mark string) (ended chan error) {
		cmd := exec.Command("sh", "-c", marked("exec sleep 60", mark))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended = make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return ended
	}
	marks := []string{newMark(), newMark(), newMark(), newMark()}
	var ends []chan error
	for _, mark := range marks {
		ends = append(ends, start(mark))
	}
	run := func(input string) {
		t.Helper()
		guard := exec.Command("sh", "-c", guardScript, "sh", asRoot, endScript, "100")
		guard.Stdin = strings.NewReader(input)
		if out, err := guard.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
	}
	lives := func(i int) bool {
		select {
		case err := <-ends[i]:
			ends[i] <- err
			return false
		case <-time.After(200 * time.Millisecond):
			return true
		}
	}
	run("+ " + marks[3] + "\n.\n") // needed no more
	run("+ " + marks[0] + "\n+ " + marks[1] + "\n- unknown\n+ " + marks[2] + "\n- " + marks[1] + "\n")
	for i, want := range []bool{false, true, false, true} {
		if got := lives(i); got != want {
			t.Errorf("command %d lives: %v, want %v", i, got, want)
		}
	}
}

// Commands that end soon cost no session but their own. One that lasts costs one more, which is told of it, when it has
// lasted a second, or at once where that is known of it.
func TestGuardIsForCommandsThatLast(t *testing.T) {
	t.Parallel()
	guards := func(s *server) (found int) {
		for _, command := range s.seen() {
			if strings.Contains(command, "running=") {
				found++
			}
		}
		return found
	}
	s, h := connected(t)
	for range 3 {
		if _, err := h.Run(t.Context(), Command{Argv: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(guardAfter + 100*time.Millisecond) // that nothing follows is all there is to see
	if got := s.seen(); len(got) != 3 {
		t.Fatalf("three short commands were %d sessions: %q", len(got), got)
	}
	for _, test := range []struct {
		command Command
		within  time.Duration
	}{
		{Command{Argv: []string{"sleep", "60"}}, guardAfter + time.Second},
		{Command{Argv: []string{"sleep", "60"}, Lasts: true}, guardAfter / 2},
	} {
		s, h := connected(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		begun := time.Now()
		go func() {
			_, err := h.Run(ctx, test.command)
			ended <- err
		}()
		for guards(s) == 0 && time.Since(begun) < test.within {
			time.Sleep(10 * time.Millisecond)
		}
		if guards(s) != 1 {
			t.Errorf("lasts %v: %d guards after %s", test.command.Lasts, guards(s), time.Since(begun))
		}
		if took := time.Since(begun); !test.command.Lasts && took < guardAfter {
			t.Errorf("guarded after %s", took)
		}
		cancel()
		<-ended
	}
}

// What runs when the guard begins is told to it, what has ended by then is not.
func TestGuardIsToldWhatRuns(t *testing.T) {
	t.Parallel()
	c := &connection{notes: make(chan note, 10), crowded: make(chan struct{}), lost: make(chan struct{})}
	ended := c.guarded("short", false)
	c.guarded("long", false)
	ended()
	if got := c.awaitLongCommand(); got != "+ long\n" {
		t.Errorf("told %q", got)
	}
	c.guarded("young", false)
	close(c.crowded)
	if got := c.awaitLongCommand(); got != "" {
		t.Errorf("told %q where there is no room for it", got)
	}
}
