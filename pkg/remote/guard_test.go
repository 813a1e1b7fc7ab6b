package remote

import (
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
