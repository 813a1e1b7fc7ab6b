// Package report makes every report of a run from its events: bytes in, bytes out. It writes no files, reads no clock
// and knows nothing but what the events say, so that a report can be made again from events.jsonl.
package report

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/progress"
)

// Schema is the number of the JSON report's shape: fields may be added within it, never renamed.
const Schema = 1

// Names of the files that Files returns.
const (
	JSONFile     = "report.json"
	MarkdownFile = "report.md"
	HTMLFile     = "report.html"
	JUnitFile    = "junit.xml"
)

// Report is what is known of one run.
type Report struct {
	Schema   int             `json:"schema"`
	Cluster  string          `json:"cluster"`
	Verb     string          `json:"verb"`
	Result   progress.Status `json:"result"` // passed, failed or interrupted
	ExitCode int             `json:"exit_code"`
	OwnerID  string          `json:"owner_id,omitempty"`
	RunDir   string          `json:"run_dir"`
	Started  time.Time       `json:"started,omitzero"`
	Seconds  float64         `json:"seconds"`
	Phases   []Phase         `json:"phases"`
	Cases    []Case          `json:"cases"`
	Errors   []Problem       `json:"errors"`
	Warnings []Problem       `json:"warnings"`
	Notes    []Problem       `json:"notes,omitempty"` // worth knowing, and no faults
	// Explanation is why the run did not pass; nil if it did, or where nothing was said.
	Explanation *progress.Explanation `json:"explanation,omitempty"`
	// Nodes are the cluster's nodes, as far as they were known at the end.
	Nodes []progress.Node `json:"nodes,omitempty"`
	// Settings are those that were given, and Flags the flags that the run was started with, but for its suites.
	Settings []progress.Setting `json:"settings,omitempty"`
	Flags    []string           `json:"flags,omitempty"`
	// History is the runs of the cluster's name before this one, the newest first.
	History []progress.PastRun `json:"history,omitempty"`
	// Evidence is what was gathered: paths below the run's directory; a directory ends with a slash.
	Evidence []string `json:"evidence,omitempty"`
	// Matrix is what the run of a matrix has run, and what became of it; nil for any other run.
	Matrix *progress.Matrix `json:"matrix,omitempty"`
	// Template is what cloning the nodes has spared; nil where that is not known, or they were not cloned.
	Template *progress.TemplateUse `json:"template,omitempty"`
	// Ended is when the last event came.
	Ended time.Time `json:"-"`
}

// Phase is one phase of the run, in the order of beginning. Message says why it was skipped.
type Phase struct {
	Name    string          `json:"name"`
	Status  progress.Status `json:"status"`
	Seconds float64         `json:"seconds"`
	Error   string          `json:"error"`
	Hint    string          `json:"hint,omitempty"`
	Message string          `json:"message,omitempty"`
	Started time.Time       `json:"started,omitzero"`
	Steps   []Step          `json:"steps,omitempty"`
	// Problem is Error as data; nil if there is none.
	Problem *progress.Problem `json:"problem,omitempty"`
}

// Step is one step of a phase.
type Step struct {
	Name    string          `json:"name"`
	Node    string          `json:"node,omitempty"`
	Status  progress.Status `json:"status"`
	Seconds float64         `json:"seconds"`
	Error   string          `json:"error,omitempty"`
	Message string          `json:"message,omitempty"`
	Started time.Time       `json:"started,omitzero"`
	// Suite is set where the step is one, and Command where that is a command: its line. Asked is what --suite takes
	// for it.
	Suite   string `json:"suite,omitempty"`
	Command string `json:"command,omitempty"`
	Asked   string `json:"asked,omitempty"`
	// Waits are what the step has waited for, in the order of beginning.
	Waits []Wait `json:"waits,omitempty"`
	// States are what its nodes did in it, in the order of beginning. Only pictures need them.
	States []State `json:"-"`
}

