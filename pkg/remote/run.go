package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

const (
	// After a command's end its output is complete when both streams end. Something left in the background may hold
	// them open: then the output is what came until nothing came for outputIdle, and outputLimit at most.
	outputIdle  = 500 * time.Millisecond
	outputLimit = 10 * time.Second
)

// Run runs cmd on the node and returns what it did. The error is an [*ExitError] for a status other than 0 or a signal,
// an [*UnfinishedError] where the end was not seen, and any other where it could not be started. When ctx ends or the
// deadline passes the command, with all that it has started, gets TERM and, after Config.Grace, KILL; Run returns at
// most that and three seconds later, whatever the node does. Where phase.Grace of ctx is short, so is that. The Result
// is filled as far as known in every case.
func (h *Host) Run(ctx context.Context, cmd Command) (Result, error) {
	start := time.Now()
	result, err := h.perform(ctx, cmd)
	exit, _ := errors.AsType[*ExitError](err)
	attrs := []slog.Attr{slog.String("command", cmd.short()), slog.Int("exit", result.ExitCode)}
	if err != nil && exit == nil { // its end was not seen
		attrs[1] = slog.String("error", err.Error())
	}
	h.tell(ctx, "ssh command", start, attrs...)
	return result, err
}

// tell logs what was done on the node since start.
func (h *Host) tell(ctx context.Context, what string, start time.Time, attrs ...slog.Attr) {
	attrs = append(
		[]slog.Attr{slog.String("node", h.node.Name), slog.Int64("ms", time.Since(start).Milliseconds())}, attrs...,
	)
	h.dialer.cfg.Log.LogAttrs(ctx, slog.LevelDebug, what, attrs...)
}

func (h *Host) perform(ctx context.Context, cmd Command) (Result, error) {
	result := Result{Node: h.node.Name}
	ready, err := cmd.render()
	if err != nil {
		return result, h.fail(err)
	}
	start := time.Now()
	limit := cmp.Or(cmd.Timeout, DefaultTimeout)
	ctx, cancel := context.WithTimeoutCause(
		ctx, limit, fmt.Errorf("it did not end within %s: %w", limit, context.DeadlineExceeded),
	)
	defer cancel()
	s, err := h.open(ctx)
	if err != nil {
		return result, h.fail(fmt.Errorf("starting %s: %w", cmd.short(), err))
	}
	defer s.close()
	mark := newMark()
	out := newOutput(cmp.Or(cmd.Keep, DefaultKeep), cmd.OnLine)
	out.from(announcement(mark))
	defer s.conn.guarded(mark, cmd.Lasts)() // before it begins: hive-test may be killed in between
	if err := s.exec(ctx, announced(marked(ready.line, mark), mark)); err != nil {
		return result, h.fail(fmt.Errorf("starting %s: %w", cmd.short(), err))
	}
	s.copyStdin(ready.stdin)
	out.collect(s.ch, s.ch.Stderr())
	cause := s.await(ctx, out, h.dialer.cfg.Grace, mark)
	if noise := out.finish(&result); noise != "" {
		h.dialer.cfg.Log.Debug(
			"the login shell prints text before commands", "node", h.node.Name, "text", progress.Clip(printable(noise), 200),
		)
	}
	result.Duration = time.Since(start)
	if status := s.exit(); status != nil {
		result.ExitCode, result.Signal = status.code, status.signal
	} else {
		result.ExitCode = -1
	}
	switch {
	case cause != nil:
		return result, &UnfinishedError{Node: result.Node, Command: cmd.short(), Result: result, Cause: cause}
	case result.ExitCode != 0:
		return result, &ExitError{Node: result.Node, Command: cmd.short(), Result: result}
	}
	return result, nil
}

// await returns when the command has ended and its output is there, or with the reason why it was given up.
func (s *session) await(ctx context.Context, out *output, grace time.Duration, mark string) error {
	select {
	case <-s.exited:
	case <-ctx.Done():
		s.terminate(min(grace, phase.Grace(ctx)/8), mark)
		out.settle(context.Background(), 100*time.Millisecond)
		return context.Cause(ctx)
	}
	if s.exit() != nil {
		out.settle(ctx, outputIdle)
		return nil
	}
	out.settle(ctx, outputIdle)
	select {
	case <-s.conn.lost:
		return s.conn.lostError()
	case <-time.After(50 * time.Millisecond): // the channel ends a moment before its connection is known to have
		return errors.New("command ended without an exit status")
	}
}

// settle waits for the rest of the output: both streams' ends, or a pause of idle.
func (o *output) settle(ctx context.Context, idle time.Duration) {
	deadline := time.After(outputLimit)
	for before := o.count(); ; {
		select {
		case <-o.done:
			return
		case <-ctx.Done():
			return
		case <-deadline:
			return
		case <-time.After(idle):
		}
		now := o.count()
		if now == before {
			return
		}
		before = now
	}
}
