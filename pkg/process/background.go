package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// readyFD is where a program in the background says that it is ready.
const readyFD = 3

// readyWord is what it says then; anything else is why it is not.
const readyWord = "ready"

// StartBackground starts a program in a session of its own, with all its output in a log, and waits until Ready was
// called there. It returns the program's process id. Its error is what was given to Ready. When ctx ends before, the program is told to end.
func StartBackground(ctx context.Context, cmd *exec.Cmd, log *os.File) (pid int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	line, _ := bufio.NewReader(r).ReadString('\n') // a pipe that ends says nothing
	switch line = strings.TrimSpace(line); line {
	case readyWord:
		pid = cmd.Process.Pid
		return pid, cmd.Process.Release()
	case "":
		line = "it ended without saying why"
	}
	_ = cmd.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return 0, errors.New(line)
}

// Ready tells who has started this program by StartBackground that it is ready, or why it is not, and returns that.
func Ready(err error) error {
	pipe := os.NewFile(readyFD, "ready")
	if pipe == nil {
		return err
	}
	text := readyWord
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", " ")
	}
	_, _ = fmt.Fprintln(pipe, text) // who is gone hears nothing
	_ = pipe.Close()
	return err
}
