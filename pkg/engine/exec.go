package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hive-test/pkg/remote"
)

// ExecRequest is what Exec is asked for.
type ExecRequest struct {
	Request
	Nodes   string   // like 1,3; empty: all
	Command []string // a program and its arguments
}

// Exec runs one command on nodes of a cluster, all at once, each for Settings.Timeout at most (0:
// remote.DefaultTimeout). A node that could not be reached is an error; one where the command failed gives the error's
// exit code. What each node has said is returned with the error, too.
func (e *Engine) Exec(ctx context.Context, request ExecRequest) (results []NodeResult, err error) {
	err = e.onNodes(ctx, "exec", request.Request, listed(request.Nodes), func(ctx context.Context, r reached) error {
		results, err = execOn(ctx, r, request.Command, request.Settings.Timeout)
		return err
	})
	return results, err
}

// NodeResult is what a command did on a node.
type NodeResult struct {
	Name     string  `json:"name"`
	ExitCode int     `json:"exit_code"`
	Signal   string  `json:"signal"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	Seconds  float64 `json:"seconds"`
	Error    string  `json:"error,omitempty"`
}

// execOn runs the command everywhere but where a node was not reached.
func execOn(ctx context.Context, r reached, command []string, limit time.Duration) ([]NodeResult, error) {
	group, nodes := r.group, make([]NodeResult, len(r.group))
	var unreachable []error
	code := ExitOK
	results := make([]remote.Result, len(group))
	failures := slices.Clone(r.unreached)
	_ = group.Each(ctx, func(ctx context.Context, host *remote.Host) error { // each node's error is kept in its place
		i := slices.Index(group, host)
		if failures[i] != nil {
			return failures[i]
		}
		results[i], failures[i] = host.Run(ctx, remote.Command{Argv: command, Timeout: limit})
		return failures[i]
	})
	for i, host := range group {
		result := results[i]
		nodes[i] = NodeResult{
			Name: host.Name(), ExitCode: result.ExitCode, Signal: result.Signal,
			Stdout: string(result.Stdout), Stderr: string(result.Stderr), Seconds: result.Duration.Seconds(),
		}
		if result.Truncated {
			cut := fmt.Errorf(
				"%s: it has printed more than the %d MiB that are kept: send it to a file there, and get that with cp",
				host.Name(), remote.DefaultKeep>>20,
			)
			nodes[i].Error, unreachable = cut.Error(), append(unreachable, cut)
			continue
		}
		if failures[i] == nil {
			continue
		}
		if exit, ok := errors.AsType[*remote.ExitError](failures[i]); ok {
			if code == ExitOK {
				code = ExitCode(max(exit.Result.ExitCode, 1))
			}
			continue
		}
		nodes[i].ExitCode, nodes[i].Error = -1, failures[i].Error()
		unreachable = append(unreachable, failures[i])
	}
	if len(unreachable) > 0 {
		return nodes, errors.Join(unreachable...)
	}
	if code != ExitOK {
		return nodes, Error{Code: code}
	}
	return nodes, nil
}
