package proxmox

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Limits of further tries of what fails for a passing reason.
const (
	tries     = 4
	firstWait = 500 * time.Millisecond
)

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
