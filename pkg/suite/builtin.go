package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"hive-test/pkg/progress"
)

// Builtin is a suite that whoever calls Run brings along, and no command. Its cases can be chosen by their names.
type Builtin struct {
	// Cases are the names of all its cases, in the order in which results list them.
	Cases []string
	// Lacks returns what it needs and is not there; empty: nothing. Nil: it needs nothing.
	Lacks func(context.Context) (string, error)
	// Run runs the wanted cases, and others that these need. The error is for what is not the suite's own failure.
	Run func(context.Context, *Tester) error
}

// Tester is what a built-in suite tells of its cases to. It is safe for concurrent use.
type Tester struct {
	// Artifacts is a directory that is kept with the results, Private one that is removed at the end. Both are there, and
	// empty.
	Artifacts, Private string

	cases      []string
	record     *recorder
	wanted     func(string) bool // nil: all
	requireAll bool

	mu    sync.Mutex
	lacks string // what was missing last
	other bool   // a case was run, or was of no use
}

// Wanted reports whether a case was asked for.
func (t *Tester) Wanted(name string) bool { return t.wanted == nil || t.wanted(name) }

// Try runs a case, wanted or not, and reports whether it passed.
func (t *Tester) Try(ctx context.Context, name string, test func(context.Context) error) bool {
	t.noteOther()
	passed := false
	t.record.try(ctx, t.place(name), "", name, func(ctx context.Context) error {
		err := test(ctx)
		passed = err == nil
		return err
	})
	return passed
}

// Skip tells of a case that is of no use after another has failed.
func (t *Tester) Skip(name, why string) {
	t.noteOther()
	t.skip(name, why)
}

func (t *Tester) skip(name, why string) {
	t.record.add(t.place(name), "", Case{Name: name, Status: progress.Skipped, Reason: why})
}

// Lack tells of a case for which something is missing: it is skipped, or fails where all is required.
func (t *Tester) Lack(name, what string) {
	t.mu.Lock()
	t.lacks = what
	t.mu.Unlock()
	if !t.requireAll {
		t.skip(name, what)
		return
	}
	t.record.add(t.place(name), "", Case{Name: name, Status: progress.Failed, Error: "not run: " + what, run: only(name)})
}

func (t *Tester) noteOther() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.other = true
}

// Info tells people something.
func (t *Tester) Info(message string) { t.record.info(message) }

// Warn tells people of what is not as it should be.
func (t *Tester) Warn(message string) { t.record.warn(message) }

func (t *Tester) place(name string) int { return slices.Index(t.cases, name) }

// isBuiltin reports whether a suite is no command: smoke, or one that the caller has brought.
func (s Spec) isBuiltin() bool { return s.isSmoke() || s.Builtin }

// builtinLacks is what a suite that the caller has brought lacks.
func (r *runner) builtinLacks(ctx context.Context, s Spec) (string, error) {
	of, known := r.Builtins[s.Command]
	if !s.Builtin || !known || of.Lacks == nil {
		return "", nil
	}
	return of.Lacks(ctx)
}

// lackingCases are those of a suite that is not run: all that would have been, where it is known which.
func (r *runner) lackingCases(s Spec, what string) []Case {
	of, known := r.Builtins[s.Command]
	a := attempt{Spec: s}
	if !s.Builtin || !known || r.RequireAll || r.choose(&a) != nil {
		return []Case{r.lacking(s, what)}
	}
	var cases []Case
	for _, name := range of.Cases {
		if a.wanted == nil || a.wanted(name) {
			cases = append(cases, Case{Name: name, Status: progress.Skipped, Reason: what})
		}
	}
	return cases
}

// builtin runs one attempt of a suite that the caller has brought, and returns what was missing for all of its cases.
func (r *runner) builtin(ctx context.Context, a attempt, record *recorder) (lacks string, err error) {
	of, known := r.Builtins[a.Command]
	if !known {
		return "", fmt.Errorf("there is no suite %s here", a.Command)
	}
	artifacts, err := r.artifacts(a)
	if err != nil {
		return "", err
	}
	private := filepath.Join(r.PrivateDir, a.Name)
	defer func() { _ = os.RemoveAll(private) }()
	if err := errors.Join(os.RemoveAll(private), os.MkdirAll(private, 0o700)); err != nil {
		return "", fmt.Errorf("making its own directory: %w", err)
	}
	t := &Tester{
		Artifacts: artifacts, Private: private, cases: of.Cases, record: record, wanted: a.wanted, requireAll: r.RequireAll,
	}
	err = of.Run(ctx, t)
	if masked := r.known.MaskFiles(artifacts); masked != nil {
		record.warn("what it left may hold secrets: " + masked.Error())
	}
	if !t.other && !r.RequireAll {
		lacks = t.lacks
	}
	return lacks, err
}
