package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// How often Wait looks: soon at first, for it may be about to happen.
const (
	waitFirst = 200 * time.Millisecond
	waitLimit = 2 * time.Second
)

// WaitRequest is what Wait is asked for.
type WaitRequest struct {
	Request
	OverSSH bool // wait only until every node answers over SSH
}

// Wait looks at a cluster until it is formed and every node is healthy, and returns the last look. Where its time is up
// first, which is the whole run's or else that of configure, the look comes with an Error of ExitUnhealthy; with any
// other error there is none. It takes no lock: it can wait for what another run configures.
func (e *Engine) Wait(ctx context.Context, request WaitRequest) (*Status, error) {
	limit, setting := request.Settings.Timeout, "--timeout"
	if limit <= 0 {
		limit, setting = request.Settings.Timeouts.Configure, "--timeout-configure"
	}
	request.Settings.Timeout = limit
	pauses := wait.Backoff{First: waitFirst, Max: waitLimit, Factor: 1.5}
	s, r, err := e.look(ctx, "wait", request.Request)
	if err != nil {
		return nil, err
	}
	defer s.close()
	sink := r.Sink
	r.Sink = once(sink)
	pending := wait.Condition{Report: func(what, why string) {
		sink.Emit(progress.Event{Kind: progress.Wait, Message: what, Error: why})
	}}
	var last *Status
	err = s.watch(ctx, r, pauses.Next, func(status Status) (bool, error) {
		last = &status
		if request.OverSSH {
			return answerSSH(status), nil
		}
		if !status.Formed {
			pending.Pending(healthyNodes(status), WithoutPorts(strings.Join(status.Reasons(), "; ")))
		}
		return status.Formed, nil
	})
	err = errors.Join(err, r.Close())
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, ErrGone):
		return nil, Error{ExitNotFound, err}
	case err == nil:
		return last, nil
	case last == nil || !errors.Is(err, context.DeadlineExceeded):
		return nil, err
	}
	what := "healthy"
	if request.OverSSH {
		what = "reached over SSH"
	}
	why := &UnhealthyError{
		Summary: fmt.Sprintf("cluster %s is not %s after %s (%s)", s.Name, what, progress.FormatLimit(limit), setting),
		Reasons: last.Reasons(),
	}
	return last, Error{ExitUnhealthy, progress.WithHint(why, waitHint(last))}
}

// UnhealthyError means that the time of Wait was up before the cluster was healthy.
type UnhealthyError struct {
	Summary string
	Reasons []string
}

// Error returns the summary and the reasons.
func (e *UnhealthyError) Error() string { return e.Summary + ":\n" + strings.Join(e.Reasons, "\n") }

// waitHint is what comes next, as the look that comes with it tells, too.
func waitHint(last *Status) string {
	if len(last.Next) > 0 {
		return strings.Join(last.Next, "\n")
	}
	return fmt.Sprintf("hive-test logs %s shows what its nodes say", last.Record.Name)
}

// answerSSH reports whether every node answers over SSH.
func answerSSH(status Status) bool {
	silent := func(n lifecycle.NodeStatus) bool { return n.SSH != "ok" }
	return len(status.Nodes) > 0 && !slices.ContainsFunc(status.Nodes, silent)
}

// healthyNodes says how many nodes are healthy.
func healthyNodes(status Status) string {
	count := 0
	for _, n := range status.Nodes {
		if n.Health.Healthy {
			count++
		}
	}
	return fmt.Sprintf("healthy: %d of %s", count, progress.Count(len(status.Nodes), "node"))
}
