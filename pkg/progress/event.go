// Package progress is the one stream of what happens during a run. Every part reports Events to a Sink; screen, logs
// and every report are made from that stream and nothing else.
package progress

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Kind says what an Event is about.
type Kind string

// The kinds of events. Run and Phase events come in start/end pairs; Step events too, within a phase.
const (
	RunStart   Kind = "run_start"
	RunEnd     Kind = "run_end"
	PhaseStart Kind = "phase_start"
	PhaseEnd   Kind = "phase_end"
	StepStart  Kind = "step_start"
	StepEnd    Kind = "step_end"
	Wait       Kind = "wait" // Message: what is awaited; Error: why it is not there yet
	Info       Kind = "info" // narration for people
	Note       Kind = "note" // worth knowing afterwards, and no fault; reports list it
	Warning    Kind = "warn" // something the user should know
	// a line of a child's or a node's output, or several at once; shown with -v, recorded up to a limit
	Output Kind = "output"
	Debug  Kind = "debug"
	// what is done with a node just now, or is to be, for a live view: Node, Message
	NodeState Kind = "node_state"
	Case      Kind = "case" // one test case has ended: Suite, Name, Status, Seconds, Error
)

// Status is the outcome that an end event or a case carries.
type Status string

// Outcomes.
const (
	Passed      Status = "passed"
	Failed      Status = "failed"
	Skipped     Status = "skipped"
	Interrupted Status = "interrupted"
	// Flaky is a case that has failed, and passed when it was run again: Error says how it failed.
	Flaky Status = "flaky"
	// Quarantined is a case that has failed and does not decide, for it is on the quarantine list: Message says why.
	Quarantined Status = "quarantined"
)

// Statuses are all that there are, in the order in which they are counted.
func Statuses() []Status { return []Status{Passed, Failed, Flaky, Quarantined, Skipped, Interrupted} }

// Bad reports whether what has that status ran, and neither passed nor is excused.
func (s Status) Bad() bool {
	switch s {
	case Passed, Skipped, Flaky, Quarantined:
		return false
	}
	return true
}

// What a warning or an info tells of its Node, as its Name. Error, or else Message, says why.
const (
	NodeLost    = "node-lost"
	NodeBack    = "node-back"
	ServiceDead = "service-dead"
	ServiceBack = "service-back"
)

