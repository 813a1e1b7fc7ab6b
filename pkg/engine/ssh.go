package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"hive-test/pkg/cluster"
)

// ShellRequest is what Shell is asked for.
type ShellRequest struct {
	Request
	Node           int      // its number
	Command        []string // empty: a login shell
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            bool // Stdin is a terminal, and the node gets one
}

// Shell runs a shell, or one command, on one node, with this process's streams, and returns its exit code.
func (e *Engine) Shell(ctx context.Context, request ShellRequest) (exit int, err error) {
	pick := func(nodes cluster.Nodes) (cluster.Nodes, error) {
		node, ok := nodes.ByIndex(request.Node)
		if !ok {
			return nil,
				usage(fmt.Errorf("cluster %q has no node %d: it has %d", request.Name, request.Node, len(nodes)))
		}
		return cluster.Nodes{node}, nil
	}
	err = e.onNodes(ctx, "ssh", request.Request, pick, func(ctx context.Context, r reached) error {
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
