package process

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// AwaitGroup waits for a command that leads a process group, as StartGuarded starts it, and returns when it and its group are gone.
// When ctx ends the group gets INT and, after the grace, KILL; what is left of it when the command has ended gets KILL. How the command
// has ended is in its ProcessState.
func AwaitGroup(ctx context.Context, cmd *exec.Cmd, grace time.Duration) {
	group := cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state is read afterwards
	}()
	select {
	case <-ended:
		killGroup(group)
		return
	case <-ctx.Done():
	}
	_ = syscall.Kill(-group, syscall.SIGINT)
	patience := time.After(grace)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-patience:
			killGroup(group)
			<-ended
			return
		case <-poll.C:
		}
		// The command itself may be gone while what it started still cleans up.
		if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
			<-ended
			return
		}
	}
}

func killGroup(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) }
