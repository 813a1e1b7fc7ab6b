package api

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Times of a Heartbeat.
const (
	// AliveTime is how long a run counts as alive after it last said so.
	AliveTime = 3 * time.Minute
	// dropTime bounds the deletion of the lease at the end of a run.
	dropTime = 5 * time.Second
	// skewMatters is a difference of the clocks that a lease is written again for.
	skewMatters = AliveTime / 6
)

// HeartbeatOptions say whose life is told, and where.
type HeartbeatOptions struct {
	Pools Pools
	Lease RunLease // without Until
	// Alive is AliveTime if it is 0. The lease is refreshed three times in it.
	Alive time.Duration
	// Now is the clock of Proxmox VE, as far as it is known.
	Now func() time.Time
	// Warn is told once, of the first failure. It may be called from another goroutine until Stop has returned.
	Warn func(error)
	// Woke is told, once each time, that the process did nothing for longer than its lease lasted, and for how long: it
	// was suspended, or its machine was. Gone says that the lease was deleted meanwhile. It may be called as Warn is.
	Woke func(slept time.Duration, gone bool)
}

// Heartbeat keeps the lease of a run alive until Stop. That it cannot never fails the run. Its methods may be called
// from several goroutines.
type Heartbeat struct {
	options HeartbeatOptions
	cancel  context.CancelFunc
	poke    chan struct{}
	tried   chan struct{} // closed after the first try
	done    chan struct{} // closed at the end of the loop
	first   error         // of the first try; read after tried

	mu     sync.Mutex
	lease  RunLease
	warned bool
}

// StartHeartbeat begins to make the lease and to keep it alive, and returns at once. The lease is not bound to ctx's
// end.
func StartHeartbeat(ctx context.Context, o HeartbeatOptions) *Heartbeat {
	if o.Alive <= 0 {
		o.Alive = AliveTime
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Heartbeat{
		options: o, lease: o.Lease, poke: make(chan struct{}, 1), tried: make(chan struct{}), done: make(chan struct{}),
	}
	ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go h.loop(ctx)
	return h
}

// Wait waits for the first try to make the lease and returns its error: ErrForbidden if the token may not make pools.
func (h *Heartbeat) Wait(ctx context.Context) error {
	select {
	case <-h.tried:
		return h.first
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Update changes what the lease says, soon.
func (h *Heartbeat) Update(change func(*RunLease)) {
	h.mu.Lock()
	change(&h.lease)
	h.mu.Unlock()
	select {
	case h.poke <- struct{}{}:
	default: // it is about to be written anyway
	}
}

// Stop ends the beating. The lease is deleted, unless keep says that it shall tell of what is left undone: then it says
// the last that is known, and that the run is over.
func (h *Heartbeat) Stop(ctx context.Context, keep bool) {
	h.cancel()
	<-h.done
	if errors.Is(h.first, ErrForbidden) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	var err error
	if keep {
		err = h.beat(ctx, 0)
	} else {
		err = DropRunLease(ctx, h.options.Pools, h.options.Lease.OwnerID)
	}
	if err != nil {
		h.warn(err)
	}
}

func (h *Heartbeat) loop(ctx context.Context) {
	defer close(h.done)
	before := h.offset()
	h.first = h.beat(ctx, h.options.Alive)
	close(h.tried)
	if errors.Is(h.first, ErrForbidden) {
		return
	}
	if h.first != nil {
		h.warn(h.first)
	}
	if (h.offset() - before).Abs() > skewMatters { // the first answer has told the time
		_ = h.beat(ctx, h.options.Alive) // the next beat comes soon enough to tell
	}
	ticker := time.NewTicker(h.options.Alive / 3)
	defer ticker.Stop()
	for {
		asleep := h.wall()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-h.poke:
		}
		if slept := h.wall().Sub(asleep); slept > h.options.Alive {
			h.woke(ctx, slept)
		}
		if err := h.beat(ctx, h.options.Alive); err != nil && ctx.Err() == nil {
			h.warn(err)
		}
	}
}

// offset is by how much the clock of Proxmox VE is known to be ahead.
func (h *Heartbeat) offset() time.Duration { return time.Until(h.options.Now()) }

// wall is the time by the clock on the wall: the other clock of a process stands still while its machine sleeps.
func (h *Heartbeat) wall() time.Time { return h.options.Now().Round(0) }

// woke tells of a sleep, before the lease is made again.
func (h *Heartbeat) woke(ctx context.Context, slept time.Duration) {
	if h.options.Woke == nil {
		return
	}
	_, err := h.options.Pools.ReadPool(ctx, h.options.Lease.Pool())
	h.options.Woke(slept, errors.Is(err, ErrNotFound))
}

// beat says that the run lives for so long. A lease that is there already is this run's, or that of one before it that
// died.
func (h *Heartbeat) beat(ctx context.Context, alive time.Duration) error {
	h.mu.Lock()
	run := h.lease
	h.mu.Unlock()
	comment := func(until time.Time) string {
		run.Until = until
		return run.comment()
	}
	lease := leaser{pools: h.options.Pools, now: h.options.Now, name: run.Pool(), comment: comment}
	select {
	case <-h.tried:
		if err := lease.renew(ctx, alive); !errors.Is(err, ErrNotFound) {
			return err
		}
	default:
	}
	err := lease.acquire(ctx, alive)
	if errors.Is(err, ErrExists) {
		err = lease.renew(ctx, alive)
	}
	return err
}

func (h *Heartbeat) warn(err error) {
	h.mu.Lock()
	first := !h.warned
	h.warned = true
	h.mu.Unlock()
	if first && h.options.Warn != nil {
		h.options.Warn(err)
	}
}
