package engine

import (
	"context"
	"errors"
	"io"
)

// ShellRequest is what Shell is asked for.
type ShellRequest struct {
	Request
	Node           string   // its number or name
	Command        []string // empty: a login shell
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            bool // Stdin is a terminal, and the node gets one
}

// Shell runs a shell, or one command, on one node, with this process's streams, and returns its exit code.
func (e *Engine) Shell(ctx context.Context, request ShellRequest) (exit int, err error) {
	err = e.onNodes(ctx, "ssh", request.Request, one(request.Node), func(ctx context.Context, r reached) error {
		if err := errors.Join(r.unreached...); err != nil {
			return err
		}
		var err error
		exit, err = r.group[0].Interactive(
			ctx, request.Command, request.Stdin, request.Stdout, request.Stderr, request.TTY,
		)
		return err
	})
	return exit, err
}
