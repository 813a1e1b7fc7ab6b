package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/progress"
)

// What of a timeline is drawn at most.
const (
	mostRows = 400 // the shortest are left out
	mostBars = 200 // of one row
)

// timeline is when what was done, for a picture.
type timeline struct {
	Seconds float64
	Rows    []*row
	Nodes   []*row // what each node did over the whole run
	Ticks   []tick
	Longest []*row // of those on the critical path that have none below them, the longest first
	Left    int    // rows that are not drawn
	Waits   bool   // there are some

	done map[string][]done // of nodes
}

// done is how many seconds after the beginning of a phase a node had done its part in it.
type done struct {
	phase   string
	seconds float64
}

// doneOf is what the table of nodes says of that.
func (t *timeline) doneOf(node string) string {
	if t == nil {
		return ""
	}
	var parts []string
	for _, d := range t.done[node] {
		parts = append(parts, d.phase+" "+progress.FormatSeconds(d.seconds))
	}
	return strings.Join(parts, ", ")
}

// row is a phase, a step, a node in a step, or something that was waited for. From and To are seconds of the run.
type row struct {
	Kind     string // phase, step, node or wait
	Name     string
	Note     string
	Status   progress.Status
	From, To float64
	Bars     []bar // empty: there is nothing to see
	Critical bool  // while it was at work, nothing else decided when the run would end
	Open     bool  // what is below it is worth seeing
	Rows     []*row

	node, path string
	left       bool
}

// Seconds is how long it took.
func (r *row) Seconds() float64 { return max(0, r.To-r.From) }

// Path names it with what it is part of.
func (r *row) Path() string { return r.path }

// bar is a part of a row, from X on, Width wide, in percent of the run.
type bar struct{ X, Width, Kind, Title string }

// tick is a time on the axis, at X percent of the run.
type tick struct{ X, Text string }

// timelineOf returns the timeline of a run; nil where its events have no time.
func timelineOf(r Report) *timeline {
	total := r.Ended.Sub(r.Started).Seconds()
	if r.Started.IsZero() || total <= 0 || len(r.Phases) == 0 {
		return nil
	}
	t := &timeline{Seconds: total, done: map[string][]done{}}
	b := timelineBuilder{timeline: t, start: r.Started, lanes: map[string]*row{}}
	for _, n := range r.Nodes {
		b.lane(n.Name)
	}
	for i, p := range r.Phases {
		end := total
		if i+1 < len(r.Phases) {
			end = b.at(r.Phases[i+1].Started)
		}
		phase := b.phase(p, end)
		b.note(phase, phase.Rows)
		t.Rows = append(t.Rows, phase)
	}
	critical(t.Rows, total, 0)
	t.Longest = longest(t.Rows)
	t.bound()
	t.Nodes = slices.DeleteFunc(t.Nodes, func(r *row) bool { return len(r.Bars) == 0 })
	t.Ticks = ticks(total)
	return t
}

type timelineBuilder struct {
	*timeline
	start time.Time
	lanes map[string]*row // of Nodes, by name
}

// note notes when nodes were done with what is below a phase.
func (b *timelineBuilder) note(phase *row, rows []*row) {
	for _, r := range rows {
		b.note(phase, r.Rows)
		if r.Kind != "node" {
			continue
		}
		all := b.done[r.node]
		if n := len(all); n == 0 || all[n-1].phase != phase.Name {
			all = append(all, done{phase: phase.Name})
		}
		last := &all[len(all)-1]
		last.seconds = max(last.seconds, r.To-phase.From)
		b.done[r.node] = all
	}
}

// at is a time in seconds of the run.
func (b *timelineBuilder) at(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return min(max(0, t.Sub(b.start).Seconds()), b.timeline.Seconds)
}

func (b *timelineBuilder) lane(node string) *row {
	if l := b.lanes[node]; l != nil {
		return l
	}
	l := &row{Kind: "node", Name: node}
	b.lanes[node] = l
	b.timeline.Nodes = append(b.timeline.Nodes, l)
	return l
}

func (b *timelineBuilder) phase(p Phase, end float64) *row {
	r := &row{Kind: "phase", Name: p.Name, Status: p.Status, From: b.at(p.Started), Note: p.Message, path: p.Name}
	r.To = b.end(r.From, p.Seconds, p.Status, end)
	if p.Status != progress.Skipped {
		r.Bars = []bar{b.bar(r.From, r.To, string(p.Status), p.Name)}
	}
	r.Rows = b.steps(p, r.To)
	return r
}

// end is when something ended that took so many seconds; what was interrupted may not have told.
func (b *timelineBuilder) end(from, seconds float64, status progress.Status, end float64) float64 {
	if status == progress.Interrupted && seconds == 0 {
		return max(from, end)
	}
	return min(from+seconds, b.timeline.Seconds)
}