// Wait is something that was waited for. Why is why it was not there, as it was told last.
type Wait struct {
	What    string    `json:"what"`
	Why     string    `json:"why,omitempty"`
	Node    string    `json:"node,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Seconds float64   `json:"seconds"`
}

// State is what a node did for a time.
type State struct {
	Node, Name     string
	Started, Ended time.Time
}

// Case is one test case.
type Case struct {
	Suite   string          `json:"suite"`
	Name    string          `json:"name"`
	Node    string          `json:"node,omitempty"`
	Status  progress.Status `json:"status"`
	Seconds float64         `json:"seconds"`
	Error   string          `json:"error,omitempty"`
	Message string          `json:"message,omitempty"`
	// Output is the end of what a case that did not pass has printed.
	Output string `json:"output,omitempty"`
	// File and Line are where the case says that it failed, as its suite names the file; 0: the line is not known.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Run is what --run takes for the case alone; empty: it passed, or its suite cannot choose it.
	Run string `json:"run,omitempty"`
	// Colored is Output with the terminal escapes that it came with; empty: it came with none.
	Colored string `json:"-"`
}

// place is where the case says that it failed, FILE:LINE as far as that is known.
func (c Case) place() string {
	if c.File == "" || c.Line == 0 {
		return c.File
	}
	return c.File + ":" + strconv.Itoa(c.Line)
}

// Problem is an error or a warning, and where it came up.
type Problem struct {
	Phase   string `json:"phase,omitempty"`
	Step    string `json:"step,omitempty"`
	Node    string `json:"node,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Build makes a Report of a run's events. Texts are cleaned (progress.Clean). What has begun and not ended counts as
// interrupted, so the events of a killed run give a report too. Without a RunEnd the result follows from the phases and
// cases, and the exit code is 0, 1 or 130.
func Build(events []progress.Event) Report {
	b := newBuilder()
	for _, e := range events {
		b.take(e)
	}
	return b.built()
}

// Read makes a Report of a run's events.jsonl, as Build does of the events. On an error it is a report of what comes
// before.
func Read(r io.Reader) (Report, error) {
	b := newBuilder()
	err := progress.EachEvent(r, b.take)
	return b.built(), err
}

func newBuilder() *builder {
	return &builder{Report: Report{
		Schema: Schema, Phases: []Phase{}, Cases: []Case{}, Errors: []Problem{}, Warnings: []Problem{},
	}}
}

// take adds an event.
func (b *builder) take(e progress.Event) {
	colored := ""
	if strings.ContainsRune(e.Output, '\x1b') {
		colored = e.Output
	}
	b.add(cleaned(e), colored)
}

// built is the report of the events that were taken.
func (b *builder) built() Report {
	b.sortCases()
	b.finish()
	b.Ended = b.last
	return b.Report
}

func cleaned(e progress.Event) progress.Event {
	for _, field := range []*string{
		&e.Cluster, &e.Verb, &e.Phase, &e.Step, &e.Node, &e.Suite, &e.Name, &e.Message, &e.Error, &e.Hint, &e.OwnerID,
		&e.RunDir, &e.Endpoint, &e.Output, &e.File, &e.Command, &e.Asked, &e.Run,
	} {
		*field = strings.TrimSpace(progress.Clean(*field))
	}
	e.Time = e.Time.Round(0) // as it is in a file: without what this process alone knows of it
	e.Seconds, e.Status = cleanSeconds(e.Seconds), cleanStatus(e.Status)
	e.Nodes, e.Settings = cleanNodes(e.Nodes), cleanSettings(e.Settings)
	e.Flags, e.Evidence, e.History = cleanAll(e.Flags), cleanAll(e.Evidence), cleanRuns(e.History)
	return e
}

func cleanSeconds(n float64) float64 {
	if math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return 0
	}
	return n
}

func cleanStatus(s progress.Status) progress.Status {
	if s != running && !slices.Contains(progress.Statuses(), s) {
		return progress.Failed // not one that we write: whatever it meant, it is not success
	}
	return s
}

const running progress.Status = ""

type builder struct {
	Report
	open  map[stepKey][]stepAt // of steps that have not ended
	steps map[string]stepAt    // the last one of each name, for what does not say of which phase it is

	waiting, working map[ofNode]int // which of the step's Waits and States has not ended

	said  []*progress.Problem // each of Errors
	ended bool
	last  time.Time
	order []placed // of Cases
}

// placed is where a case belongs: suites as they began to tell of cases, and within each as it lists them.
type placed struct {
	suite string
	place int
}

func (b *builder) add(e progress.Event, colored string) {
	b.Cluster = cmp.Or(b.Cluster, e.Cluster)
	b.Verb = cmp.Or(b.Verb, e.Verb)
	b.OwnerID = cmp.Or(b.OwnerID, e.OwnerID)
	b.RunDir = cmp.Or(e.RunDir, b.RunDir)
	if b.Started.IsZero() {
		b.Started = e.Time
	}
	if e.Time.After(b.last) {
		b.last = e.Time
	}
	b.know(e)
	switch e.Kind {
	case progress.PhaseStart:
		b.Phases = append(b.Phases, Phase{Name: e.Phase, Started: e.Time})
	case progress.PhaseEnd:
		b.endPhase(e)
	case progress.StepStart:
		b.startStep(e)
	case progress.StepEnd:
		b.endStep(e)
	case progress.Case:
		b.Cases = append(b.Cases, Case{
			e.Suite, e.Name, e.Node, cmp.Or(e.Status, progress.Failed), e.Seconds, e.Error, e.Message, e.Output, e.File,
			max(e.Line, 0), e.Run, colored,
		})
		b.order = append(b.order, placed{e.Suite, e.Place})
	case progress.Warning:
		text := e.Message
		if e.Error != "" {
			text = strings.TrimPrefix(text+": "+e.Error, ": ")
		}
		b.Warnings = append(b.Warnings, Problem{e.Phase, e.Step, e.Node, text, e.Hint})
	case progress.Wait:
		b.wait(e)
	case progress.NodeState:
		b.state(e)
	case progress.Note:
		b.Notes = append(b.Notes, Problem{e.Phase, e.Step, e.Node, e.Message, e.Hint})
		if e.Template != nil {
			b.Template = e.Template
		}
	case progress.RunEnd:
		b.endRun(e)
	}
}

