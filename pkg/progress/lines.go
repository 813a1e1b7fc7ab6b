package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The wording of every event for people, shared by the plain, live and GitHub renderers. Rules of this file: a line
// says one thing; what comes from outside goes through Clean; an error is said once, where it is closest to its cause.

// maxErrorLines bounds an error on a screen; the report has all of it.
const maxErrorLines = 30

// Color is how text stands out on a terminal (ECMA-48 SGR); empty: it does not.
type Color string

// Colors.
const (
	Bold   Color = "1"
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
	Dim    Color = "2"
)

// Paint returns s in color c.
func (c Color) Paint(s string) string {
	if c == "" || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// lines turns events into text. It is not safe for concurrent use.
type lines struct {
	Options
	rows   []PhaseRow
	phase  string     // that runs
	shown  []*Problem // that were said
	hints  []string   // lines of hints that were said
	words  []string   // names of phases and steps, and contexts of problems, that were said
	cases  map[Status]int
	runDir string
	open   []string // steps of no single node that run: each is a part of the one before it
}

func newLines(o Options) *lines { return &lines{Options: o, cases: map[Status]int{}} }

func (l *lines) paint(color Color, s string) string {
	if !l.Color {
		return s
	}
	return color.Paint(s)
}

// text returns what to print for e: whole lines, or nothing. Waits are not its business: see waitLine.
func (l *lines) text(e Event) string {
	l.note(e)
	if !l.Verbosity.shows(e.Kind) {
		return ""
	}
	switch e.Kind {
	case RunStart:
		return l.runStart(e)
	case PhaseStart:
		return l.paint(Bold, "==> "+OneLine(e.Phase)+detail(e.Message)) + "\n"
	case PhaseEnd:
		return l.end("", e, OneLine(e.Phase))
	case StepStart:
		return l.enter(e) + "• " + label(e, e.Step) + detail(e.Message) + "\n"
	case StepEnd:
		return l.end(l.leave(e), e, label(e, e.Step))
	case Case:
		if e.Status == Passed && l.Verbosity < Verbose { // they are counted at the end
			return ""
		}
		return l.end("  ", e, OneLine(CaseName(e.Suite, e.Node, e.Name)))
	case Info, Note:
		return indent(prefixed(e.Node, ": ")+e.Message, "  ", 0)
	case Warning:
		return l.warning(e, l.paint(Yellow, "warning:")+" ")
	case Output:
		margin := "  " + l.paint(Dim, prefixed(OneLine(e.Node), " ")+"|") + " "
		return margin + strings.ReplaceAll(Clean(strings.TrimRight(e.Message, "\r")), "\n", "\n"+margin) + "\n"
	case Debug:
		return indent(prefixed(e.Node, ": ")+e.Message, "  "+l.paint(Dim, "debug: "), 0)
	case RunEnd:
		return l.runEnd(e)
	}
	return ""
}

// enter returns the margin of a step that begins.
func (l *lines) enter(e Event) string {
	margin := stepMargin(len(l.open))
	if e.Node != "" {
		return stepMargin(0)
	}
	l.open = append(l.open, e.Step)
	return margin
}

// leave returns the margin of a step that ends.
func (l *lines) leave(e Event) string {
	i := slices.Index(l.open, e.Step)
	if e.Node != "" || i < 0 {
		return stepMargin(0)
	}
	l.open = slices.Delete(l.open, i, i+1)
	return stepMargin(i)
}

// stepMargin is what stands before a step that is a part of as many others.
func stepMargin(depth int) string { return strings.Repeat("  ", depth+1) }

// note keeps what the end of the run is told from, shown or not.
func (l *lines) note(e Event) {
	if e.RunDir != "" {
		l.runDir = e.RunDir
	}
	switch e.Kind {
	case RunStart: // a verb may be several runs, each told of by itself
		l.rows, l.cases = nil, map[Status]int{}
	case StepStart:
		l.words = append(l.words, e.Step)
	case PhaseStart:
		l.phase, l.open = e.Phase, nil
		l.words = append(l.words, e.Phase)
	case PhaseEnd:
		l.phase = ""
		row := PhaseRow{Name: e.Phase, Status: e.Status, Seconds: e.Seconds}
		if e.Status == Skipped {
			row.Note = e.Message
		}
		l.rows = append(l.rows, row)
	case Case:
		l.cases[e.Status]++
	}
}

func (l *lines) runStart(e Event) string {
	s := strings.TrimSpace(OneLine(e.Verb) + " " + OneLine(e.Cluster))
	if e.RunDir != "" {
		s += ": evidence goes to " + OneLine(e.RunDir)
	}
	if s == "" {
		return ""
	}
	return s + "\n"
}

// end is the last line of a step, phase or case, and its error if that was not said yet.
func (l *lines) end(margin string, e Event, what string) string {
	if l.Verbosity < Normal && !e.Status.Bad() {
		return ""
	}
	s := margin + l.mark(e.Status) + " " + what
	switch e.Status {
	case Skipped:
		s += " skipped" + prefixedWith(": ", OneLine(e.Message))
	case Flaky, Quarantined:
		s += " " + string(e.Status) + prefixedWith(": ", OneLine(e.Message))
	case Interrupted:
		s += " interrupted after " + FormatSeconds(e.Seconds)
	default:
		s += " " + l.paint(Dim, FormatSeconds(e.Seconds)) + detail(e.Message)
	}
	return s + "\n" + l.problem(margin+"  ", e)
}

func (l *lines) mark(s Status) string {
	switch s {
	case Failed:
		return l.paint(Red, "✗")
	case Skipped:
		return l.paint(Yellow, "-")
	case Interrupted, Flaky, Quarantined:
		return l.paint(Yellow, "!")
	}
	return l.paint(Green, "✓")
}

// problem says an error and its hint. Of an error that was shown before, it says only what is new of its context,
// without the names of steps: for instance that the time was up, or that VMs may remain.
func (l *lines) problem(margin string, e Event) string {
	text, p := strings.TrimSpace(Clean(e.Error)), e.Failure()
	if text == "" {
		return l.hint(margin, e.Hint)
	}
	own := e.Kind == Case || e.Kind == StepEnd && e.Node != "" // two nodes may fail with the same words
	if !own && p.ReportedIn(l.shown...) {
		known := func(words string) bool { return slices.Contains(l.words, words) }
		text = Clean(strings.Join(slices.DeleteFunc(slices.Clone(p.Context), known), ": "))
	}
	l.shown, l.words = append(l.shown, p), append(l.words, p.Context...)
	if text == "" {
		return l.hint(margin, e.Hint)
	}
	lead := "error: "
	if e.Status == Skipped {
		lead = "because: "
	}
	s := margin + l.paint(Red, lead) + strings.TrimPrefix(indent(text, margin, maxErrorLines), margin)
	return s + l.hint(margin, e.Hint)
}

// hint says those lines of a hint that were not said before.
func (l *lines) hint(margin, hint string) string {
	fresh := slices.DeleteFunc(strings.Split(strings.TrimSpace(hint), "\n"), func(line string) bool {
		return line == "" || slices.Contains(l.hints, line)
	})
	if len(fresh) == 0 {
		return ""
	}
	l.hints = append(l.hints, fresh...)
	return indent(strings.Join(fresh, "\n"), margin+l.paint(Yellow, "hint:")+" ", 0)
}

func (l *lines) warning(e Event, lead string) string {
	text := prefixed(e.Node, ": ") + e.Message + prefixedWith(": ", e.Error)
	return indent(text, lead, maxErrorLines) + l.hint("", e.Hint)
}

func (l *lines) runEnd(e Event) string {
	var b strings.Builder
	if l.Verbosity >= Normal {
		if table := PhaseTable(l.rows); table != "" {
			b.WriteString("\n" + l.paintResults(table) + "\n")
		}
		if count := CaseCount(l.cases); count != "" {
			b.WriteString("cases: " + count + "\n")
		}
		b.WriteString(l.verdict(e))
	}
	if e.Explanation != nil {
		b.WriteString(l.explanation(e.Explanation.Cleaned()))
	} else {
		b.WriteString(l.problem("", e))
	}
	if l.runDir != "" && e.Message != "" && (l.Verbosity >= Normal || e.Status != Passed) {
		b.WriteString("report: " + OneLine(l.runDir) + "/report.md\n")
	}
	return b.String()
}

// paintResults colors the results in a table of phases.
func (l *lines) paintResults(table string) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		if phase, rest, ok := strings.Cut(line, " "); ok {
			result := strings.TrimLeft(rest, " ")
			for _, status := range Statuses() {
				color := cmp.Or(map[Status]Color{Passed: Green, Failed: Red}[status], Yellow)
				if after, is := strings.CutPrefix(result, string(status)); is {
					line = phase + line[len(phase):len(line)-len(result)] + l.paint(color, string(status)) + after
				}
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

// maxWhat bounds what failed, as a line: the whole error was said where it came up.
const maxWhat = 300

// explanation is the paragraph that ends a run that did not pass. It stands for the error of the run itself.
func (l *lines) explanation(x *Explanation) string {
	text := l.paint(Red, "why:") + " " + ClipMiddle(x.Headline(), maxWhat) + "\n"
	for _, line := range x.Suites {
		text += "  " + line + "\n"
	}
	for _, line := range x.Lines {
		text += "  " + l.paint(Dim, "|") + " " + line + "\n"
	}
	if x.From != "" && len(x.Lines) > 0 {
		text += "  " + l.paint(Dim, "(from "+x.From+")") + "\n"
	}
	if x.Cause != "" {
		text += l.paint(Yellow, "likely cause:") + " " + x.Cause + "\n"
	}
	if x.Next != "" {
		text += l.paint(Yellow, "next:") + " " + x.Next + "\n"
	}
	return text
}

// ExplanationText is the same paragraph as plain text, for who asks for it later.
func ExplanationText(x *Explanation) string {
	if x == nil {
		return ""
	}
	return newLines(Options{}).explanation(x.Cleaned())
}

// CaseCount says how many cases ended how: 12 passed, 1 failed.
func CaseCount(cases map[Status]int) string {
	var parts []string
	for _, status := range Statuses() {
		if n := cases[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return strings.Join(parts, ", ")
}

func (l *lines) verdict(e Event) string {
	s := strings.Join(strings.Fields(l.mark(e.Status)+" "+OneLine(e.Verb)+" "+OneLine(e.Cluster)), " ")
	s += " " + string(e.Status) + " in " + FormatSeconds(e.Seconds)
	if e.ExitCode != nil && *e.ExitCode != 0 {
		s += fmt.Sprintf(" (exit code %d)", *e.ExitCode)
	}
	return s + "\n"
}

// waitText is what a Wait says: what is awaited, and why it is not there yet.
func waitText(e Event) string {
	s := OneLine(prefixed(e.Node, ": ") + e.Message)
	if why := OneLine(e.Error); why != "" {
		s += " (" + why + ")"
	}
	return s
}

func label(e Event, name string) string { return OneLine(prefixed(e.Node, ": ") + name) }

// CaseName returns what a case is called beside those of other suites and nodes: each name once.
func CaseName(suite, node, name string) string {
	if suite == name {
		suite = ""
	}
	if strings.HasSuffix(name, "/"+node) {
		node = ""
	}
	return prefixed(suite, ": ") + prefixed(node, ": ") + name
}

func detail(message string) string {
	if message = OneLine(message); message != "" {
		return " (" + message + ")"
	}
	return ""
}

func prefixed(s, separator string) string {
	if s == "" {
		return ""
	}
	return s + separator
}

func prefixedWith(separator, s string) string {
	if s == "" {
		return ""
	}
	return separator + s
}
