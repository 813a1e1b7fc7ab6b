package store

import (
	"context"
	"sync"
	"time"
)

type requestKey struct{}

// request knows which buckets were brought up to date since it began, and when.
type request struct {
	mu    sync.Mutex
	asked map[*bucket]time.Time
}

// lateAt is how old what a request reads may be: one that meets many others may take its time.
const lateAt = time.Second

// current brings the copy of a bucket to where the bucket is now, or was when the request of ctx first read it.
func (b *bucket) current(ctx context.Context) error {
	if b.upToDate(ctx) {
		return nil
	}
	asked := time.Now()
	if err := b.fresh(ctx); err != nil {
		return err
	}
	if r, _ := ctx.Value(requestKey{}).(*request); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked[b] = asked
	}
	return nil
}

// upToDate reports whether current has nothing to do.
func (b *bucket) upToDate(ctx context.Context) bool {
	if b.alone {
		return true
	}
	r, _ := ctx.Value(requestKey{}).(*request)
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	asked, there := r.asked[b]
	return there && time.Since(asked) < lateAt
}
