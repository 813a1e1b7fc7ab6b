package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// retryPolicy says how often and when a call is repeated.
type retryPolicy struct {
	attempts int                       // 0: until success or the context ends
	delay    func(n int) time.Duration // pause after failure n (from 0)
	retryIf  func(error) bool          // nil: every error
	onRetry  func(error)
	lastOnly bool // report the last error alone, not the list of all
}

// attemptsError is the list of failures of a call that was given up.
type attemptsError []error

func (e attemptsError) Error() string {
	var b strings.Builder
	b.WriteString("All attempts fail:")
	for i, err := range e {
		fmt.Fprintf(&b, "\n#%d: %s", i+1, err)
	}
	return b.String()
}

func (e attemptsError) Unwrap() []error { return e }

// fixedDelay pauses the same time after every failure.
func fixedDelay(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

// backoff doubles the pause after every failure.
func backoff(base time.Duration) func(int) time.Duration {
	return func(n int) time.Duration { return base << min(n, 32) }
}

// jittered adds up to 100 ms to a doubling pause of 100 ms: the pause between
// listings of a storage, observed as 0.1 s to 25.7 s over ten attempts.
func jittered(n int) time.Duration {
	return backoff(100*time.Millisecond)(n) + rand.N(100*time.Millisecond)
}

// taskPolicy is how calls that start a task are repeated.
func taskPolicy(retryIf func(error) bool) retryPolicy {
	return retryPolicy{attempts: 3, delay: backoff(time.Second), retryIf: retryIf}
}

// pollPolicy asks once a second until the context ends.
func pollPolicy(retryIf func(error) bool) retryPolicy {
	return retryPolicy{delay: fixedDelay(time.Second), retryIf: retryIf, lastOnly: true}
}

func (p retryPolicy) do(ctx context.Context, fn func() error) error {
	var failed attemptsError
	for n := 0; ; n++ {
		err := fn()
		if err == nil {
			return nil
		}
		failed = append(failed, err)
		if p.retryIf != nil && !p.retryIf(err) {
			return p.result(failed)
		}
		if p.onRetry != nil {
			p.onRetry(err)
		}
		if p.attempts > 0 && n+1 >= p.attempts {
			return p.result(failed)
		}
		if err := pause(ctx, p.delay(n)); err != nil {
			if p.lastOnly {
				return err
			}
			return append(failed, err)
		}
	}
}

func (p retryPolicy) result(failed attemptsError) error {
	if p.lastOnly {
		return failed[len(failed)-1]
	}
	return failed
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// transient is true for every answer 5xx: also for "already exists", which is
// what makes the repeated create call adopt a foreign VM.
func transient(err error) bool {
	if he, ok := errors.AsType[*httpError](err); ok {
		return he.code >= 500
	}
	return contains("got no worker upid")(err) || contains("got timeout")(err)
}

func contains(s string) func(error) bool {
	return func(err error) bool { return err != nil && strings.Contains(err.Error(), s) }
}