// sortCases puts cases into the order of their suites, or of a matrix's cells, and places, for those of several nodes end in
// any order.
func (b *builder) sortCases() {
	suites := map[string]int{}
	if b.Matrix != nil { // whichever cell ended first
		for i, cell := range b.Matrix.Cells {
			suites[cell.Label] = i - len(b.Matrix.Cells)
		}
	}
	index := make([]int, len(b.Cases))
	for i, at := range b.order {
		if _, known := suites[at.suite]; !known {
			suites[at.suite] = i
		}
		index[i] = i
	}
	slices.SortStableFunc(index, func(i, j int) int {
		x, y := b.order[i], b.order[j]
		return cmp.Or(cmp.Compare(suites[x.suite], suites[y.suite]), cmp.Compare(x.place, y.place))
	})
	sorted := make([]Case, len(b.Cases))
	for to, from := range index {
		sorted[to] = b.Cases[from]
	}
	b.Cases = sorted
}

// phase finds the phase that runs, by name or, where an event does not say, the latest.
func (b *builder) phase(name string) *Phase {
	for i := range slices.Backward(b.Phases) {
		if p := &b.Phases[i]; name == "" || p.Name == name {
			return p
		}
	}
	b.Phases = append(b.Phases, Phase{Name: name})
	return &b.Phases[len(b.Phases)-1]
}

func (b *builder) endPhase(e progress.Event) {
	p := b.phase(e.Phase)
	if p.Status != running { // an end without a start
		b.Phases = append(b.Phases, Phase{Name: e.Phase})
		p = &b.Phases[len(b.Phases)-1]
	}
	p.Status, p.Seconds = cmp.Or(e.Status, progress.Passed), e.Seconds
	p.Error, p.Hint, p.Message, p.Problem = e.Error, e.Hint, e.Message, e.Problem.Cleaned()
	b.problem(e)
}

// problem keeps an error once, where it is closest to its cause; a hint that comes later is added to it.
func (b *builder) problem(e progress.Event) {
	if e.Error == "" {
		return
	}
	own, p := e.Kind == progress.StepEnd && e.Node != "", e.Failure()
	if !own && p.ReportedIn(b.said...) {
		i := len(b.said) - 1
		for i > 0 && p.ReportedIn(b.said[:i]...) {
			i--
		}
		b.Errors[i].Hint = cmp.Or(b.Errors[i].Hint, e.Hint)
		return
	}
	b.said = append(b.said, p)
	b.Errors = append(b.Errors, Problem{e.Phase, e.Step, e.Node, e.Error, e.Hint})
}

func (b *builder) endRun(e progress.Event) {
	b.ended = true
	b.Result, b.Seconds, b.Explanation = e.Status, e.Seconds, e.Explanation.Cleaned()
	if e.ExitCode != nil {
		b.ExitCode = *e.ExitCode
	}
	b.problem(e)
	if b.Result == running && b.ExitCode != 0 {
		b.Result = progress.Failed
	}
}

func (b *builder) finish() {
	defer b.judgeCells()
	for i := range b.Phases {
		p := &b.Phases[i]
		p.Status = cmp.Or(p.Status, progress.Interrupted)
		for j := range p.Steps {
			b.endAll(stepAt{i, j}, b.last)
			p.Steps[j].Status = cmp.Or(p.Steps[j].Status, progress.Interrupted)
		}
	}
	if b.Seconds == 0 && !b.Started.IsZero() {
		b.Seconds = b.last.Sub(b.Started).Seconds()
	}
	if b.Result == running {
		b.Result = b.worst()
	}
	if !b.ended {
		b.ExitCode = map[progress.Status]int{progress.Failed: 1, progress.Interrupted: 130}[b.Result]
	}
}

func (b *builder) worst() progress.Status {
	var all []progress.Status
	for _, p := range b.Phases {
		all = append(all, p.Status)
	}
	for _, c := range b.Cases {
		all = append(all, c.Status)
	}
	for _, s := range []progress.Status{progress.Failed, progress.Interrupted} {
		if slices.Contains(all, s) {
			return s
		}
	}
	return progress.Passed
}

// Files returns every report of r, by file name: report.json, report.md, report.html, junit.xml.
func Files(r Report) map[string][]byte {
	return map[string][]byte{
		JSONFile:     JSON(r),
		MarkdownFile: Markdown(r),
		HTMLFile:     HTML(r),
		JUnitFile:    JUnit(r),
	}
}