// steps are the rows of a phase's steps. One that runs while another one does is part of that, and those of nodes that
// have the same name are one.
func (b *timelineBuilder) steps(p Phase, end float64) []*row {
	var top []*row
	var running []*row          // each within the one before it
	shared := map[string]*row{} // of steps of nodes
	for _, s := range p.Steps {
		from := b.at(s.Started)
		to := b.end(from, s.Seconds, s.Status, end)
		if s.Node != "" {
			parent := shared[s.Name]
			if parent == nil {
				parent = &row{
					Kind: "step", Name: s.Name, Status: s.Status, From: from, To: to, path: p.Name + ": " + s.Name,
				}
				shared[s.Name] = parent
				top = append(top, parent)
			}
			b.nodeStep(parent, s, from, to)
			continue
		}
		r := b.step(p, s, from, to)
		for len(running) > 0 && running[len(running)-1].To <= from {
			running = running[:len(running)-1]
		}
		if n := len(running); n > 0 && to <= running[n-1].To+imprecise {
			running[n-1].Rows = append(running[n-1].Rows, r)
			running[n-1].Open = running[n-1].Open || s.Status.Bad()
		} else {
			top = append(top, r)
		}
		running = append(running, r)
	}
	for _, parent := range shared {
		parent.Bars = []bar{b.bar(parent.From, parent.To, string(parent.Status), parent.Name)}
	}
	return top
}

// imprecise is by how many seconds what is told of times may be wrong.
const imprecise = 0.01

// nodeStep adds what a node did in a step that each node has for itself.
func (b *timelineBuilder) nodeStep(parent *row, s Step, from, to float64) {
	parent.From, parent.To = min(parent.From, from), max(parent.To, to)
	if s.Status.Bad() {
		parent.Status, parent.Open = s.Status, true
	}
	one := b.bar(from, to, string(s.Status), s.Name)
	parent.Rows = append(parent.Rows, &row{
		Kind: "node", Name: s.Node, Status: s.Status, From: from, To: to, Bars: []bar{one}, node: s.Node,
		path: parent.path + " on " + s.Node,
	})
	b.addBar(b.lane(s.Node), one)
	parent.Rows = append(parent.Rows, b.waits(s, to)...)
}

func (b *timelineBuilder) step(p Phase, s Step, from, to float64) *row {
	r := &row{
		Kind: "step", Name: s.Name, Status: s.Status, From: from, To: to, path: p.Name + ": " + s.Name,
		Bars: []bar{b.bar(from, to, string(s.Status), s.Name)}, Open: s.Status.Bad(),
	}
	if s.Suite == "" && s.Message != s.Name {
		r.Note = s.Message
	}
	byNode := map[string]*row{}
	for _, state := range s.States {
		n := byNode[state.Node]
		if n == nil {
			n = &row{
				Kind: "node", Name: state.Node, node: state.Node, From: b.at(state.Started),
				path: r.path + " on " + state.Node,
			}
			byNode[state.Node] = n
			r.Rows = append(r.Rows, n)
		}
		one := b.bar(b.at(state.Started), b.at(state.Ended), "work", state.Name)
		n.To = max(n.To, b.at(state.Ended))
		b.addBar(n, one)
		one.Title = s.Name + ": " + one.Title
		b.addBar(b.lane(state.Node), one)
	}
	waits := b.waits(s, to)
	r.Bars = append(r.Bars, b.together(waits)...)
	r.Rows = append(r.Rows, waits...)
	return r
}

// together are the times in which a step has waited for anything.
func (b *timelineBuilder) together(waits []*row) (bars []bar) {
	ordered := slices.Clone(waits)
	slices.SortStableFunc(ordered, func(x, y *row) int { return cmp.Compare(x.From, y.From) })
	var from, to float64
	for i, w := range ordered {
		if i == 0 {
			from, to = w.From, w.To
		}
		if w.From > to {
			bars = append(bars, b.bar(from, to, "waits", "waits"))
			from = w.From
		}
		to = max(to, w.To)
	}
	if len(ordered) > 0 {
		bars = append(bars, b.bar(from, to, "waits", "waits"))
	}
	return bars[:min(mostBars, len(bars))]
}

// waits are the rows of what a step has waited for, those of the same thing in one.
func (b *timelineBuilder) waits(s Step, end float64) (rows []*row) {
	same := map[string]*row{}
	for _, w := range s.Waits {
		from := b.at(w.Started)
		to := min(from+w.Seconds, end)
		one := b.bar(from, to, "wait", "waits for "+w.What)
		if w.Node != "" {
			b.addBar(b.lane(w.Node), one)
		}
		key := w.Node + "\x00" + w.What
		r := same[key]
		if r == nil {
			r = &row{Kind: "wait", Name: w.What, From: from, node: w.Node}
			same[key] = r
			rows = append(rows, r)
		}
		r.Note, r.To = cmp.Or(w.Why, r.Note), to
		b.addBar(r, one)
		b.timeline.Waits = true
	}
	return rows
}

