// Package explain says, from what a run left (its events and the files of its directory), why it did not pass: what
// failed and where, the last lines that matter, the likely cause where its signature is known, and what comes next. It
// reads and decides; it asks nobody and prints nothing.
package explain

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/progress"
)

const (
	lastLines = 6         // that are shown
	fileTail  = 256 << 10 // bytes of the end of each file that are searched
	lineWidth = 200       // runes of each line that are shown
)

// Run returns why a run did not pass; nil if it passed. files is the run's directory; nil where there is none. hosts
// says that the cluster is of hosts that were there before, which no advice about VMs fits. The events of a run that
// was killed do for it too.
func Run(events []progress.Event, files fs.FS, hosts bool) *progress.Explanation {
	f := read(events)
	if f == nil {
		return nil
	}
	f.hosts, f.files = hosts, files
	signatures, err := Signatures()
	if err != nil { // the table is part of the program, and its test reads it
		panic(err)
	}
	x := &progress.Explanation{Phase: f.phase, Step: f.step, Node: f.node, Where: f.where(), What: f.what()}
	x.Lines, x.From = f.lines()
	x.Suites = f.eachSuite(files)
	if len(f.suites) > 0 && len(x.Lines) > 0 {
		x.From = cmp.Or(f.outputOf(f.suites[0].name, files), x.From)
	}
	if f.interrupted {
		x.Lines, x.From = nil, ""
	} else {
		f.addReason(x, files)
		f.judge(x, signatures, files)
	}
	if x.Next == "" {
		x.Next = f.next()
	}
	if rest, cut := withoutCluster(x.Next, f.phase); cut && f.gone {
		x.Next = cmp.Or(rest, f.nextWhenGone())
	}
	if len(f.suites) == 1 && f.suites[0].isCommand() {
		x.What = unsaid(x.What, x.Lines)
	}
	for i := range x.Lines {
		x.Lines[i] = shorten(x.Lines[i], lineWidth)
	}
	return x.Cleaned()
}

// evidencePath matches the evidence that advice names: a path below the run's directory.
var evidencePath = regexp.MustCompile(`\bnodes/[\w*-]+/[\w*./-]*\w`)

// below returns where a file of the run is that is named as in its directory; empty: none is.
func (f *failure) below(name string) string {
	if name == "" {
		return ""
	}
	return path.Join(f.dir, name)
}

