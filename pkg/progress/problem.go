package progress

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Problem is an error as data, for those who read events: none of them needs to parse its text.
type Problem struct {
	// Code is the kind of problem, such as timeout or step-failed; empty: not known.
	Code string `json:"code,omitempty"`
	// Nodes are the names of the nodes that have it, as far as they are known.
	Nodes []string `json:"nodes,omitempty"`
	// Context is what was being done, outermost first, and what ended it: names of steps, "timed out after 30m".
	Context []string `json:"context,omitempty"`
	// Cause is the innermost reason as one line; where there are several, each with its node.
	Cause string `json:"cause"`
	// Reasons are the same one by one; there is at least one.
	Reasons []Reason `json:"reasons"`
	// Log is the path of the file with the whole output.
	Log  string `json:"log,omitempty"`
	Hint string `json:"hint,omitempty"`
}

// Reason is why something failed: on a node, whose name Cause does not repeat, or in general, where Node is empty.
type Reason struct {
	Node  string `json:"node,omitempty"`
	Cause string `json:"cause"`
	// Lines are the last ones of the node's log about it.
	Lines []string `json:"lines,omitempty"`
}

func (r Reason) String() string { return prefixed(r.Node, ": ") + r.Cause }

// ErrTimeUp is the cause of a context whose time limit has passed.
var ErrTimeUp = errors.New("timed out")

// WithNodes returns err with the names of the nodes that have it. The names are not part of the message. It returns nil
// for a nil err. Any error with a method NodeNames() []string or NodeName() string does the same.
func WithNodes(err error, names ...string) error {
	if err == nil {
		return nil
	}
	return &annotated{error: err, nodes: names}
}

// WithCode returns err with the code of its kind. It returns nil for a nil err. Any error with a method
// Code() string does the same.
func WithCode(err error, code string) error {
	if err == nil {
		return nil
	}
	return &annotated{error: err, code: code}
}

// WithError returns e with the text of err, its hint and its Problem. It returns e for a nil err.
func (e Event) WithError(err error) Event {
	if err != nil {
		e.Error, e.Hint, e.Problem = err.Error(), HintOf(err), ProblemOf(err)
	}
	return e
}

// ProblemOf returns err as data. It asks err and the errors that it wraps by optional methods: Code() string and
// LogPath() string, of which the outermost count, NodeName() string or NodeNames() []string, Hint() string, and, of an
// error that consists of the errors of nodes, Summary() string and Reasons() []Reason. It returns nil for nil.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	p := &Problem{Hint: HintOf(err)}
	visit(err, func(err error) {
		if coded, ok := err.(interface{ Code() string }); ok {
			p.Code = cmp.Or(p.Code, coded.Code())
		}
		if logged, ok := err.(interface{ LogPath() string }); ok {
			p.Log = cmp.Or(p.Log, logged.LogPath())
		}
		switch named := err.(type) {
		case interface{ NodeNames() []string }:
			p.addNodes(named.NodeNames()...)
		case interface{ NodeName() string }:
			p.addNodes(named.NodeName())
		}
	})
	p.addReasons(err)
	texts := make([]string, len(p.Reasons))
	for i, r := range p.Reasons {
		texts[i] = r.String()
	}
	p.Cause = strings.Join(texts, "; ")
	return p
}

// visit calls do with err and all errors that it wraps, outermost first.
func visit(err error, do func(error)) {
	if err == nil {
		return
	}
	do(err)
	switch outer := err.(type) {
	case interface{ Unwrap() error }:
		visit(outer.Unwrap(), do)
	case interface{ Unwrap() []error }:
		for _, inner := range outer.Unwrap() {
			visit(inner, do)
		}
	}
}

func (p *Problem) addNodes(names ...string) {
	for _, name := range names {
		if name != "" && !slices.Contains(p.Nodes, name) {
			p.Nodes = append(p.Nodes, name)
		}
	}
}

