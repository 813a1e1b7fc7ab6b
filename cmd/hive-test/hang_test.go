package main_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hive-test/pkg/wait"
)

// longestScript is several times what the longest script takes on a busy machine.
const longestScript = 12 * time.Minute

// stackTime is how long programs may take to write their stacks.
const stackTime = 10 * time.Second

// endIn ends the programs of the script that runs in dir if it takes longer than limit: a program that hangs fails its script,
// which shows where it hung, and not the run of all. Those that do not end when asked for their stacks (SIGQUIT) are killed
// after grace. The caller calls stop when the script has ended.
//
// Testscript's own deadline ends a shell and not what that runs, and then waits for it.
func endIn(dir string, limit, grace time.Duration) (stop func()) {
	timer := time.AfterFunc(limit, func() {
		signalAll(processesOf(dir), syscall.SIGQUIT)
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		for range (wait.Backoff{First: 10 * time.Millisecond, Max: time.Second}).Tries(ctx) {
			if len(processesOf(dir)) == 0 {
				return
			}
		}
		signalAll(processesOf(dir), syscall.SIGKILL)
	})
	return func() { timer.Stop() }
}

func signalAll(pids []int, signal syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
}

// processesOf returns the ids of all processes of a script but its simulator's, which is needed to clean up.
func processesOf(dir string) (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		environ, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), "WORK="+dir) {
			continue
		}
		program, err := os.Readlink(filepath.Join(filepath.Dir(file), "exe"))
		if err != nil || strings.HasPrefix(filepath.Base(program), "hive-sim") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A program that hangs below a shell, and holds the script's pipe, is ended, also one that cares for no SIGQUIT.
func TestEndIn(t *testing.T) {
	for name, line := range map[string]string{"hangs": "sleep 600; true", "ignores SIGQUIT": "trap '' QUIT; sleep 600; true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command := exec.Command("sh", "-c", line)
			command.Env = append(os.Environ(), "WORK="+dir)
			command.Stdout = new(bytes.Buffer) // a pipe, which sleep holds after its shell has ended
			defer endIn(dir, 100*time.Millisecond, 300*time.Millisecond)()
			ended := make(chan error, 1)
			go func() { ended <- command.Run() }()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("it ended by itself")
				}
			case <-time.After(time.Minute):
				signalAll(processesOf(dir), syscall.SIGKILL)
				t.Error("it was not ended")
			}
		})
	}
}