// missing says which of the evidence that advice names was not got.
func missing(next string, files fs.FS) string {
	if files == nil {
		return ""
	}
	var missing []string
	for _, name := range evidencePath.FindAllString(next, -1) {
		if found, err := fs.Glob(files, name); err == nil && len(found) == 0 && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return " (" + strings.Join(missing, " and ") + " could not be got: index.json says why)"
}

// failure is what the events tell of the first thing that failed.
type failure struct {
	name, verb        string
	phase, step, node string
	ofStep            bool              // the node is that of the step
	text              string            // the whole error
	problem           *progress.Problem // the error as data; it has a reason
	hint              string
	suites            []suite          // that failed
	observed          []observation    // before that, or while it failed
	output            []progress.Event // of the phase
	warnings          []string         // of the phase
	interrupted       bool
	hosts             bool     // the cluster is of hosts that were there before
	gone              bool     // the cluster was destroyed in the end
	dir               string   // of the run
	endpoint          string   // that suites were run against; empty: it was a cluster
	flags             []string // of a run against an endpoint that say where programs come from
	files             fs.FS    // of the run; nil: none
	reasons           string   // that only a task's log or a VM's state tells
	killed            bool
}

// read finds the first failure; nil if there is none.
func read(events []progress.Event) *failure {
	f := &failure{problem: &progress.Problem{Reasons: []progress.Reason{{}}}}
	ended, failed := false, false
	phase, step := "", ""
	for _, e := range events {
		if e.Endpoint != "" {
			f.endpoint, f.flags = e.Endpoint, programFlags(e.Flags)
		}
		f.name, f.verb, f.dir = cmp.Or(f.name, e.Cluster), cmp.Or(f.verb, e.Verb), cmp.Or(f.dir, e.RunDir)
		switch e.Kind {
		case progress.PhaseStart:
			phase, step = e.Phase, ""
		case progress.StepStart:
			step = e.Step
			f.gone = f.gone && e.Phase != "down" // until it ends
		case progress.StepEnd: // a cluster that is destroyed while cleaning up goes without an end of the phase
			if e.Phase == "down" {
				f.gone = e.Status == progress.Passed
			}
		case progress.PhaseEnd:
			if !failed && bad(e.Status) {
				failed = true
				f.phase = e.Phase
				f.keep(e)
			}
			if e.Phase == "down" {
				f.gone = e.Status == progress.Passed
			}
			phase, step = "", ""
		case progress.RunEnd:
			ended = true
			if !failed && bad(e.Status) {
				failed = true
				f.keep(e)
			}
		}
	}
	switch {
	case !failed && ended:
		return nil
	case !failed && len(events) > 0:
		f.killed, f.phase, f.step = true, phase, step
		return f
	case !failed:
		return nil
	}
	f.details(events)
	return f
}

// keep records the error of an event.
func (f *failure) keep(e progress.Event) {
	f.text, f.problem, f.hint = e.Error, cmp.Or(e.Failure(), f.problem), e.Hint
	f.interrupted = e.Status == progress.Interrupted
}

func bad(s progress.Status) bool { return s == progress.Failed || s == progress.Interrupted }

// details reads the phase that failed again, for the step, the node, cases and output.
func (f *failure) details(events []progress.Event) {
	for _, e := range events {
		if e.Phase != f.phase {
			continue
		}
		switch e.Kind {
		case progress.StepEnd:
			if bad(e.Status) && f.step == "" {
				f.step, f.node, f.ofStep = e.Step, e.Node, e.Node != ""
				f.hint = cmp.Or(f.hint, e.Hint)
			}
		case progress.Output:
			f.output = append(f.output, e)
		case progress.Warning:
			f.warnings = append(f.warnings, e.Message+" "+e.Error)
		}
	}
	f.suites = failedSuites(events, f.phase)
	if len(f.suites) > 0 {
		f.node = cmp.Or(f.suites[0].first().Node, f.node)
		f.observed = f.observe(events)
	}
	if f.node == "" && len(f.problem.Nodes) > 0 {
		f.node = f.problem.Nodes[0]
	}
}

// where returns the phase and the step that failed, and the node unless what does name it: that of a step, or of the
// only reason.
func (f *failure) where() string {
	where := f.phase
	if len(f.suites) > 1 {
		return where
	}
	if f.step != "" && f.step != f.phase {
		where = strings.TrimPrefix(where+", step "+f.step, ", ")
	}
	if f.node != "" && len(f.suites) == 0 && (f.ofStep || f.reason().Node != "" && !f.ofNodes()) {
		where += " on " + f.node
	}
	return where
}

// what is what failed, as one line.
func (f *failure) what() string {
	switch {
	case f.killed:
		return "the run did not come to its end: it was killed, or its disk was full"
	case len(f.suites) > 1:
		return fmt.Sprintf("%d suites failed", len(f.suites))
	case len(f.suites) > 0:
		return f.suites[0].what(true)
	}
	context, r := f.context(), f.reason()
	if f.ofNodes() {
		return strings.Join(context, ": ") + " on " + strings.Join(f.problem.Nodes, ", ") + "; " + r.String()
	}
	if first := f.problem.Reasons[0]; len(context) == 0 && first.Node != r.Node { // what ended the step comes first
		context = append(context, first.Cause)
	}
	if len(context) == 0 || r.Cause != progress.ErrTimeUp.Error() { // it adds nothing to the context
		context = append(context, r.Cause)
	}
	return cmp.Or(strings.Join(context, ": "), "it failed without saying why")
}

// ofNodes reports whether several nodes have failed, each for a reason of its own.
func (f *failure) ofNodes() bool {
	return len(f.problem.Reasons) > 1 && f.problem.Reasons[0].Node != ""
}

// context returns what was being done when it failed, without the step.
func (f *failure) context() []string {
	if context := f.problem.Context; len(context) > 0 && context[0] == f.step {
		return slices.Clone(context[1:])
	}
	return slices.Clone(f.problem.Context)
}

// reason returns the reason of the node that failed, or else the first.
func (f *failure) reason() progress.Reason {
	all := f.problem.Reasons
	return all[max(0, slices.IndexFunc(all, func(r progress.Reason) bool { return r.Node != "" && r.Node == f.node }))]
}

// lines are the last ones of what was said where it failed: the log that the error shows, or else the output of what
// failed.
func (f *failure) lines() (lines []string, from string) {
	if r := f.reason(); len(r.Lines) > 0 {
		return last(r.Lines, lastLines), "the log on " + r.Node
	}
	suite := ""
	if len(f.suites) > 0 {
		suite = f.suites[0].name
		if lines := f.suites[0].printed(); len(lines) > 0 {
			return last(lines, lastLines), "the output of " + suite
		}
	}
	for _, e := range f.output {
		ofStep := e.Step == f.step && (f.node == "" || e.Node == "" || e.Node == f.node)
		if suite != "" && e.Suite == suite || suite == "" && ofStep {
			lines = append(lines, linesOf(e.Message)...)
		}
	}
	if len(lines) == 0 {
		return nil, ""
	}
	return last(lines, lastLines), "the output of " + cmp.Or(suite, f.step)
}

// linesOf are the lines of a text that are not blank.
func linesOf(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func last(lines []string, n int) []string { return slices.Clone(lines[max(0, len(lines)-n):]) }

// addReason adds what only a task's log or a VM's state tells.
func (f *failure) addReason(x *progress.Explanation, files fs.FS) {
	reasons, file := f.taskReason(files)
	if len(reasons) == 0 {
		reasons, file = f.pausedDisk(files)
	}
	if len(reasons) == 0 {
		return
	}
	if text := strings.Join(reasons, "; "); !strings.Contains(x.What, text) {
		x.What += ": " + text
	}
	if len(x.Lines) == 0 {
		x.Lines, x.From = reasons, f.below(file)
	}
	f.reasons = strings.Join(reasons, "\n")
	f.text += "\n" + f.reasons
}

// judge takes for the cause what the run itself has observed, or else looks for a known signature: in what failed
// first, then in what was said, then in the files.
func (f *failure) judge(x *progress.Explanation, signatures []Signature, files fs.FS) {
	if len(f.observed) > 0 {
		f.blame(x, signatures)
		return
	}
	texts := []string{f.text}
	for _, c := range f.cases() {
		texts = append(texts, c.Error)
	}
	for _, text := range texts {
		if f.take(x, match(signatures, InError, f, text)) {
			return
		}
	}
	for _, e := range slices.Backward(f.output) {
		if f.take(x, match(signatures, InOutput, f, e.Message)) {
			return
		}
	}
	for _, text := range f.warnings {
		if f.take(x, match(signatures, InOutput, f, text)) {
			return
		}
	}
	if files != nil {
		f.search(x, signatures, files)
	}
}

func match(signatures []Signature, where string, f *failure, text string) *Signature {
	if text == "" {
		return nil
	}
	for i := range signatures {
		s := &signatures[i]
		if slices.Contains(s.Where, where) && s.applies(f) && (where != InFiles || s.needs.MatchString(f.said())) &&
			s.find(text) >= 0 {
			return s
		}
	}
	return nil
}

// said is all that what failed says of itself.
func (f *failure) said() string {
	texts := []string{f.step, f.text}
	for _, c := range f.cases() {
		texts = append(texts, c.Name, c.Error)
	}
	return strings.Join(texts, "\n")
}

// take takes what is known of such failures; nil: nothing is.
func (f *failure) take(x *progress.Explanation, s *Signature) bool {
	if s == nil {
		return false
	}
	cause, next := s.Cause, s.Next
	if f.hosts && s.Hosts != nil {
		cause, next = cmp.Or(s.Hosts.Cause, cause), s.Hosts.Next
	}
	next = fill(next, f.name, x.Node)
	x.Signature, x.Cause = s.ID, fill(cause, f.name, x.Node)
	x.Next = evidencePath.ReplaceAllStringFunc(next, f.below) + missing(next, f.files)
	return true
}

// search looks into the logs of the nodes, those of the node that failed first.
func (f *failure) search(x *progress.Explanation, signatures []Signature, files fs.FS) {
	for _, node := range f.nodesOf(files) {
		found := false
		_ = fs.WalkDir(files, path.Join("nodes", node), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() { // what cannot be read explains nothing
				return nil
			}
			text := tail(files, name)
			s := match(signatures, InFiles, f, text)
			if s == nil {
				return nil
			}
			found = true
			x.Node = cmp.Or(f.node, node)
			f.take(x, s)
			x.Lines, x.From = []string{lineAt(text, s.find(text))}, f.below(name)
			return fs.SkipAll
		})
		if found {
			return
		}
	}
}

// nodesOf are the nodes that evidence was gathered of, the one that failed first.
func (f *failure) nodesOf(files fs.FS) (nodes []string) {
	entries, _ := fs.ReadDir(files, "nodes") // where there is none, nothing was gathered
	for _, entry := range entries {
		nodes = append(nodes, entry.Name())
	}
	if i := slices.Index(nodes, f.node); i > 0 {
		nodes = slices.Insert(slices.Delete(nodes, i, i+1), 0, f.node)
	}
	return nodes
}

// tail is the end of a file, or nothing.
func tail(files fs.FS, name string) string {
	file, err := files.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if seeker, ok := file.(io.Seeker); ok {
		_, _ = seeker.Seek(-fileTail, io.SeekEnd) // a shorter one is read from its beginning
	}
	raw, err := io.ReadAll(io.LimitReader(file, fileTail))
	if err != nil {
		return ""
	}
	return string(raw)
}

// lineAt is the line of text that has the byte at.
func lineAt(text string, at int) string {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[begin:], "\n")
	return strings.TrimSpace(line)
}

func shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// next is what comes next where no signature says it.
func (f *failure) next() string {
	switch {
	case f.endpoint != "":
		return f.nextAtEndpoint()
	case f.interrupted && f.gone || f.name == "":
		return cmp.Or(progress.FirstLine(f.hint), "run it again")
	case (f.interrupted || f.killed) && f.verb == "down":
		return fmt.Sprintf("hive-test down %s goes on", f.name)
	case f.interrupted || f.killed:
		return fmt.Sprintf(
			"hive-test %s %s goes on; hive-test down %s removes the cluster", cmp.Or(f.verb, "up"), f.name, f.name,
		)
	case f.hint != "":
		return progress.FirstLine(f.hint)
	case f.phase == "down":
		return fmt.Sprintf("hive-test down %s --force", f.name)
	case f.gone:
		return f.nextWhenGone()
	}
	again := ""
	if len(f.suites) > 0 {
		if command := f.suites[0].again([]string{f.name}); command != "" {
			again = command + " runs it alone; "
		}
	}
	return fmt.Sprintf("%slook at the nodes: hive-test ssh %s, hive-test logs %s; hive-test down %s removes the cluster",
		again, f.name, f.name, f.name)
}

// nextAtEndpoint is what comes next where there is no cluster: the keys are those of the environment again.
func (f *failure) nextAtEndpoint() string {
	at := slices.Concat([]string{"--endpoint", f.endpoint}, f.flags)
	if len(f.suites) > 0 && !f.interrupted && !f.killed {
		if command := f.suites[0].again(at); command != "" {
			return command + " runs it alone"
		}
	}
	return cmp.Or(progress.FirstLine(f.hint), "run it again")
}

// programFlags are those that say where OpenTofu and providers come from: no record of a cluster knows it.
func programFlags(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(flag string) bool {
		return !strings.HasPrefix(flag, "--provider") && !strings.HasPrefix(flag, "--tofu-bin=")
	})
}

// nextWhenGone is what comes next where the run has destroyed the cluster.
func (f *failure) nextWhenGone() string {
	dir := cmp.Or(f.dir, "the run's directory")
	return "read nodes/ and report.md in " + dir + "; --keep on-failure keeps the nodes for a look"
}
