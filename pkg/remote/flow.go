package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/pkg/sftp"
)

// What a node may make of a copy, however broken or hostile it is.
const (
	maxListing = 32 << 20 // bytes of the list of one directory, some 200,000 names
	maxDepth   = 100      // directories in each other
	maxEntries = 1 << 20  // files and directories of one copy
	maxGrowth  = 64 << 20 // bytes that a file may grow by while it is copied, as a log does
)

// files is an SFTP client with what is known of the bytes that come.
type files struct {
	*sftp.Client
	flow *flow
}

// list is ReadDir that ends where the list does not.
func (f files) list(dir string) ([]fs.FileInfo, error) {
	f.flow.limit(maxListing)
	entries, err := f.ReadDir(dir)
	f.flow.limit(0)
	return entries, f.flow.explain(err)
}

// flow watches what a node sends: that it does not stop, and that one answer does not go on for ever.
type flow struct {
	from io.Reader

	mu      sync.Mutex
	last    time.Time // when something came, or nothing was asked for
	pauses  int       // things under way for which nothing needs to come
	bounded bool
	left    int // bytes that may still come where they are bounded
	failure error
}

func newFlow(from io.Reader) *flow { return &flow{from: from, last: time.Now()} }

func (f *flow) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = time.Now()
	if f.left -= n; f.bounded && f.left < 0 {
		f.failure = fmt.Errorf("the node's list of one directory is longer than %d MiB", maxListing>>20)
		return 0, f.failure
	}
	return n, err
}

// limit bounds the bytes that come from now on; 0: not any more.
func (f *flow) limit(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bounded, f.left = bytes > 0, bytes
}

// pause says that nothing needs to come until the returned function is called.
func (f *flow) pause() (resume func()) {
	f.count(1)
	return func() { f.count(-1) }
}

func (f *flow) count(pauses int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pauses, f.last = f.pauses+pauses, time.Now()
}

// silence is for how long nothing has come that should.
func (f *flow) silence() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pauses > 0 {
		return 0
	}
	return time.Since(f.last)
}

// watch ends a transfer through cancel once nothing has come for so long; stop ends the watch.
func (f *flow) watch(limit time.Duration, cancel context.CancelCauseFunc) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(max(limit/8, time.Millisecond))
		defer tick.Stop()
		for f.silence() < limit {
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
		cancel(fmt.Errorf("the node has said nothing for %s: %w", limit, context.DeadlineExceeded))
	}()
	return func() { close(done) }
}

// explain is err, or why the flow was ended where that is what it comes of.
func (f *flow) explain(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.failure != nil {
		return f.failure
	}
	return err
}

// ended reports whether nothing can come any more because too much came.
func (f *flow) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure != nil
}

// errGrows means that there is no end of a file to be seen.
var errGrows = errors.New("it grows faster than it can be copied")

// bounded is a writer that takes only so many bytes. While it writes them, the node is not waited for.
type bounded struct {
	to   io.Writer
	left int64
	flow *flow
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errGrows
	}
	defer b.flow.pause()()
	return b.to.Write(p)
}
