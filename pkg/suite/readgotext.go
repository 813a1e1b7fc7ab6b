package suite

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// goText makes events of what a compiled Go test binary prints with -test.v, as cmd/test2json does: with the marks of
// -test.v=test2json (the byte SYN before a line of the framework) or without them. The zero value is ready.
type goText struct {
	tests   *goTests
	current string // the test that what is printed belongs to
	begun   bool   // a test has
	verdict string // the last line PASS or FAIL of the binary
	failed  bool   // one such line was FAIL
	crashed bool   // it has panicked, or the like, outside of a test
}

const syn = "\x16"

var (
	goFrame  = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME)\s+(\S+)$`)
	goResult = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \((\d+(?:\.\d+)?)s\)$`)
)

// line reads a whole line.
func (g *goText) line(line string) {
	line = strings.TrimRight(strings.TrimPrefix(line, syn), "\r")
	switch found, result := goFrame.FindStringSubmatch(line), goResult.FindStringSubmatch(line); {
	case found != nil:
		g.current = found[2]
		if found[1] == "RUN" {
			g.begun, g.verdict = true, ""
			g.tests.event(goEvent{Action: "run", Test: found[2]})
		}
	case result != nil && g.begun:
		seconds, _ := strconv.ParseFloat(result[3], 64)
		g.current = result[2]
		g.tests.event(goEvent{Action: strings.ToLower(result[1]), Test: result[2], Elapsed: seconds})
	case line == "PASS" || line == "FAIL":
		g.verdict, g.current = line, ""
		g.failed = g.failed || line == "FAIL"
	case g.begun && g.current == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")):
		g.crashed = true
	case g.current != "":
		g.tests.event(goEvent{Action: "output", Test: g.current, Output: line + "\n"})
	}
}

// wrong says what is missing in the output of a binary that has come to its end; empty: nothing.
func (g *goText) wrong(cases []Case) string {
	switch {
	case g.verdict == "" || g.crashed:
		return "its output ends without PASS or FAIL: it crashed, or its output is cut off"
	case g.failed && !slices.ContainsFunc(cases, Case.Failed):
		return "it ends with FAIL, and none of its tests says why"
	}
	return ""
}
