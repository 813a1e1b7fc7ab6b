// Package wait waits for what takes its time: in pauses that grow, for conditions that say why they do not hold yet.
package wait

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"time"
)

// Sleep waits for d, or until ctx ends. It returns ctx's cause once ctx has ended, else nil.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return context.Cause(ctx)
}

// Backoff is pauses between tries, each longer than the one before it. It is used by value: a copy of one that was not
// used yet begins anew. It is not safe for concurrent use.
type Backoff struct {
	// First is the first pause, and Max the longest. Max is First where it is less: then all pauses are alike.
	First, Max time.Duration
	// Factor is how much longer each pause is than the one before it; 0 is 2.
	Factor float64
	// Jitter, from 0 to 1, is the part of a pause by which it is longer or shorter at random, so that those who met
	// once do not meet again. Max may be exceeded by that.
	Jitter float64

	last time.Duration // without its jitter
}

// Next returns how long the next pause is.
func (b *Backoff) Next() time.Duration {
	next := time.Duration(float64(b.last) * cmp.Or(b.Factor, 2))
	b.last = min(max(next, b.First), max(b.First, b.Max))
	return b.last + time.Duration((2*rand.Float64()-1)*b.Jitter*float64(b.last))
}

// Sleep waits for the next pause, or until ctx ends, as the function Sleep does.
func (b *Backoff) Sleep(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Tries counts tries from 1, with a pause after each, until ctx ends. There is always a first one, even where ctx has
// ended already; a loop over them goes on below only when ctx has ended.
func (b Backoff) Tries(ctx context.Context) iter.Seq[int] {
	return func(yield func(int) bool) {
		for try := 1; yield(try) && b.Sleep(ctx) == nil; try++ {
		}
	}
}

// Condition is what is waited for, as it describes itself: Report is called whenever what is said of it is new. It is
// not safe for concurrent use.
type Condition struct {
	// Report is told what is waited for, and why it does not hold yet.
	Report func(what, why string)

	what, why string
}

// Pending says that the condition does not hold yet.
func (c *Condition) Pending(what, why string) {
	if what == c.what && why == c.why {
		return
	}
	c.what, c.why = what, why
	c.Report(what, why)
}
