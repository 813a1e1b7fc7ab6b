package suite

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"hive-test/pkg/progress"
)

// What the cases of a suite are read of.
const (
	ByCommand = "command" // its exit code is its only case
	ByJUnit   = "junit"   // JUnit files in ARTIFACTS
	ByTAP     = "tap"     // TAP on its output
	ByGoTest  = "gotest"  // the events of `go test -json`, or what a test binary prints with -test.v
)

// outputTests reads the cases that a suite tells of on its output, in every form. The zero value is ready.
type outputTests struct {
	events goTests
	text   goText
	said   goTests // what text makes events for
	tap    tapTests

	within bool // what comes next begins within a line
	none   bool // a Go test binary has said that it had none to run
}

// take reads whole lines, or a part of one that is too long to be a result.
func (o *outputTests) take(text string) {
	o.events.take(text)
	o.text.tests = &o.said
	for line := range strings.Lines(text) {
		within := o.within
		line, whole := strings.CutSuffix(line, "\n")
		if o.within = !whole; within || !whole && len(line) >= maxText {
			continue
		}
		o.none = o.none || line == "testing: warning: no tests to run"
		o.text.line(line)
		o.tap.line(line)
	}
}

// form is what of the output tells of cases; ByCommand: nothing does.
func (o *outputTests) form() string {
	switch {
	case o.events.seen, o.text.begun, o.none:
		return ByGoTest
	case o.tap.found():
		return ByTAP
	}
	return ByCommand
}

// finish returns the cases of that form, once the suite called name has ended. What is missing is a case that failed.
func (o *outputTests) finish(ctx context.Context, form, name string) []Case {
	switch form {
	case ByTAP:
		return o.tap.finish(ctx, name)
	case ByGoTest:
		if o.events.seen {
			return placed(o.events.finish(ctx))
		}
		cases := placed(o.said.finish(ctx))
		if why := o.text.wrong(cases); why != "" && ctx.Err() == nil {
			cases = append(cases, Case{Name: name, Status: progress.Failed, Error: why, whole: true})
		}
		return cases
	}
	return nil
}

// goPlace is where a Go test says that it failed.
var goPlace = regexp.MustCompile(`(?m)^\s*([^\s:]+\.go):(\d+):`)

// placed fills in where cases failed, as far as what Go tests have printed tells.
func placed(cases []Case) []Case {
	for i, c := range cases {
		if found := goPlace.FindStringSubmatch(c.Error); found != nil && c.Failed() {
			cases[i].File = found[1]
			cases[i].Line, _ = strconv.Atoi(found[2])
		}
	}
	return cases
}

// formWords says for people what a suite's cases were read of.
func formWords(form string) string {
	return map[string]string{
		ByJUnit: "JUnit files", ByTAP: "TAP on its output", ByGoTest: "Go tests on its output",
	}[form]
}
