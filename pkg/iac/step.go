package iac

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/wait"
)

// Verdict is what an endpoint does of a part of a resource's life.
type Verdict string

// Verdicts, from the best to the worst.
const (
	Works      Verdict = "works"
	Stub       Verdict = "stub"        // it answers, and does not keep or tell what it was asked for
	WrongShape Verdict = "wrong shape" // it answers what the provider cannot read, or without what it reads
	Missing    Verdict = "missing"     // it does not know the action
	Fails      Verdict = "fails"       // it refuses what is right
	Blocked    Verdict = "blocked"     // it was not asked: what the part needs is not there
)

func verdicts() []Verdict { return []Verdict{Works, Stub, WrongShape, Missing, Fails, Blocked} }

// step is a part of a resource's life that is being tried. After the first thing that is not as the provider needs it,
// nothing more is done.
type step struct {
	*run
	ctx context.Context
	sdk SDK

	persist bool // go on after what is not as it should be: what was made is to be deleted
	// answered says that the last call of do was not refused.
	answered bool

	verdict Verdict
	call    string // that has decided
	why     string
	read    []any // what was read, to be compared
}

// fail notes what is not as it should be; the first counts.
func (s *step) fail(v Verdict, call, format string, args ...any) {
	if s.verdict == "" {
		s.verdict, s.call, s.why = v, call, fmt.Sprintf(format, args...)
	}
}

func (s *step) failed() bool { return s.verdict != "" }

// mostTries is how often a call is made that is throttled, or fails by the endpoint's fault.
const mostTries = 8

// ask makes a call, and makes it again as SDKs do, within the patience.
func (s *step) ask(ctx context.Context, action string, in wire.Object) (out wire.Object, err error) {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	for try := range (wait.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second}).Tries(waiting) {
		if out, err = s.endpoint.Call(ctx, s.sdk, action, in); try == mostTries || !Again(err) {
			break
		}
	}
	return out, err
}

// do makes a call that must succeed.
func (s *step) do(action string, in wire.Object) wire.Object {
	if s.failed() && !s.persist {
		return nil
	}
	out, err := s.ask(s.ctx, action, in)
	if s.answered = err == nil; !s.answered {
		s.judge(action, err)
		return nil
	}
	return out
}

// judge tells what an error says of the endpoint.
func (s *step) judge(action string, err error) {
	if shape, ok := errors.AsType[shapeError](err); ok {
		s.fail(WrongShape, action, "%v", shape.error)
		return
	}
	if failure, ok := errors.AsType[*wire.Error](err); ok {
		if failure.Code == wire.InvalidAction || failure.Code == "UnknownOperationException" {
			s.fail(Missing, action, "%s", failure.Code)
			return
		}
		s.fail(Fails, action, "%d %s: %s", failure.Status, failure.Code, failure.Message)
		return
	}
	s.fail(Fails, action, "%v", err)
}

// refused makes a call that must fail with one of the codes.
func (s *step) refused(action string, in wire.Object, codes ...string) {
	if s.failed() {
		return
	}
	_, err := s.ask(s.ctx, action, in)
	failure, isFailure := errors.AsType[*wire.Error](err)
	switch {
	case err == nil:
		s.fail(Stub, action, "answered well, and should have failed with %s", codes[0])
	case isFailure && slices.Contains(codes, failure.Code):
	case isFailure && failure.Code != wire.InvalidAction:
		s.fail(Fails, action, "answered %s in place of %s", failure.Code, codes[0])
	default:
		s.judge(action, err)
	}
}

// tolerated makes a call that may fail with one of the codes.
func (s *step) tolerated(action string, in wire.Object, codes ...string) {
	if s.failed() {
		return
	}
	_, err := s.ask(s.ctx, action, in)
	failure, isFailure := errors.AsType[*wire.Error](err)
	if err != nil && (!isFailure || !slices.Contains(codes, failure.Code)) {
		s.judge(action, err)
	}
}

