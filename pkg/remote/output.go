package remote

import (
	"bytes"
	"io"
	"sync"
)

// DefaultKeep is how many bytes of each stream of a command are kept where it does not say.
const DefaultKeep = 4 << 20

const maxLine = 64 << 10 // bytes; longer lines are handed out in pieces

// output keeps both streams of a command and hands out their lines.
type output struct {
	onLine func(stream, line string)
	keeps  int // bytes of each stream

	mu        sync.Mutex
	finished  bool
	received  int
	truncated bool
	streams   [2]stream
	announced []byte        // what stands before a command's own standard output; empty: nothing, or it has come
	noise     []byte        // what came before that
	done      chan struct{} // both streams have ended
}

type stream struct {
	name    string
	kept    []byte
	pending []byte
}

func newOutput(keeps int, onLine func(stream, line string)) *output {
	o := &output{onLine: onLine, keeps: keeps, done: make(chan struct{})}
	o.streams[0].name, o.streams[1].name = "stdout", "stderr"
	return o
}

// maxNoise bounds what a login shell may print before a command.
const maxNoise = 1 << 20 // bytes

// from takes standard output for the command's own only after mark. Where that never comes, all of it is.
func (o *output) from(mark string) { o.announced = []byte(mark) }

// own is what of p is the command's output.
func (o *output) own(p []byte) []byte {
	if len(o.announced) == 0 {
		return p
	}
	o.noise = append(o.noise, p...)
	if noise, rest, found := bytes.Cut(o.noise, o.announced); found {
		o.noise, o.announced = noise, nil
		return rest
	}
	if len(o.noise) > maxNoise {
		return o.unannounced()
	}
	return nil
}

// unannounced gives up waiting for the mark: what came is the output.
func (o *output) unannounced() []byte {
	all := o.noise
	o.noise, o.announced = nil, nil
	return all
}

// collect reads both streams to their ends.
func (o *output) collect(stdout, stderr io.Reader) {
	o.read(stdout, stderr, func(i int, r io.Reader) {
		_, _ = io.Copy(writerFunc(func(p []byte) { o.write(i, p) }), r)
	})
}

// read has both streams read at once, and is done when they are.
func (o *output) read(stdout, stderr io.Reader, read func(i int, r io.Reader)) {
	var readers sync.WaitGroup
	for i, r := range []io.Reader{stdout, stderr} {
		readers.Go(func() { read(i, r) })
	}
	go func() {
		readers.Wait()
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
	if i == 0 {
		p = o.own(p)
	}
	o.keep(i, p)
}

func (o *output) keep(i int, p []byte) {
	s := &o.streams[i]
	keep := p[:min(len(p), o.keeps-len(s.kept))]
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

// finish hands out what has no line end yet and fills r. What comes later is dropped. It returns what the login shell
// has printed before the command.
func (o *output) finish(r *Result) (noise string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.announced) > 0 {
		o.keep(0, o.unannounced())
	}
	for i := range o.streams {
		if s := &o.streams[i]; len(s.pending) > 0 && !o.finished {
			o.onLine(s.name, string(s.pending))
		}
	}
	o.finished = true
	r.Stdout, r.Stderr, r.Truncated = o.streams[0].kept, o.streams[1].kept, o.truncated
	return string(o.noise)
}
