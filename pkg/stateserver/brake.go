package stateserver

import (
	"sync"
	"time"
)

// brake slows down who tries passwords. Each key has some attempts, which come back with time; an attempt that was right gives
// its own back. Nobody is locked out: who waits may try again. Safe for concurrent use.
type brake struct {
	most  float64 // attempts at once
	every float64 // attempts that come back each second
	now   func() time.Time

	mu   sync.Mutex
	left map[string]allowance
}

type allowance struct {
	attempts float64
	at       time.Time
}

// mostBraked is how many keys are remembered. Those that have all their attempts need not be; beyond that, any is forgotten.
const mostBraked = 20000

func newBrake(most, every float64, now func() time.Time) *brake {
	return &brake{most: most, every: every, now: now, left: map[string]allowance{}}
}

// take takes an attempt, if there is one left.
func (b *brake) take(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.current(key)
	if a.attempts < 1 {
		return false
	}
	a.attempts--
	if _, there := b.left[key]; !there && len(b.left) >= mostBraked {
		b.forget()
	}
	b.left[key] = a
	return true
}

// giveBack gives an attempt back.
func (b *brake) giveBack(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.current(key)
	a.attempts = min(a.attempts+1, b.most)
	b.left[key] = a
}

// current is what a key has left now. A clock that goes back gives nothing.
func (b *brake) current(key string) allowance {
	now := b.now()
	a, there := b.left[key]
	if !there {
		return allowance{attempts: b.most, at: now}
	}
	if passed := now.Sub(a.at).Seconds(); passed > 0 {
		a.attempts = min(a.attempts+passed*b.every, b.most)
	}
	a.at = now
	return a
}

// forget makes room: those that have everything, or else any.
func (b *brake) forget() {
	for key := range b.left {
		if b.current(key).attempts >= b.most {
			delete(b.left, key)
		}
	}
	for key := range b.left {
		if len(b.left) < mostBraked {
			return
		}
		delete(b.left, key)
	}
}
