package progress

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stepError is an error of nodes, as hive's steps have it.
type stepError struct{ reasons []Reason }

func (e *stepError) Error() string       { return "joining failed" + fmt.Sprint(e.reasons) }
func (e *stepError) Code() string        { return "step-failed" }
func (e *stepError) Summary() string     { return "joining failed" }
func (e *stepError) Reasons() []Reason   { return e.reasons }
func (e *stepError) NodeNames() []string { return []string{"ci-2", "ci-3"} }

type logged struct{ error }

func (logged) LogPath() string { return "tofu.log" }

func TestProblems(t *testing.T) {
	both := &stepError{[]Reason{{Node: "ci-2", Cause: "409\nmore", Lines: []string{"a"}}, {Node: "ci-3", Cause: "500"}}}
	reasons := []Reason{{Node: "ci-2", Cause: "409", Lines: []string{"a"}}, {Node: "ci-3", Cause: "500"}}
	for name, c := range map[string]struct {
		err  error
		want Problem
	}{
		"a plain one": {errors.New("no space\nleft"), Problem{
			Cause: "no space", Reasons: []Reason{{Cause: "no space"}},
		}},
		"words around": {
			fmt.Errorf("create the VMs: %w", fmt.Errorf("apply: %w", errors.New("409"))),
			Problem{Context: []string{"create the VMs", "apply"}, Cause: "409", Reasons: []Reason{{Cause: "409"}}},
		},
		"words after": {
			fmt.Errorf("a: %w (b)", errors.New("409")),
			Problem{Cause: "a: 409 (b)", Reasons: []Reason{{Cause: "a: 409 (b)"}}},
		},
		"node and hint": {
			fmt.Errorf("up: %w", WithHint(WithNodes(errors.New("ci-1: gone"), "ci-1"), "do")),
			Problem{
				Nodes: []string{"ci-1"}, Context: []string{"up"}, Cause: "ci-1: gone",
				Reasons: []Reason{{Cause: "ci-1: gone"}}, Hint: "do",
			},
		},
		"several": {
			fmt.Errorf("up: %w", errors.Join(errors.New("a"), nil, fmt.Errorf("x: %w", errors.New("b")))),
			Problem{Context: []string{"up"}, Cause: "a; x: b", Reasons: []Reason{{Cause: "a"}, {Cause: "x: b"}}},
		},
		"one joined": {
			errors.Join(fmt.Errorf("up: %w", errors.New("a")), nil),
			Problem{Context: []string{"up"}, Cause: "a", Reasons: []Reason{{Cause: "a"}}},
		},
		"a step and more": {
			errors.Join(errors.New("interrupted"), both),
			Problem{
				Code: "step-failed", Nodes: []string{"ci-2", "ci-3"}, Cause: "interrupted; ci-2: 409; ci-3: 500",
				Reasons: append([]Reason{{Cause: "interrupted"}}, reasons...),
			},
		},
		"a list in a text": {
			fmt.Errorf("%w: %w", errors.New("a"), context.Canceled),
			Problem{Cause: "a: context canceled", Reasons: []Reason{{Cause: "a: context canceled"}}},
		},
		"a step of nodes": {
			fmt.Errorf("configure: %w", both),
			Problem{
				Code: "step-failed", Nodes: []string{"ci-2", "ci-3"}, Context: []string{"configure", "joining failed"},
				Cause: "ci-2: 409; ci-3: 500", Reasons: reasons,
			},
		},
		"a log": {
			fmt.Errorf("up: %w", logged{errors.New("x")}),
			Problem{Context: []string{"up"}, Cause: "x", Reasons: []Reason{{Cause: "x"}}, Log: "tofu.log"},
		},
	} {
		if diff := cmp.Diff(&c.want, ProblemOf(c.err)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	if e := (Event{Step: "a"}).WithError(nil); e.Problem != nil || e.Error != "" || e.Failure() != nil {
		t.Errorf("got %+v", e)
	}
}

func TestAProblemIsReportedOnce(t *testing.T) {
	space := errors.New("no space")
	step, worded := (Event{}).WithError(space), (Event{}).WithError(fmt.Errorf("install: %w", space))
	for _, c := range []struct {
		err  error
		want bool
	}{
		{space, true},
		{fmt.Errorf("configure: install: %w", space), true},
		{errors.New("another: no space"), false},
		{fmt.Errorf("both: %w", errors.Join(space, space)), true},
		{errors.Join(space, errors.New("something else")), false},
		{fmt.Errorf("configure: %w", ErrTimeUp), false},
	} {
		if got := (Event{}).WithError(c.err).Failure().ReportedIn(step.Failure()); got != c.want {
			t.Errorf("%v: reported %v", c.err, got)
		}
	}
	for words, want := range map[string]bool{"install": true, "another": false} {
		p := ProblemOf(fmt.Errorf("configure: %w", fmt.Errorf("%s: %w", words, space)))
		if got := p.ReportedIn(worded.Problem); got != want {
			t.Errorf("%s: reported %v", words, got)
		}
	}
	if old := (Event{Error: "no space"}); !old.Failure().ReportedIn(step.Failure()) || old.Failure().ReportedIn() {
		t.Error("the text of an earlier release is compared with others")
	}
}

func TestProblemsHideSecrets(t *testing.T) {
	both := &stepError{[]Reason{{Node: "ci-2", Cause: "said hush-hush", Lines: []string{"a hush-hush"}}}}
	e := (Event{}).WithError(WithHint(fmt.Errorf("with hush-hush: %w", both), "no hush-hush"))
	var got Event
	Redact(SinkFunc(func(e Event) { got = e }), knownSecrets("hush-hush")).Emit(e)
	want := &Problem{
		Code: "step-failed", Nodes: []string{"ci-2", "ci-3"}, Context: []string{"with " + Redacted, "joining failed"},
		Cause: "ci-2: said " + Redacted, Hint: "no " + Redacted,
		Reasons: []Reason{{Node: "ci-2", Cause: "said " + Redacted, Lines: []string{"a " + Redacted}}},
	}
	if diff := cmp.Diff(want, got.Problem); diff != "" || e.Problem.Cause != "ci-2: said hush-hush" {
		t.Error(diff)
	}
}
