package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"hive-test/pkg/progress"
)

// usualEditor is there on every system.
const usualEditor = "vi"

// editorGrace is how long an editor has to end when it is told to.
const editorGrace = 2 * time.Second

// runEditor runs the user's editor on a file, on the user's terminal, and returns when it has ended. When ctx ends, it is
// ended, too.
func (a *app) runEditor(ctx context.Context, path string) error {
	words := strings.Fields(cmp.Or(a.Getenv("VISUAL"), a.Getenv("EDITOR"), usualEditor))
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = a.Stdin, a.Stderr, a.Stderr, a.Environ
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = editorGrace
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return progress.WithHint(fmt.Errorf("the editor %s is not installed", words[0]), "install it, or name another: EDITOR=nano")
	case err != nil:
		return fmt.Errorf("the editor %s failed: %w", words[0], err)
	}
	return nil
}
