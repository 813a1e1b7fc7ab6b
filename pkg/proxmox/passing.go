package proxmox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits of further tries of what fails for a passing reason.
const (
	tries     = 4
	firstWait = 500 * time.Millisecond
)

// Limits of further tries of a request that only reads. The last is of all tries: an answer that takes longer than that is not
// waited for twice.
const (
	readTries     = 4
	firstReadWait = 250 * time.Millisecond
	readBudget    = 10 * time.Second
)

// hiccup reports whether the same question may be answered a moment later: the API server or a proxy before it did not reach what it
// had to ask, or the connection was refused or cut before the answer. A call whose own time was up is none: it has waited enough.
func hiccup(err error) bool {
	if call, ok := errors.AsType[*callError](err); ok && call.timedOut {
		return false
	}
	return errors.Is(err, ErrUnreachable)
}

// askedOften adds to an error how often the question was asked, if more than once.
func askedOften(err error, tries int) error {
	if tries == 1 {
		return err
	}
	return fmt.Errorf("%w (asked %d times)", err, tries)
}

// Passing tells whether err is an answer that a second try may change: a lock of PVE was not free in time, its daemon could
// not start a worker, or the API server did not reach the hypervisor (595, 596, 599). The texts were observed on PVE 8.4.
// An API that does not answer at all is not passing: then nothing is known of what was done.
func Passing(err error) bool {
	if api, ok := errors.AsType[*APIError](err); ok {
		return api.Status == 595 || api.Status == 596 || api.Status == 599 || passes(api.text())
	}
	if task, ok := errors.AsType[*TaskError](err); ok {
		return passes(task.ExitStatus)
	}
	return false
}

func passes(text string) bool {
	return strings.Contains(text, "can't lock file") && strings.Contains(text, "got timeout") ||
		strings.Contains(text, "got lock request timeout") ||
		strings.Contains(text, "got no worker upid") || strings.Contains(text, "start worker failed")
}

// persist does something that may be done twice, until it ends well, fails for good or was tried often enough.
func persist(ctx context.Context, do func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == tries || !Passing(err) {
			return err
		}
		if slept := sleep(ctx, wait); slept != nil {
			return errors.Join(slept, err)
		}
		wait *= 2
	}
}
