package progress

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"time"
)

// A wait that changes often is shown this often at most; one that does not change is shown again after waitReminder,
// so that a CI log shows that the run lives.
const (
	waitInterval = 3 * time.Second
	waitReminder = time.Minute
	// patience is how long a step, or a wait, must last before its beginning is worth a line of its own.
	patience = time.Second
)

// Plain returns a Renderer that writes whole lines and nothing else, for pipes and log files. Waits are shown when
// they change, at most every few seconds each.
func Plain(w io.Writer, o Options) Renderer { return newPlain(w, o) }

type plain struct {
	mu     sync.Mutex
	w      io.Writer
	lines  *lines
	waits  map[waitKey]*waitState
	starts []*start // of steps that have only just begun, oldest first
	closed bool
	err    error
	// dress turns the text for an event into what is written; nil leaves it as it is.
	dress func(e Event, text string) string
}

func newPlain(w io.Writer, o Options) *plain {
	return &plain{w: w, lines: newLines(o), waits: map[waitKey]*waitState{}}
}

// A waitKey tells waits apart; within it, a new text replaces the old one.
type waitKey struct{ phase, step, node string }

type waitState struct {
	began   time.Time
	shown   string
	shownAt time.Time
	latest  string
	timer   *time.Timer // shows latest when waitInterval has passed; nil if nothing is pending
}

func (p *plain) Emit(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case Wait:
		p.wait(e)
		return
	case StepStart:
		p.begin(e)
		return
	case StepEnd:
		p.ended(waitKey{e.Phase, e.Step, e.Node})
		p.forget(func(k waitKey) bool { return k.step == e.Step && (e.Node == "" || k.node == e.Node) })
	case PhaseEnd, RunEnd:
		p.forget(func(waitKey) bool { return true })
	}
	p.print(e, p.lines.text(e))
}

func (p *plain) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(func(waitKey) bool { return true })
	for _, s := range p.starts {
		s.timer.Stop()
	}
	p.starts, p.closed = nil, true
	return p.err
}

// start is the line of a step's beginning, held back: the step may end so soon that its end says everything.
type start struct {
	key   waitKey
	event Event
	text  string
	timer *time.Timer
}

func (p *plain) begin(e Event) {
	s := &start{key: waitKey{e.Phase, e.Step, e.Node}, event: e, text: p.lines.text(e)}
	if s.text == "" || p.closed {
		return
	}
	s.timer = time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if slices.Contains(p.starts, s) { // else it was shown, or dropped, while this waited for the lock
			p.flush()
		}
	})
	p.starts = append(p.starts, s)
}

// ended drops the held line of a step that is over.
func (p *plain) ended(key waitKey) {
	p.starts = slices.DeleteFunc(p.starts, func(s *start) bool {
		if s.key == key {
			s.timer.Stop()
		}
		return s.key == key
	})
}

// flush writes the held lines, so that what happens within a step stands below its beginning.
func (p *plain) flush() {
	held := p.starts
	p.starts = nil
	for _, s := range held {
		s.timer.Stop()
		p.print(s.event, s.text)
	}
}

func (p *plain) print(e Event, text string) {
	if p.dress != nil {
		text = p.dress(e, text)
	}
	if text == "" {
		return
	}
	p.flush()
	_, err := io.WriteString(p.w, text)
	p.err = cmp.Or(p.err, err)
}

func (p *plain) wait(e Event) {
	if !p.lines.Verbosity.shows(Wait) || p.closed {
		return
	}
	key := waitKey{e.Phase, e.Step, e.Node}
	text := waitText(e)
	if e.Status != "" || text == "" {
		p.forget(func(k waitKey) bool { return k == key })
		return
	}
	state := p.waits[key]
	now := time.Now()
	if state == nil {
		state = &waitState{began: now}
		p.waits[key] = state
	}
	state.latest = text
	if text == state.shown && now.Sub(state.shownAt) < waitReminder {
		state.stop() // it changed and changed back
		return
	}
	rest := waitInterval - now.Sub(state.shownAt)
	if state.shown == "" {
		rest = patience - now.Sub(state.began)
	}
	if rest > 0 {
		p.showLater(e, state, rest)
		return
	}
	p.show(e, state, now)
}

func (p *plain) showLater(e Event, state *waitState, rest time.Duration) {
	if state.timer != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(rest, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if state.timer == timer { // else it was stopped while this waited for the lock
			p.show(e, state, time.Now())
		}
	})
	state.timer = timer
}

func (p *plain) show(e Event, state *waitState, now time.Time) {
	state.stop()
	suffix := ""
	if state.latest == state.shown {
		suffix = " [" + FormatSeconds(now.Sub(state.began).Seconds()) + " so far]"
	}
	state.shown, state.shownAt = state.latest, now
	p.print(e, "  "+p.lines.paint(Dim, "… "+state.latest+suffix)+"\n")
}

func (s *waitState) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

func (p *plain) forget(which func(waitKey) bool) {
	for key, state := range p.waits {
		if which(key) {
			state.stop()
			delete(p.waits, key)
		}
	}
}
