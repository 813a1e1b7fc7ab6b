package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/opentofu"
)

// thing is a resource at the endpoint.
type thing struct {
	kind kind
	id   string
}

func (t thing) String() string { return t.kind.noun + " " + t.id }

// made returns what the calls of a stack have made, whatever became of it, by the answers of the endpoint.
func made(calls []Call) []thing {
	var all []thing
	for _, k := range kinds() {
		for _, c := range calls {
			if c.Action != k.create || c.failed() {
				continue
			}
			for _, id := range c.ids {
				all = append(all, thing{k, id})
			}
		}
	}
	return all
}

// createdBy returns the ids of what a call has made.
func createdBy(action string, out wire.Object) []string {
	for _, k := range kinds() {
		if k.create == action {
			return out.At(k.createdID)
		}
	}
	return nil
}

// left returns what of a stack is still there: what its calls have made, and what carries its name. The error tells of
// what could not be found out.
func (s *stackRun) left(ctx context.Context) ([]thing, error) {
	var found []thing
	var problems []error
	mine := made(s.record.of(s.stack.Name, ""))
	for _, k := range kinds() {
		ids, err := k.named(ctx, s.client, s.name)
		if err != nil && slices.ContainsFunc(mine, func(t thing) bool { return t.kind.name == k.name }) {
			problems = append(problems, err)
		}
		for _, t := range mine {
			if t.kind.name != k.name || slices.Contains(ids, t.id) {
				continue
			}
			one, err := k.find(ctx, s.client, t.id)
			if err != nil {
				problems = append(problems, err)
			}
			if one != nil {
				ids = append(ids, t.id)
			}
		}
		for _, id := range ids {
			found = append(found, thing{k, id})
		}
	}
	return found, errors.Join(problems...)
}

// sweep deletes by calls of our own what is left of a stack, and returns what was there. The error names what remains.
func (s *stackRun) sweep(ctx context.Context) ([]thing, error) {
	things, err := s.left(ctx)
	problems := []error{err}
	for _, t := range things {
		if err := t.kind.delete(ctx, s.client, t.id); err != nil {
			problems = append(problems, fmt.Errorf("%s remains: %w", t, err))
		}
	}
	return things, errors.Join(problems...)
}

// deleteLost deletes what calls of the stack have made, is there, and is not in tofu's state.
func (s *stackRun) deleteLost(ctx context.Context) {
	resources, err := opentofu.ReadState(opentofu.StatePath(s.dir))
	if err != nil {
		return // the destroy tells
	}
	known := map[string]bool{}
	for _, r := range resources {
		var a attributes
		if json.Unmarshal(r.Attributes, &a) == nil {
			known[a.text("id")] = true
		}
	}
	var lost []thing
	for _, t := range made(s.record.of(s.stack.Name, "")) {
		one, err := t.kind.find(ctx, s.client, t.id)
		if known[t.id] || err != nil || one == nil {
			continue
		}
		limited, cancel := context.WithTimeoutCause(ctx, sweepTime, errors.New("the time for cleaning up is over"))
		if t.kind.delete(limited, s.client, t.id) == nil {
			lost = append(lost, t)
		}
		cancel()
	}
	if len(lost) > 0 {
		s.t.Info(fmt.Sprintf("stack %s: deleted what tofu had lost: %s", s.stack.Name, listed(lost)))
	}
}