// addReasons unwraps err for as long as it only adds words before those of the error that it wraps, or joins others.
func (p *Problem) addReasons(err error) {
	text := err.Error()
	switch outer := err.(type) {
	case interface {
		Summary() string
		Reasons() []Reason
	}:
		if reasons := outer.Reasons(); len(reasons) > 0 {
			p.addContext(outer.Summary())
			for _, r := range reasons {
				p.Reasons = append(p.Reasons, Reason{r.Node, FirstLine(r.Cause), r.Lines})
			}
			return
		}
	case interface{ Unwrap() error }:
		if inner := outer.Unwrap(); inner != nil && inner.Error() != "" && strings.HasSuffix(text, inner.Error()) {
			p.addContext(strings.TrimSuffix(strings.TrimSuffix(text, inner.Error()), ": "))
			p.addReasons(inner)
			return
		}
	case interface{ Unwrap() []error }:
		inner := slices.DeleteFunc(slices.Clone(outer.Unwrap()), func(err error) bool { return err == nil })
		switch {
		case len(inner) == 1 && inner[0].Error() == text: // it was joined with nil
			p.addReasons(inner[0])
			return
		case len(inner) > 1 && errors.Join(inner...).Error() == text:
			for _, err := range inner {
				p.join(err)
			}
			return
		}
	}
	p.Reasons = append(p.Reasons, Reason{Cause: FirstLine(text)})
}

// join adds the reasons of one of several errors, each with its own context.
func (p *Problem) join(err error) {
	var own Problem
	own.addReasons(err)
	for _, r := range own.Reasons {
		if r.Node == "" {
			r.Cause = strings.Join(append(own.Context, r.Cause), ": ")
		}
		p.Reasons = append(p.Reasons, r)
	}
}

func (p *Problem) addContext(words string) {
	if words = OneLine(words); words != "" {
		p.Context = append(p.Context, words)
	}
}

// Failure returns the Problem of e. If e has its error as text only, as events of earlier releases do, the first line
// is the cause. It returns nil if there is no error.
func (e Event) Failure() *Problem {
	switch {
	case e.Problem != nil && len(e.Problem.Reasons) > 0:
		return e.Problem
	case strings.TrimSpace(e.Error) == "":
		return nil
	}
	return &Problem{
		Cause: FirstLine(e.Error), Reasons: []Reason{{Node: e.Node, Cause: FirstLine(e.Error)}}, Hint: e.Hint,
	}
}

// ReportedIn reports whether others have each reason of p, and p only adds context to them: an error that is passed up
// is shown once.
func (p *Problem) ReportedIn(others ...*Problem) bool {
	return !slices.ContainsFunc(p.Reasons, func(r Reason) bool {
		return !slices.ContainsFunc(others, func(o *Problem) bool {
			within := p.Context[max(0, len(p.Context)-len(o.Context)):]
			same := func(q Reason) bool { return q.Node == r.Node && q.Cause == r.Cause }
			return slices.Equal(within, o.Context) && slices.ContainsFunc(o.Reasons, same)
		})
	})
}

// mapped returns a copy with every text changed by change.
func (p *Problem) mapped(change func(string) string) *Problem {
	if p == nil {
		return nil
	}
	q := *p
	q.Nodes, q.Context, q.Reasons = mapAll(p.Nodes, change), mapAll(p.Context, change), slices.Clone(p.Reasons)
	for i, r := range q.Reasons {
		q.Reasons[i] = Reason{change(r.Node), change(r.Cause), mapAll(r.Lines, change)}
	}
	q.Cause, q.Log, q.Hint = change(p.Cause), change(p.Log), change(p.Hint)
	return &q
}

// Cleaned returns p with every text as Clean has it, on one line. It is nil for nil.
func (p *Problem) Cleaned() *Problem { return p.mapped(OneLine) }

func mapAll(texts []string, change func(string) string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = change(texts[i])
	}
	return texts
}
