package opentofu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

const (
	// tries is how often one step is done at most. What was done stays done: each try has less to do.
	tries = 5
	// firstPause is the pause after the first try; it doubles, up to lastPause.
	firstPause = time.Second
	lastPause  = 10 * time.Second
)

// Retry does something until it ends well, fails with an error that does not pass by itself or was tried often enough,
// and tells of every further try.
func (r *Runner) Retry(ctx context.Context, passes func(error) bool, do func() error) error {
	pauses := wait.Backoff{First: cmp.Or(r.options.Pause, firstPause), Max: lastPause}
	for try := 2; ; try++ {
		err := do()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		if try > tries {
			return fmt.Errorf("after %d tries: %w", tries, err)
		}
		// Two runs that met on one lock must not meet again.
		pause := pauses.Next()
		pause += rand.N(pause/2 + 1)
		progress.Warnf(r.options.Sink, "%v; that passes: trying again in %s (try %d of %d)",
			err, pause.Round(100*time.Millisecond), try, tries)
		if ended := wait.Sleep(ctx, pause); ended != nil {
			return errors.Join(ended, err)
		}
	}
}
