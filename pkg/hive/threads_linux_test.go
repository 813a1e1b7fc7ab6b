package hive

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// In a process that is asked to, the first thread ends while others live. Variables are set by the first thread.
var _ = endFirstThread()

func endFirstThread() struct{} {
	if os.Getenv("FIRST_THREAD_ENDS") == "" {
		return struct{}{}
	}
	runs := make(chan struct{})
	go func() { // on another thread: while variables are set, the first one runs nothing else
		close(runs)
		time.Sleep(time.Minute)
		os.Exit(0)
	}()
	<-runs
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	return struct{}{}
}

// A process whose first thread waits for the others to end has not ended: it holds its ports.
func TestAProcessLivesAsLongAsItsThreads(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(self)
	process.Env = append(os.Environ(), "FIRST_THREAD_ENDS=yes")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	pid := process.Process.Pid
	for stat := ""; !strings.Contains(stat, ") Z "); time.Sleep(5 * time.Millisecond) {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		stat = string(raw)
	}
	if since := lookedUp(t, pid); since == "" {
		t.Error("it counts as ended, and has threads")
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); lookedUp(t, pid) != ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not count as ended, and only waits to be reaped")
		}
	}
	_ = process.Wait() // it was killed
}

// lookedUp is what the scripts find of a process.
func lookedUp(t *testing.T, pid int) string {
	t.Helper()
	raw, err := os.ReadFile("scripts/common.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "\nlook_up() {\n")
	body, _, found := strings.Cut(rest, "\n}\n")
	if !found {
		t.Fatal("there is no look_up in common.sh")
	}
	out, err := exec.Command("bash", "-c", fmt.Sprintf("look_up() {\n%s\n}\nlook_up %d; echo \"$since\"", body, pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}
