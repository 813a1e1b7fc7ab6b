package progress

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// The live view is at most this many lines under its head.
const maxLive = 12

// Terminal returns a Renderer for people at a terminal: lines as Plain writes them, and below them, from the start of a
// run to its end, a live view of what runs, for how long, and what it waits for. Lines go above the view and never tear
// it. Outside a run the terminal is others': a shell on a node, a question, a table that is printed. Where w is no
// terminal it returns Plain. Auto decides for the caller, NO_COLOR and TERM=dumb included.
func Terminal(w io.Writer, o Options) Renderer {
	if !isTerminal(w) || o.Verbosity < Normal {
		return Plain(w, o)
	}
	return newTerminal(w, o)
}

func newTerminal(w io.Writer, o Options, more ...mpb.ContainerOption) *terminal {
	return &terminal{
		w: w, lines: newLines(o), live: live{began: time.Now()},
		options: append([]mpb.ContainerOption{mpb.WithOutput(w)}, more...),
	}
}

// terminal draws through mpb, which keeps cursor, width and refresh. Emit never holds mu while it talks to mpb: mpb
// draws on a goroutine of its own that takes mu.
type terminal struct {
	order sync.Mutex // keeps lines in the order of their events
	w     io.Writer
	lines *lines
	ended bool
	err   error

	options []mpb.ContainerOption
	bars    *mpb.Progress // nil: there is no view
	bar     *mpb.Bar

	mu   sync.Mutex
	live live
}

func (t *terminal) Emit(e Event) {
	t.order.Lock()
	defer t.order.Unlock()
	t.mu.Lock()
	t.live.apply(e, time.Now())
	t.mu.Unlock()
	if e.Kind == RunStart && t.bars == nil && !t.ended {
		t.begin()
	}
	t.line(e)
	if e.Kind == RunEnd {
		t.end()
	}
}

// begin puts the live view on the screen.
func (t *terminal) begin() {
	t.bars = mpb.New(t.options...)
	t.bar = t.bars.New(0, mpb.NopStyle(),
		mpb.BarFillerMiddleware(func(mpb.BarFiller) mpb.BarFiller { return t.head() }),
		mpb.BarFillerTrim(),
		mpb.BarBtmExtender(t.rows()...))
}

// end takes it off the screen.
func (t *terminal) end() {
	if t.bars == nil {
		return
	}
	t.bar.Abort(true)
	t.bars.Wait()
	if t.err == nil {
		t.err = t.bars.Error
	}
	t.bars = nil
}

func (t *terminal) line(e Event) {
	text := t.lines.text(e)
	if text == "" || e.Kind == StepStart && t.bars != nil { // a step is in the live view until it ends
		return
	}
	if t.bars != nil {
		if _, err := io.WriteString(t.bars, text); err == nil {
			return
		}
		t.end() // mpb has ended, because the terminal is gone
	}
	if _, err := io.WriteString(t.w, text); err != nil && t.err == nil {
		t.err = err
	}
}

func (t *terminal) Close() error {
	t.order.Lock()
	defer t.order.Unlock()
	t.ended = true
	t.end()
	return t.err
}

func (t *terminal) head() mpb.BarFiller {
	return mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
		t.mu.Lock()
		line := t.live.headline(time.Now())
		t.mu.Unlock()
		_, err := io.WriteString(w, t.lines.paint(Bold, fit(line, s.AvailableWidth)))
		return err
	})
}

// rows returns one filler a line; a filler that writes nothing takes no line.
func (t *terminal) rows() []mpb.BarFiller {
	fillers := make([]mpb.BarFiller, maxLive)
	for i := range fillers {
		fillers[i] = mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			t.mu.Lock()
			all := t.live.below(time.Now())
			t.mu.Unlock()
			if i >= len(all) || s.Aborted {
				return nil
			}
			_, err := io.WriteString(w, fit(all[i], s.AvailableWidth)+"\n")
			return err
		})
	}
	return fillers
}

// live is what runs now.
type live struct {
	title string
	began time.Time
	phase string
	since time.Time // of the phase
	steps []liveLine
	waits []liveLine
}

// liveLine is a step, or what is waited for in it.
type liveLine struct {
	step, node, text string
	began            time.Time
}

func (l *live) apply(e Event, now time.Time) {
	switch e.Kind {
	case RunStart:
		l.title, l.began = strings.TrimSpace(OneLine(e.Verb)+" "+OneLine(e.Cluster)), now
	case PhaseStart:
		l.phase, l.since = OneLine(e.Phase), now
	case PhaseEnd, RunEnd:
		l.phase, l.steps, l.waits = "", nil, nil
	case StepStart:
		l.steps = append(l.steps, liveLine{e.Step, e.Node, label(e, e.Step) + detail(e.Message), now})
	case StepEnd:
		l.end(e)
	case Wait:
		l.wait(e, now)
	}
}

func (l *live) end(e Event) {
	if i := slices.IndexFunc(l.steps, e.belongsTo); i >= 0 {
		l.steps = slices.Delete(l.steps, i, i+1)
	}
	l.waits = slices.DeleteFunc(l.waits, func(w liveLine) bool {
		return w.step == e.Step && (e.Node == "" || w.node == e.Node)
	})
}

// belongsTo tells whether e is about what the line is about.
func (e Event) belongsTo(l liveLine) bool { return l.step == e.Step && l.node == e.Node }

func (l *live) wait(e Event, now time.Time) {
	i, text := slices.IndexFunc(l.waits, e.belongsTo), waitText(e)
	switch over := e.Status != "" || text == ""; {
	case over && i >= 0:
		l.waits = slices.Delete(l.waits, i, i+1)
	case over:
	case i >= 0:
		l.waits[i].text = text
	default:
		l.waits = append(l.waits, liveLine{e.Step, e.Node, text, now})
	}
}

func (l *live) headline(now time.Time) string {
	spinner := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	frame := string(spinner[int(now.UnixMilli()/150)%len(spinner)])
	if l.phase == "" {
		return strings.TrimSpace(frame+" "+l.title) + " " + wholeSeconds(now.Sub(l.began))
	}
	line := frame + " " + l.phase + " " + wholeSeconds(now.Sub(l.since))
	if l.title != "" {
		line += "  (" + l.title + ", " + wholeSeconds(now.Sub(l.began)) + ")"
	}
	return line
}

// below returns the lines under the head: each step with its waits, then the waits of no step.
func (l *live) below(now time.Time) []string {
	var all []string
	shown := map[int]bool{}
	for i, s := range l.steps {
		all = append(all, "  • "+s.text+" "+wholeSeconds(now.Sub(s.began)))
		last := i+1 == len(l.steps) || l.steps[i+1].step != s.step
		for j, w := range l.waits {
			if !shown[j] && w.step == s.step && (w.node == s.node || s.node == "" || last) {
				shown[j] = true
				all = append(all, "    … "+w.text+" "+wholeSeconds(now.Sub(w.began)))
			}
		}
	}
	for j, w := range l.waits {
		if !shown[j] {
			all = append(all, "  … "+w.text+" "+wholeSeconds(now.Sub(w.began)))
		}
	}
	if len(all) > maxLive {
		left := len(all) - maxLive + 1
		all = append(all[:maxLive-1:maxLive-1], fmt.Sprintf("  … and %d more", left))
	}
	return all
}

// wholeSeconds keeps a line from flickering: 4s, 1m05s.
func wholeSeconds(d time.Duration) string {
	d = d.Truncate(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return FormatSeconds(d.Seconds())
}
