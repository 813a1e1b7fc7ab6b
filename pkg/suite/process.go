package suite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hive-test/pkg/process"
)

const (
	maxText   = 64 << 10 // bytes that are handed out at once; longer lines come in pieces
	lastLines = 3        // kept for the message of a failure
)

// child is a program and its arguments, run in a process group of its own with nothing on its standard input.
type child struct {
	argv   []string
	line   string // as messages call it
	dir    string
	env    []string
	grace  time.Duration
	onText func(string) // whole lines of both streams, as many as are there, in the order in which they were written
	// onEnd is called when it and its group have ended. pipe is what /proc calls the one that its output came through.
	onEnd func(group int, pipe string)
}

// exit is how a process ended.
type exit struct {
	code   int
	signal string // "KILL"
}

func (e exit) err() error {
	switch {
	case e.signal != "":
		return errors.New("ended by signal " + e.signal)
	case e.code != 0:
		return errors.New("exited with " + strconv.Itoa(e.code))
	}
	return nil
}

// runProcess runs p to its end. When ctx ends, or this process is killed, the whole group gets INT and, after the
// grace, KILL. Whatever is left in the group when the command has ended is killed. The error means that it could not be
// started.
func runProcess(ctx context.Context, p child) (exit, error) {
	if p.dir != "" { // a missing one is otherwise reported as a missing shell
		if _, err := os.Stat(p.dir); err != nil {
			return exit{}, fmt.Errorf("starting %q: its working directory: %w", p.line, err)
		}
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env
	read, write, err := os.Pipe()
	if err != nil {
		return exit{}, fmt.Errorf("making a pipe for its output: %w", err)
	}
	defer func() { _ = read.Close() }()
	cmd.Stdout, cmd.Stderr = write, write
	guard, err := process.StartGuarded(cmd, p.grace)
	_ = write.Close()
	if err != nil {
		return exit{}, fmt.Errorf("starting %q: %w", p.line, err)
	}
	var result exit
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		readText(read, p.onText)
	}()
	process.AwaitGroup(ctx, cmd, p.grace)
	guard.Stop()
	if p.onEnd != nil {
		p.onEnd(cmd.Process.Pid, pipeName(read))
	}
	// What has left the group, too, may hold the pipe: it is not waited for.
	_ = read.SetReadDeadline(time.Now().Add(time.Second))
	<-drained
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	result.code = status.ExitStatus()
	if status.Signaled() {
		result.code, result.signal = 128+int(status.Signal()), signalName(status.Signal())
	}
	return result, nil
}

// pipeName is what /proc calls a pipe; empty where it cannot be told.
func pipeName(f *os.File) string {
	if info, err := f.Stat(); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			return fmt.Sprintf("pipe:[%d]", stat.Ino)
		}
	}
	return ""
}

// readText hands out what comes, up to the end of a line, until r ends, or its deadline passes. Each line but perhaps
// the last has its line end.
func readText(r io.Reader, onText func(string)) {
	buffer, kept := make([]byte, maxText), 0
	for {
		n, err := r.Read(buffer[kept:])
		n += kept
		cut := bytes.LastIndexByte(buffer[:n], '\n') + 1
		if err != nil || cut == 0 && n == len(buffer) {
			cut = n
		}
		if cut > 0 {
			onText(string(buffer[:cut]))
		}
		if err != nil {
			return
		}
		kept = copy(buffer, buffer[cut:n])
	}
}

// signalName is "KILL", or the number of a signal that has no name.
func signalName(s syscall.Signal) string {
	return cmp.Or(strings.TrimPrefix(unix.SignalName(s), "SIG"), strconv.Itoa(int(s)))
}
