package phase

import (
	"context"
	"time"
)

// DefaultGrace is how long a phase may take to return after its context has ended, where its limit does not make that
// less. It is longer than the minute that tofu gets between SIGINT and SIGKILL: evidence is gathered after it.
const DefaultGrace = 2 * time.Minute

// graceShare is the part of a limit that is kept for stopping: one in so many.
const graceShare = 4

type graceKey struct{}

// Limited returns ctx with a limit that holds with all that ending takes: the new context ends, with cause, when what
// is left of the limit is its Grace, a quarter of the limit and at most DefaultGrace. No limit (0) is none. A limit of
// a parent that comes first stays.
func Limited(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	return limited(ctx, limit, DefaultGrace, cause)
}

func limited(ctx context.Context, limit, most time.Duration, cause error) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(context.WithValue(ctx, graceKey{}, most))
	}
	grace := graceOf(limit, most)
	return context.WithTimeoutCause(context.WithValue(ctx, graceKey{}, grace), limit-grace, cause)
}

func graceOf(limit, most time.Duration) time.Duration { return min(most, limit/graceShare) }

// Grace is how long what runs under ctx may take to return after ctx has ended.
func Grace(ctx context.Context) time.Duration {
	if grace, ok := ctx.Value(graceKey{}).(time.Duration); ok {
		return grace
	}
	return DefaultGrace
}

// Part returns a context for a part of what ctx limits: it has ended, with its own Grace, when keep of ctx's time is
// left, or one in share of it if that is less. Where ctx has no limit, neither has the part.
func Part(ctx context.Context, keep time.Duration, share int, cause error) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	return limited(ctx, max(left-min(keep, left/time.Duration(share)), 1), Grace(ctx), cause)
}

// After returns a context for what is done once ctx may have ended, such as looking at what remains: it keeps ctx's
// values, lasts for limit at most, and ends before what runs under ctx is given up.
func After(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		grace := Grace(ctx)
		limit = min(limit, time.Until(deadline.Add(grace-grace/4))) // the rest is for what does not stop at once
	}
	return context.WithTimeoutCause(context.WithoutCancel(ctx), limit, cause)
}
