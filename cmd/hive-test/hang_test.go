package main_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// longestScript is several times what the longest script takes on a busy machine.
const longestScript = 12 * time.Minute

// endIn ends the programs of the script that runs in dir if it takes longer than limit: a program that hangs fails its script,
// which shows where it hung, and not the run of all. The caller calls stop when the script has ended.
//
// Testscript's own deadline ends a shell and not what that runs, and then waits for it.
func endIn(dir string, limit time.Duration) (stop func()) {
	timer := time.AfterFunc(limit, func() {
		signalScript(dir, syscall.SIGQUIT)
		time.Sleep(10 * time.Second) // for the stacks to be written
		signalScript(dir, syscall.SIGKILL)
	})
	return func() { timer.Stop() }
}

// signalScript signals all processes of a script but its simulator's, which is needed to clean up.
func signalScript(dir string, signal syscall.Signal) {
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
			_ = syscall.Kill(pid, signal)
		}
	}
}

// A program that hangs below a shell, and holds the script's pipe, is ended and has told where it was.
func TestEndIn(t *testing.T) {
	dir := t.TempDir()
	command := exec.Command("sh", "-c", "cat; true")
	command.Env = append(os.Environ(), "WORK="+dir)
	hangs, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	command.Stdin = hangs
	defer endIn(dir, 100*time.Millisecond)()
	err := command.Start()
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	_, err = command.Process.Wait()
	if took := time.Since(started); err != nil || took > longestScript/2 {
		t.Errorf("%v after %s", err, took)
	}
}