// Event is one thing that happened. Fields that do not apply are empty. It never carries a secret.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    Kind      `json:"kind"`
	Cluster string    `json:"cluster,omitempty"`
	Verb    string    `json:"verb,omitempty"`
	Phase   string    `json:"phase,omitempty"`
	Step    string    `json:"step,omitempty"`
	Node    string    `json:"node,omitempty"`
	Suite   string    `json:"suite,omitempty"`
	// Name is that of a case; of the end of a suite, that of its first case that failed; of a warning or an info, one of
	// NodeLost and its like, where it tells what was seen of a node.
	Name    string  `json:"name,omitempty"`
	Status  Status  `json:"status,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Message string  `json:"message,omitempty"`
	Error   string  `json:"error,omitempty"`
	Hint    string  `json:"hint,omitempty"`
	// Place is where a case stands in the results of its suite: one with a smaller number before it, whenever it ended.
	Place  int    `json:"place,omitempty"`
	Output string `json:"output,omitempty"` // of a case that did not pass: the end of what it printed
	// File and Line are where a case says that it failed, as its suite names the file; 0: the line is not known.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Run is what --run takes for a case alone, of one that did not pass; empty: its suite cannot choose it.
	Run string `json:"run,omitempty"`
	// Problem is the error as data, set by WithError.
	Problem *Problem `json:"problem,omitempty"`
	// ExitCode is set on RunEnd (the code the process will exit with).
	ExitCode *int `json:"exit_code,omitempty"`
	// OwnerID is set on RunStart: whose the cluster's VMs are.
	OwnerID string `json:"owner_id,omitempty"`
	// RunDir is set on RunStart and RunEnd.
	RunDir string `json:"run_dir,omitempty"`
	// LastSeconds is set on PhaseStart, where it is known: what the phase took when it passed last.
	LastSeconds float64 `json:"last_seconds,omitempty"`
	// Explanation is set on the RunEnd of a run that did not pass.
	Explanation *Explanation `json:"explanation,omitempty"`
	// Command is set on the StepStart of a suite that is a command: its line. Asked is what --suite takes for a suite.
	Command string `json:"command,omitempty"`
	Asked   string `json:"asked,omitempty"`
	// Settings are set on RunStart: those that were given, and have not their defaults for that reason.
	Settings []Setting `json:"settings,omitempty"`
	// Endpoint is set on RunStart where suites are run against an EC2 endpoint, and no cluster: its URL.
	Endpoint string `json:"endpoint,omitempty"`
	// Flags are set on RunStart: the flags that the run was started with, but for its suites.
	Flags []string `json:"flags,omitempty"`
	// History is set on RunStart: the runs of the cluster's name before this one, the newest first.
	History []PastRun `json:"history,omitempty"`
	// Evidence is set where some was gathered: paths below the run's directory; a directory ends with a slash.
	Evidence []string `json:"evidence,omitempty"`
	// Nodes are set on RunStart and RunEnd: the cluster's nodes, as far as they are known by then; and where more of them
	// becomes known.
	Nodes []Node `json:"nodes,omitempty"`
	// Matrix is set on RunStart and RunEnd of the run of a matrix, with what became of the cells at the end.
	Matrix *Matrix `json:"matrix,omitempty"`
	// Template is set on the Note of a run whose nodes were cloned, with what that has spared.
	Template *TemplateUse `json:"template,omitempty"`
}

// Setting is a setting in force. From is "flag --x", "environment X" or "FILE:LINE".
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// PastRun is a run that has come to its end. Run is the name of its directory.
type PastRun struct {
	Run     string    `json:"run"`
	Verb    string    `json:"verb"`
	Result  Status    `json:"result"`
	Started time.Time `json:"started,omitzero"`
	Seconds float64   `json:"seconds"`
}

// Node is a node of the cluster. What is not known of it, or what it does not have, is empty.
type Node struct {
	Name       string `json:"name"`
	VMID       int    `json:"vmid,omitempty"`
	Hypervisor string `json:"hypervisor,omitempty"`
	Management string `json:"management,omitempty"` // its address
	Data       string `json:"data,omitempty"`       // its second address
	Hive       string `json:"hive,omitempty"`       // the version of hive on it
}

// Sink receives events. Implementations are safe for concurrent use and do not block for long.
type Sink interface {
	Emit(Event)
}

// SinkFunc makes a function a Sink.
type SinkFunc func(Event)

func (f SinkFunc) Emit(e Event) { f(e) }

// Discard is a Sink that forgets everything.
var Discard Sink = SinkFunc(func(Event) {})

// Multi returns a Sink that hands every event to each of sinks in order.
func Multi(sinks ...Sink) Sink {
	return SinkFunc(func(e Event) {
		for _, s := range sinks {
			s.Emit(e)
		}
	})
}

// With returns a Sink that fills what an event leaves open (time, cluster, verb, phase, step) before passing it on.
func With(next Sink, base Event) Sink {
	return SinkFunc(func(e Event) { next.Emit(fill(e, base)) })
}

func fill(e, base Event) Event {
	e.Cluster, e.Verb, e.Phase = cmp.Or(e.Cluster, base.Cluster), cmp.Or(e.Verb, base.Verb), cmp.Or(e.Phase, base.Phase)
	e.Step, e.Node = cmp.Or(e.Step, base.Step), cmp.Or(e.Node, base.Node)
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	return e
}

const (
	keptOutput = 1 << 20 // bytes of the Output of one source that are remembered at least, and twice that at most
	eventSize  = 400     // bytes, about, that an event takes beside its message
)

// Memory is a Sink that keeps events in order, for reports and tests. Of the Output of one step, node or suite it keeps
// the last MiB at least, and two at most: a suite that prints without end must not take all the machine's memory.
type Memory struct {
	mu     sync.Mutex
	events []Event
	output map[outputSource]int // bytes that are kept
}

// outputSource is what an Output event is of.
type outputSource struct{ phase, step, node, suite string }

func (m *Memory) Emit(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e)
	if e.Kind != Output {
		return
	}
	if m.output == nil {
		m.output = map[outputSource]int{}
	}
	source := sourceOf(e)
	if m.output[source] += sizeOf(e); m.output[source] > 2*keptOutput {
		m.forget(source)
	}
}

// forget drops the oldest Output of a source.
func (m *Memory) forget(source outputSource) {
	m.events = slices.DeleteFunc(m.events, func(e Event) bool {
		if e.Kind != Output || sourceOf(e) != source || m.output[source]-sizeOf(e) < keptOutput {
			return false
		}
		m.output[source] -= sizeOf(e)
		return true
	})
}

func sourceOf(e Event) outputSource { return outputSource{e.Phase, e.Step, e.Node, e.Suite} }

func sizeOf(e Event) int { return len(e.Message) + eventSize }

// Events returns a copy of what was emitted so far.
func (m *Memory) Events() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}
