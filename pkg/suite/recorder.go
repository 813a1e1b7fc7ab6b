package suite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/progress"
)

// caseOutput is how much of what a case prints is kept, from its end.
const caseOutput = 4000 // bytes

// recorder keeps the cases of one suite and tells each to the sink as it ends. It is safe for concurrent use.
type recorder struct {
	suite string
	sink  progress.Sink
	mask  func(string) string // takes secrets out
	// wanted chooses among the cases of try; nil: all. excuse is what a case counts for; nil: what it is.
	wanted func(name string) bool
	excuse func(Case) Case

	mu  sync.Mutex
	all []ordered
}

// ordered is a case with its place in the result.
type ordered struct {
	place int
	Case
}

// add keeps c at place; equal places keep the order in which they came.
func (r *recorder) add(place int, node string, c Case) {
	c.Name, c.Error = r.mask(progress.Clean(c.Name)), r.mask(progress.Clean(c.Error))
	if c.Status == progress.Passed || c.Status == progress.Skipped || strings.Contains(c.Name, progress.Redacted) {
		c.run = "" // a name with a secret in it is not known here
	}
	c.Reason, c.File = r.mask(progress.Clean(c.Reason)), r.mask(progress.Clean(c.File))
	if c.Status != progress.Passed && c.Status != progress.Skipped {
		c.Output = strings.TrimRight(lastOfText(r.colored(c.Output), caseOutput), "\n")
	} else {
		c.Output = ""
	}
	c.place, c.node = place, node
	if r.excuse != nil {
		c = r.excuse(c)
	}
	r.mu.Lock()
	r.all = append(r.all, ordered{place, c})
	r.mu.Unlock()
	r.sink.Emit(progress.Event{
		Kind: progress.Case, Suite: r.suite, Node: node,
		Name: c.Name, Status: c.Status, Seconds: c.Seconds, Error: c.Error, Output: c.Output, Place: place,
		Message: c.Reason, File: c.File, Line: c.Line, Run: c.run,
	})
}

// colored returns text without secrets, with its colours; without them where a secret has some within it.
func (r *recorder) colored(text string) string {
	colored, plain := r.mask(progress.CleanButColors(text)), r.mask(progress.Clean(text))
	if progress.Clean(colored) != plain {
		return plain
	}
	return colored
}

// info tells people of the suite.
func (r *recorder) info(message string) {
	r.sink.Emit(progress.Event{Kind: progress.Info, Suite: r.suite, Message: progress.Clean(message)})
}

// try runs one case.
func (r *recorder) try(ctx context.Context, place int, node, name string, test func(context.Context) error) {
	if r.wanted != nil && !r.wanted(name) {
		return
	}
	start := time.Now()
	err := test(ctx)
	c := Case{Name: name, Status: progress.Passed, Seconds: time.Since(start).Seconds(), run: only(name)}
	if err != nil {
		c.Status, c.Error = progress.Failed, err.Error()
		if errors.Is(err, context.Canceled) {
			c.Status = endStatus(ctx)
		}
	}
	r.add(place, node, c)
}

// quiet passes on what is for people, and no cases.
func (r *recorder) quiet() progress.Sink {
	return progress.SinkFunc(func(e progress.Event) {
		if e.Kind != progress.Case {
			r.sink.Emit(e)
		}
	})
}

func (r *recorder) warn(message string) {
	r.sink.Emit(progress.Event{Kind: progress.Warning, Suite: r.suite, Message: progress.Clean(message)})
}

func (r *recorder) cases() []Case {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.all, func(a, b ordered) int { return cmp.Compare(a.place, b.place) })
	cases := make([]Case, len(r.all))
	for i, c := range r.all {
		cases[i] = c.Case
	}
	return cases
}
