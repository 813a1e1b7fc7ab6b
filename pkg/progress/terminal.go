package progress

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// The live view is at most this many lines under its head.
const maxLive = 16

// Terminal returns a Renderer for people at a terminal: lines as Plain writes them, and below them, from the start of a
// run to its end, a live view of what runs, for how long, and what it waits for. Lines go above the view and never tear
// it. Outside a run the terminal is others': a shell on a node, a question, a table that is printed. Where w is no
// terminal it returns Plain. Auto decides for the caller, NO_COLOR and TERM=dumb included.
func Terminal(w io.Writer, o Options) Renderer {
	if !isTerminal(w) || o.Verbosity < Normal {
		return Plain(w, o)
	}
	fd := int(w.(*os.File).Fd())
	return newTerminal(w, o, func() (int, int, error) { return term.GetSize(fd) })
}

// newTerminal returns a terminal on w, which is as large as size says.
func newTerminal(
	w io.Writer, o Options, size func() (width, height int, err error), more ...mpb.ContainerOption,
) *terminal {
	screen := mpb.WithConsoleWriter(&redraw{out: w, size: size})
	return &terminal{
		w: w, lines: newLines(o), live: live{began: time.Now()}, size: size,
		options: append([]mpb.ContainerOption{screen}, more...),
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

	size    func() (width, height int, err error)
	held    string // the beginning of a step, which is written if there is more to it than its end
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
	t.err = cmp.Or(t.err, t.bars.Error)
	t.bars = nil
}

// line writes what e says above the view. A step is in the view until it ends; one that has steps of its own is written
// before them, too.
func (t *terminal) line(e Event) {
	text := t.lines.text(e)
	if e.Kind == StepStart && t.bars != nil && e.Node == "" {
		text, t.held = t.held, text
	} else if e.Kind == StepStart && t.bars != nil {
		return
	}
	if e.Kind == StepEnd && e.Node == "" || e.Kind == PhaseEnd {
		t.held = ""
	}
	if text == "" {
		return
	}
	if e.Kind != Output { // what others print is left as it is
		text = t.wrap(text)
	}
	t.write(text)
}

// write writes text above the view, if there is one.
func (t *terminal) write(text string) {
	if t.bars != nil {
		if _, err := io.WriteString(t.bars, text); err == nil {
			return
		}
		t.end() // mpb has ended, because the terminal is gone
	}
	_, err := io.WriteString(t.w, text)
	t.err = cmp.Or(t.err, err)
}

// Print writes text that is no event above the view.
func (t *terminal) Print(text string) {
	t.order.Lock()
	defer t.order.Unlock()
	t.write(t.wrap(text))
}

// wrap breaks lines that are too wide.
func (t *terminal) wrap(text string) string {
	width, _, err := t.size()
	if err != nil {
		return text
	}
	return WrapTold(text, width)
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
			_, height, err := t.size()
			if err != nil {
				height = maxLive
			}
			t.mu.Lock()
			all := t.live.below(time.Now(), min(maxLive, max(1, height-3)))
			t.mu.Unlock()
			if i >= len(all) || s.Aborted {
				return nil
			}
			_, err = io.WriteString(w, fit(all[i], s.AvailableWidth)+"\n")
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
	last  float64   // seconds that the phase took when it passed last
	steps []liveLine
	waits []liveLine
	nodes []liveLine
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
		l.phase, l.since, l.last = OneLine(e.Phase), now, e.LastSeconds
	case PhaseEnd, RunEnd:
		l.phase, l.steps, l.waits, l.nodes = "", nil, nil, nil
	case NodeState:
		l.node(e.Node, OneLine(e.Message), now)
	case Output, Info:
		l.told(e, now)
	case StepStart:
		l.steps = append(l.steps, liveLine{e.Step, e.Node, label(e, e.Step) + detail(e.Message), now})
	case StepEnd:
		l.end(e)
	case Wait:
		l.wait(e, now)
	}
}

// digits are how far something is: cloning 40%.
const digits = " 0123456789%"

// node sets the state of a node. A node that is done with has none.
func (l *live) node(name, state string, now time.Time) {
	name = OneLine(name)
	i := slices.IndexFunc(l.nodes, func(n liveLine) bool { return n.node == name })
	switch {
	case i >= 0 && state == "":
		l.nodes = slices.Delete(l.nodes, i, i+1)
	case i >= 0 && strings.TrimRight(l.nodes[i].text, digits) == strings.TrimRight(state, digits): // it goes on
		l.nodes[i].text = state
	case i >= 0:
		l.nodes[i].text, l.nodes[i].began = state, now
	case i < 0 && state != "":
		l.nodes = append(l.nodes, liveLine{node: name, text: state, began: now})
		slices.SortFunc(l.nodes, func(a, b liveLine) int {
			return cmp.Or(cmp.Compare(len(a.node), len(b.node)), strings.Compare(a.node, b.node)) // 10 follows 9
		})
	}
}

// told shows the last line that a node prints, where its state is shown.
func (l *live) told(e Event, now time.Time) {
	i := slices.IndexFunc(l.nodes, func(n liveLine) bool { return n.node == e.Node })
	text := OneLine(e.Message)
	if e.Node == "" || i < 0 || text == "" || strings.HasPrefix(e.Step, "tofu ") { // its lines are not about what a node does
		return
	}
	state, _, _ := strings.Cut(l.nodes[i].text, ": ")
	l.nodes[i].text = state + ": " + text
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
	if e.Status == "" && slices.ContainsFunc(l.nodes, func(n liveLine) bool { return n.node == e.Node }) {
		l.told(Event{Node: e.Node, Message: OneLine(e.Message + prefixedWith(": ", e.Error))}, now)
		return
	}
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
	if l.last > 0 {
		line += ", last time " + wholeSeconds(time.Duration(l.last*float64(time.Second)))
	}
	if l.title != "" {
		line += "  (" + l.title + ", " + wholeSeconds(now.Sub(l.began)) + ")"
	}
	return line
}

// below returns the lines under the head: each step with its waits, then the waits of no step, then each node.
func (l *live) below(now time.Time, most int) []string {
	var all []string
	shown, told := map[int]bool{}, map[int]bool{}
	depth := 0
	for i, s := range l.steps {
		margin := stepMargin(0)
		if s.node == "" {
			margin = stepMargin(depth)
			depth++
		}
		line := margin + "• " + s.text + " " + wholeSeconds(now.Sub(s.began))
		for j, n := range l.nodes {
			if s.node != "" && n.node == s.node { // what the step does just now, in the same line
				line, told[j] = line+", "+n.text+" "+wholeSeconds(now.Sub(n.began)), true
			}
		}
		all = append(all, line)
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
	widest := 0
	for _, n := range l.nodes {
		widest = max(widest, cells(n.node))
	}
	for j, n := range l.nodes {
		if told[j] {
			continue
		}
		blanks := strings.Repeat(" ", widest-cells(n.node))
		all = append(all, "    "+n.node+blanks+"  "+wholeSeconds(now.Sub(n.began))+"  "+n.text)
	}
	if len(all) > most {
		left := len(all) - most + 1
		all = append(all[:most-1:most-1], fmt.Sprintf("  … and %d more", left))
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
