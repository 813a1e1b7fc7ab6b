package stateserver

import "sync"

// busy keeps the requests of one process that change the same state in a row: what they would do against each other on the
// storage is slower. Safe for concurrent use.
type busy struct {
	mu    sync.Mutex
	locks map[string]*queue
}

type queue struct {
	mu      sync.Mutex
	waiting int
}

// lock waits for its turn with a state, and returns what ends it.
func (b *busy) lock(name string) func() {
	b.mu.Lock()
	if b.locks == nil {
		b.locks = map[string]*queue{}
	}
	q := b.locks[name]
	if q == nil {
		q = new(queue)
		b.locks[name] = q
	}
	q.waiting++
	b.mu.Unlock()
	q.mu.Lock()
	return func() {
		q.mu.Unlock()
		b.mu.Lock()
		defer b.mu.Unlock()
		if q.waiting--; q.waiting == 0 {
			delete(b.locks, name)
		}
	}
}

// mostParallel is how many objects are read at once for one request.
const mostParallel = 16

// inParallel calls do with 0 to n-1, several at a time, and returns when all have returned.
func inParallel(n int, do func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, mostParallel)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	all.Wait()
}