func (b *timelineBuilder) addBar(r *row, one bar) {
	if len(r.Bars) < mostBars {
		r.Bars = append(r.Bars, one)
	}
}

const narrowest = 0.2 // percent

func (b *timelineBuilder) bar(from, to float64, kind, title string) bar {
	total := b.timeline.Seconds
	width := max((to-from)/total*100, narrowest)
	x := min(from/total*100, 100-narrowest)
	return bar{percent(x), percent(width), kind, title + " " + progress.FormatSeconds(max(0, to-from))}
}

func percent(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) + "%" }

// critical marks the rows that decided when their end came: of those that were at work just before, the one that had
// been longest at it, and so on back to the beginning. What began less than least seconds before the one after it, and
// went on beside that, decided nothing.
func critical(rows []*row, end, least float64) {
	ordered := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return r.Kind == "wait" || len(r.Bars) == 0 })
	slices.SortStableFunc(ordered, func(a, b *row) int { return cmp.Compare(b.To, a.To) })
	var best *row
	for i := 0; i < len(ordered); {
		for ; i < len(ordered) && ordered[i].To >= end; i++ {
			if best == nil || ordered[i].From < best.From {
				best = ordered[i]
			}
		}
		switch {
		case best.decides(end, least):
			best.mark()
			end, best = best.From, nil
		case i < len(ordered): // nothing was at work for a while
			end, best = ordered[i].To, nil
			if ordered[i].From >= end { // it took no time
				i++
			}
		}
	}
	if best.decides(end, least) {
		best.mark()
	}
}

// decides reports whether the row, which nothing that was at work at the end began before, decided when that came.
func (r *row) decides(end, least float64) bool {
	return r != nil && r.From < end && (r.To <= end+imprecise || r.From < end-least)
}

func (r *row) mark() {
	const share = 20 // one in so many
	r.Critical = true
	critical(r.Rows, r.To, r.Seconds()/share)
	onPath := map[string]bool{"": true}
	for _, below := range r.Rows {
		onPath[below.node] = onPath[below.node] || below.Critical
	}
	for _, below := range r.Rows {
		below.Critical = below.Critical || below.Kind == "wait" && onPath[below.node]
	}
}

// longest are the few rows on the critical path that took most of the time.
func longest(rows []*row) []*row {
	const most, share = 5, 50 // one in so many
	var leaves []*row
	total := 0.0
	var visit func(rows []*row) bool
	visit = func(rows []*row) (found bool) {
		for _, r := range rows {
			if !r.Critical || r.Kind == "wait" {
				continue
			}
			found = true
			if !visit(r.Rows) && r.Kind != "phase" {
				leaves = append(leaves, r)
				total += r.Seconds()
			}
		}
		return found
	}
	visit(rows)
	slices.SortStableFunc(leaves, func(a, b *row) int { return cmp.Compare(b.Seconds(), a.Seconds()) })
	leaves = slices.DeleteFunc(leaves, func(r *row) bool { return r.Seconds() < total/share })
	return leaves[:min(most, len(leaves))]
}

// bound leaves out the shortest of too many rows; what failed, and phases, stay longest.
func (t *timeline) bound() {
	var all []*row
	var visit func(rows []*row)
	visit = func(rows []*row) {
		for _, r := range rows {
			all = append(all, r)
			visit(r.Rows)
		}
	}
	visit(t.Rows)
	visit(t.Nodes)
	if len(all) <= mostRows {
		return
	}
	first := func(r *row) int {
		switch {
		case r.Kind == "phase":
			return 0
		case r.Status.Bad() && r.Status != running:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b *row) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(b.Seconds(), a.Seconds()))
	})
	for _, r := range all[mostRows:] {
		r.left = true
	}
	t.Rows, t.Nodes = kept(t.Rows), kept(t.Nodes)
	drawn := 0
	var count func(rows []*row)
	count = func(rows []*row) {
		for _, r := range rows {
			drawn++
			count(r.Rows)
		}
	}
	count(t.Rows)
	count(t.Nodes)
	t.Left = len(all) - drawn
}

func kept(rows []*row) []*row {
	rows = slices.DeleteFunc(rows, func(r *row) bool { return r.left })
	for _, r := range rows {
		r.Rows = kept(r.Rows)
	}
	return rows
}

// ticks are round times on the axis, six at most.
func ticks(total float64) (all []tick) {
	const most = 6
	step := 0.1
	for _, s := range []float64{
		.2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400,
	} {
		if total/step > most {
			step = s
		}
	}
	for total/step > most {
		step *= 2
	}
	for at := 0.0; at < total*0.97; at += step {
		text := strings.TrimSuffix(progress.FormatSeconds(at), ".0s")
		if text != progress.FormatSeconds(at) {
			text += "s"
		}
		all = append(all, tick{percent(at / total * 100), text})
	}
	return all
}
