package remote

import (
	"bytes"
	"io"
	"sync"
)

const (
	maxKept = 64 << 20 // bytes of each stream
	maxLine = 64 << 10 // bytes; longer lines are handed out in pieces
)

// output keeps both streams of a command and hands out their lines.
type output struct {
	onLine func(stream, line string)

	mu        sync.Mutex
	finished  bool
	received  int
	truncated bool
	streams   [2]stream
	readers   sync.WaitGroup
	done      chan struct{} // both streams have ended
}

type stream struct {
	name    string
	kept    []byte
	pending []byte
}

func newOutput(onLine func(stream, line string)) *output {
	o := &output{onLine: onLine, done: make(chan struct{})}
	o.streams[0].name, o.streams[1].name = "stdout", "stderr"
	return o
}

// collect reads both streams to their ends.
func (o *output) collect(stdout, stderr io.Reader) {
	for i, r := range []io.Reader{stdout, stderr} {
		o.readers.Go(func() { _, _ = io.Copy(writerFunc(func(p []byte) { o.write(i, p) }), r) })
	}
	go func() {
		o.readers.Wait()
		close(o.done)
	}()
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func (o *output) write(i int, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finished {
		return
	}
	o.received += len(p)
	s := &o.streams[i]
	keep := p[:min(len(p), maxKept-len(s.kept))]
	s.kept = append(s.kept, keep...)
	o.truncated = o.truncated || len(keep) < len(p)
	if o.onLine != nil {
		s.pending = append(s.pending, p...)
		o.lines(s)
	}
}

func (o *output) lines(s *stream) {
	rest := s.pending
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 && len(rest) < maxLine {
			break
		}
		next := end + 1
		if end < 0 || end > maxLine {
			end, next = maxLine, maxLine
		}
		o.onLine(s.name, string(bytes.TrimSuffix(rest[:end], []byte("\r"))))
		rest = rest[next:]
	}
	s.pending = append(s.pending[:0], rest...)
}

func (o *output) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.received
}

// finish hands out what has no line end yet and fills r. What comes later is dropped.
func (o *output) finish(r *Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.streams {
		if s := &o.streams[i]; len(s.pending) > 0 && !o.finished {
			o.onLine(s.name, string(s.pending))
		}
	}
	o.finished = true
	r.Stdout, r.Stderr, r.Truncated = o.streams[0].kept, o.streams[1].kept, o.truncated
}