// id notes the id of what was made, from a path of an answer.
func (s *step) id(name string, out wire.Object, action, path string) {
	if s.failed() {
		return
	}
	found := out.At(path)
	if len(found) != 1 || found[0] == "" {
		s.fail(WrongShape, action, "the answer has no %s", path)
		return
	}
	s.ids[name] = found[0]
}

// found notes the first name that an answer has at a path, where it has one: others take it, though more is not as it
// should be.
func (s *step) found(name string, out wire.Object, path string) {
	if found := out.At(path); len(found) > 0 {
		s.ids[name] = found[0]
	}
}

// one makes a call that must find exactly one element in a list, as the provider's finders want it.
func (s *step) one(action string, in wire.Object, list string) wire.Object {
	out := s.do(action, in)
	if s.failed() {
		return nil
	}
	found := out.Objects(list)
	switch {
	case len(found) == 0:
		s.fail(Stub, action, "nothing is found of what was made")
		return nil
	case len(found) > 1:
		s.fail(Stub, action, "%d are found with filters or ids that only one has", len(found))
		return nil
	}
	s.read = append(s.read, found[0])
	return found[0]
}

// has is a member that the provider reads: it must be there.
func (s *step) has(o wire.Object, action string, paths ...string) {
	for _, path := range paths {
		if !s.failed() && len(o.At(path)) == 0 {
			s.fail(WrongShape, action, "the answer has no %s", path)
		}
	}
}

// is is a member that must have the value that was asked for: else the provider finds a difference at the next plan.
func (s *step) is(o wire.Object, action, path, want string) {
	if s.failed() {
		return
	}
	if found := o.At(path); !slices.Contains(found, want) {
		s.fail(Stub, action, "%s is %q, and should be %q", path, strings.Join(found, ", "), want)
	}
}

// only is a member that must have the values that were asked for, in any order, and no others.
func (s *step) only(o wire.Object, action, path string, want ...string) {
	if s.failed() {
		return
	}
	found, wanted := slices.Sorted(slices.Values(o.At(path))), slices.Sorted(slices.Values(want))
	if !slices.Equal(found, wanted) {
		s.fail(Stub, action, "%s is %q, and should be %q", path, strings.Join(found, ", "), strings.Join(wanted, ", "))
	}
}

// until makes a call until a path of the answer has a value.
func (s *step) until(action string, in wire.Object, path, want string) {
	s.poll(action, in, func(out wire.Object, err error) (bool, string) {
		found := out.At(path)
		return slices.Contains(found, want), fmt.Sprintf("%s is %q, and never %q", path, strings.Join(found, ", "), want)
	})
}

// gone makes a call until it fails with a code, or finds nothing in a list, where one is named.
func (s *step) gone(action string, in wire.Object, list, code string) {
	s.poll(action, in, func(out wire.Object, err error) (bool, string) {
		failure, _ := errors.AsType[*wire.Error](err)
		ended := failure != nil && failure.Code == code || err == nil && list != "" && len(out.Objects(list)) == 0
		return ended, "what was deleted is still told of, and never " + cmp.Or(code, "gone")
	})
}

// poll makes a call until done reports that the answer is what is waited for. Errors end it, but for one that done takes.
func (s *step) poll(action string, in wire.Object, done func(wire.Object, error) (bool, string)) {
	// What a deletion has begun is waited for, whatever failed before it: what is deleted next may depend on it.
	if s.failed() && !(s.persist && s.answered) {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	why := ""
	for range (wait.Backoff{First: 20 * time.Millisecond, Max: time.Second}).Tries(ctx) {
		out, err := s.ask(ctx, action, in)
		if ctx.Err() != nil {
			break
		}
		var ended bool
		if ended, why = done(out, err); ended {
			return
		}
		if err != nil {
			s.judge(action, err)
			return
		}
	}
	s.fail(Stub, action, "%s after %s", why, s.patience)
}

// same reports whether two reads have found the same.
func same(first, second []any) bool {
	a, _ := json.Marshal(first) // what was read from a document can be written as one
	b, _ := json.Marshal(second)
	return string(a) == string(b)
}
