package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"hive-test/pkg/wait"
)

// patience is how often something is tried, how long the first pause is, which doubles, and the time within which a
// further try may begin; 0 is no limit.
type patience struct {
	tries  int
	wait   time.Duration
	budget time.Duration
}

var (
	// forWrites is for what changes something and fails for a passing reason.
	forWrites = patience{tries: 4, wait: 500 * time.Millisecond}
	// forReads is for requests that only read: an answer that takes longer than the budget is not waited for twice.
	forReads = patience{tries: 4, wait: 250 * time.Millisecond, budget: 10 * time.Second}
)

// retry does something that may be done twice until it ends well, fails in a way that does not pass, or was tried often
// enough; it calls again, if it is set, before each further try. It returns how often it has tried.
func (p patience) retry(
	ctx context.Context, passing func(error) bool, again func(try int, after time.Duration), do func() error,
) (tries int, err error) {
	begun, pause := time.Now(), p.wait
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == p.tries || ctx.Err() != nil || !passing(err) ||
			p.budget > 0 && time.Since(begun)+pause > p.budget {
			return try, err
		}
		if again != nil {
			again(try+1, pause)
		}
		if slept := wait.Sleep(ctx, pause); slept != nil {
			return try, errors.Join(slept, err)
		}
		pause *= 2
	}
}

// hiccup reports whether the same question may be answered a moment later: the API server or a proxy before it did not
// reach what it had to ask, or the connection was refused or cut before the answer. A call whose own time was up is
// none: it has waited enough.
func hiccup(err error) bool {
	return errors.Is(err, ErrUnreachable) && !TimedOut(err)
}

// IsTransient tells whether err is an answer that a second try may change: a lock of PVE was not free in time, its
// daemon could not start a worker, or the API server did not reach the hypervisor (595, 596, 599). The texts were
// observed on PVE 8.4. An API that does not answer at all is not passing: then nothing is known of what was done.
func IsTransient(err error) bool {
	if api, ok := errors.AsType[*APIError](err); ok {
		return api.Status == 595 || api.Status == 596 || api.Status == 599 || transientText(api.text())
	}
	if task, ok := errors.AsType[*TaskError](err); ok {
		return transientText(task.ExitStatus)
	}
	return false
}

func transientText(text string) bool {
	return strings.Contains(text, "can't lock file") && strings.Contains(text, "got timeout") ||
		strings.Contains(text, "got lock request timeout") ||
		strings.Contains(text, "got no worker upid") || strings.Contains(text, "start worker failed")
}

// retry does something that may be done twice, until it ends well, fails for good or was tried often enough.
func retry(ctx context.Context, do func() error) error {
	_, err := forWrites.retry(ctx, IsTransient, nil, do)
	return err
}
