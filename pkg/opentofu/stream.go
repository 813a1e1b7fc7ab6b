package opentofu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/progress"
)

// message is a line of the machine-readable output. The shape is the one that Terraform documents as stable since 1.0
// and that OpenTofu shares; only what is used here is named.
type message struct {
	Level      string      `json:"@level"`
	Text       string      `json:"@message"`
	Type       string      `json:"type"`
	Diagnostic *Diagnostic `json:"diagnostic"`
	Change     *change     `json:"change"`
	Changes    *summary    `json:"changes"`
	Hook       *change     `json:"hook"`
}

// Diagnostic is what the program tells of one thing that went wrong, or may, with the address of the resource that it
// is about, if it is about one.
type Diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Address  string `json:"address"`
}

type resource struct {
	Address string `json:"addr"`
	Type    string `json:"resource_type"`
}

type change struct {
	Resource resource `json:"resource"`
	Action   string   `json:"action"`
	Reason   string   `json:"reason"`
	ID       string   `json:"id_value"` // where it has one by then
}

type summary struct {
	Add, Change, Remove int
	Operation           string
}

// stream is where one step's output goes: each line into the log and to the sink, and what the step means into the
// fields. It is safe for concurrent use; read the fields after the step has ended.
type stream struct {
	mu      sync.Mutex
	log     io.Writer
	sink    progress.Sink
	secrets []string
	nodeOf  func(address string) string
	stateOf func(resourceType, action string, done bool) string // nil: states are not told

	problems []Diagnostic
	changes  []change
	drifted  bool // a resource is not as the state has it
	totals   *summary
	done     []Change          // in the order in which it was
	ids      map[string]string // of resources that something was done to, by their addresses
	errored  []string          // addresses of those with which that has failed
}

func newStream(log io.Writer, sink progress.Sink, secrets []string, nodeOf func(address string) string) *stream {
	return &stream{log: log, sink: sink, secrets: secrets, nodeOf: nodeOf}
}

// json returns a writer for machine-readable lines. Lines that are none are passed on as they are.
func (s *stream) json() *lineWriter { return &lineWriter{line: s.jsonLine} }

// plain returns a writer for lines for people.
func (s *stream) plain() *lineWriter {
	return &lineWriter{line: func(line []byte) { s.emit(string(line), "") }}
}

func (s *stream) jsonLine(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil || m.Text == "" && m.Diagnostic == nil {
		s.emit(string(line), "")
		return
	}
	s.mu.Lock()
	node := s.collect(m)
	s.mu.Unlock()
	s.state(m, node)
	text := m.Text
	if d := m.Diagnostic; d != nil {
		text = strings.TrimSpace(text + "\n" + d.Detail)
		if d.Address != "" {
			text += "\n  with " + d.Address
		}
	}
	s.emit(text, node)
}

// state tells what is done with a node.
func (s *stream) state(m message, node string) {
	done := m.Type == "apply_complete"
	if s.stateOf == nil || m.Hook == nil || node == "" || !done && m.Type != "apply_start" {
		return
	}
	if state := s.stateOf(m.Hook.Resource.Type, m.Hook.Action, done); state != "" {
		s.sink.Emit(progress.Event{Kind: progress.NodeState, Node: node, Message: state})
	}
}

// collect keeps what m means and returns the node that it is about.
func (s *stream) collect(m message) string {
	address := ""
	switch {
	case m.Diagnostic != nil:
		if m.Diagnostic.Severity == "error" {
			s.problems = append(s.problems, *m.Diagnostic)
		}
		address = m.Diagnostic.Address
	case m.Change != nil && m.Type == "planned_change":
		s.changes = append(s.changes, *m.Change)
		address = m.Change.Resource.Address
	case m.Change != nil && m.Type == "resource_drift":
		s.drifted = true
		address = m.Change.Resource.Address
	case m.Changes != nil && m.Type == "change_summary":
		s.totals = m.Changes
	case m.Hook != nil:
		address = m.Hook.Resource.Address
		s.note(m, address)
		if m.Type == "apply_complete" {
			s.done = append(s.done, Change{Address: address, Type: m.Hook.Resource.Type, Action: m.Hook.Action})
		}
	}
	return s.nodeOf(address)
}

// note keeps what is needed to find out which resource an error is about.
func (s *stream) note(m message, address string) {
	if m.Hook.ID != "" {
		if s.ids == nil {
			s.ids = map[string]string{}
		}
		s.ids[address] = m.Hook.ID
	}
	if m.Type == "apply_errored" {
		s.errored = append(s.errored, address)
	}
}

// about returns the address of the resource that an error is about which names none, as those of deletions do: the one
// that has failed, or of several the one whose id the error has. Empty: it is not known.
func (s *stream) about(d Diagnostic) string {
	if d.Address != "" {
		return d.Address
	}
	for _, address := range s.errored {
		id := s.ids[address]
		if len(s.errored) == 1 || id != "" && strings.Contains(d.Summary+" "+d.Detail, id) {
			return address
		}
	}
	return ""
}

func (s *stream) emit(text, node string) {
	text = s.mask(text)
	s.mu.Lock()
	now := time.Now().UTC()
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(s.log, "%s %s\n", now.Format(time.RFC3339), line)
	}
	s.mu.Unlock()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) != "" {
			s.sink.Emit(progress.Event{Time: now, Kind: progress.Output, Node: node, Message: line})
		}
	}
}

// mask replaces every secret value.
func (s *stream) mask(text string) string { return mask(text, s.secrets) }

func mask(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// planned returns the planned changes, or an error if they do not add up to what the planner counted.
func (s *stream) planned() ([]Change, error) {
	var list []Change
	var adds, updates, removes int
	for _, c := range s.changes {
		switch c.Action {
		case actionCreate:
			adds++
		case actionUpdate:
			updates++
		case actionReplace:
			adds, removes = adds+1, removes+1
		case actionDelete:
			removes++
		default: // read, noop, move, import, remove: nothing that exists changes
			continue
		}
		list = append(list, Change{
			Address: c.Resource.Address, Type: c.Resource.Type, Action: c.Action, Reason: c.Reason,
		})
	}
	if t := s.totals; t != nil && (t.Add != adds || t.Change != updates || t.Remove != removes) {
		return list, fmt.Errorf("the plan counts %d to add, %d to change, %d to destroy "+
			"but lists %d, %d and %d: it cannot be judged", t.Add, t.Change, t.Remove, adds, updates, removes)
	}
	return list, nil
}

// lineWriter hands whole lines on. Each writer has one user at a time.
type lineWriter struct {
	line    func([]byte)
	partial []byte
}

// Write never fails: output that cannot be kept must not stop the program that makes it.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	for {
		line, rest, found := bytes.Cut(w.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.partial = slices.Clone(rest)
		if line = bytes.TrimRight(line, "\r"); len(line) > 0 {
			w.line(line)
		}
	}
}

// flush hands on a last line without an end.
func (w *lineWriter) flush() {
	if len(w.partial) > 0 {
		w.line(w.partial)
		w.partial = nil
	}
}

// openLog opens the file that output is appended to, readable by its owner only; an empty path means that no log is
// kept.
func openLog(path string) (io.WriteCloser, error) {
	if path == "" {
		return discard{io.Discard}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of tofu: %w", err)
	}
	return f, nil
}

// discard is the log where none is kept.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }
