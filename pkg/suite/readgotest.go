package suite

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/progress"
)

// goTests makes cases of the events that `go test -json` prints: every test and subtest is one, called Package/Test,
// and so is a package that fails by itself. Other lines may be in between. The zero value is ready.
type goTests struct {
	cases  []Case
	begun  []string          // names of tests and packages that have not ended, in their order
	tests  map[string]string // what is a test of them, by these names
	wrote  map[string]string
	builds map[string]string // what compilers wrote, by import path
	failed map[string]bool   // packages with tests that failed
	seen   bool              // an event has come
}

// goEvent is what is read of an event, as cmd/test2json describes it.
type goEvent struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64 // seconds
	Output      string
	ImportPath  string // of what is built
	FailedBuild string
}

// take reads whole lines.
func (g *goTests) take(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "{") || !strings.Contains(line, `"Action"`) {
			continue
		}
		var e goEvent
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			g.event(e)
		}
	}
}

func (g *goTests) event(e goEvent) {
	if g.wrote == nil {
		g.wrote, g.builds, g.failed = map[string]string{}, map[string]string{}, map[string]bool{}
		g.tests = map[string]string{}
	}
	name := e.Package
	if e.Test != "" {
		name = strings.TrimPrefix(e.Package+"/"+e.Test, "/") // test2json alone is told no package
	}
	if name == "" && e.ImportPath == "" {
		return // of another program
	}
	g.seen = true
	switch e.Action {
	case "start", "run":
		g.tests[name] = e.Test
		g.begin(name)
	case "output":
		g.wrote[name] = lastOfText(g.wrote[name]+e.Output, caseOutput)
	case "build-output":
		g.builds[e.ImportPath] = lastOfText(g.builds[e.ImportPath]+e.Output, caseOutput)
	case "pass", "fail", "skip":
		g.end(name, e)
	}
}

func (g *goTests) begin(name string) {
	if !slices.Contains(g.begun, name) {
		g.begun = append(g.begun, name)
	}
}

func (g *goTests) end(name string, e goEvent) {
	c := Case{Name: name, Status: progress.Passed, Seconds: max(e.Elapsed, 0), test: topTest(e.Test), run: onlyGo(e.Test)}
	switch e.Action {
	case "skip":
		c.Status, c.Reason = progress.Skipped, skipReason(g.wrote[name])
	case "fail":
		c.Output = g.builds[e.FailedBuild] + g.wrote[name]
		c.Status, c.Error = progress.Failed, cmp.Or(reasons(g.builds[e.FailedBuild]), reasons(g.wrote[name]), "failed")
	}
	g.begun = slices.DeleteFunc(g.begun, func(s string) bool { return s == name })
	delete(g.wrote, name)
	if e.Test == "" && c.Status == progress.Failed && g.failed[e.Package] && !endedWell(c.Output) {
		c.Error, c.whole = "it ended before all of its tests had run: "+c.Error, true
		g.cases = append(g.cases, c)
		return
	}
	if e.Test == "" && (c.Status != progress.Failed || g.failed[e.Package]) {
		return // its tests tell
	}
	c.whole = e.Test == ""
	if c.Status == progress.Failed {
		g.failed[e.Package] = true
	}
	g.cases = append(g.cases, c)
}

// endedWell reports whether a package that failed came to its end, by what it has printed itself: one that panics, or
// exits, has no line FAIL of its own before that of the go command.
func endedWell(output string) bool {
	return slices.Contains(strings.Split(output, "\n"), "FAIL")
}

// topTest is the name of the test that go test can be told to run, of that of a subtest.
func topTest(name string) string {
	top, _, _ := strings.Cut(name, "/")
	return top
}

// finish are the cases once the suite has ended. A test that has begun and not ended has not passed.
func (g *goTests) finish(ctx context.Context) []Case {
	for _, name := range g.begun {
		c := Case{
			Name: name, Status: progress.Failed, Output: g.wrote[name], run: onlyGo(g.tests[name]),
			Error: strings.TrimSpace("it has begun and not ended\n" + reasons(g.wrote[name])),
		}
		if ctx.Err() != nil {
			c.Status = endStatus(ctx)
		}
		g.cases = append(g.cases, c)
	}
	g.begun = nil
	return g.cases
}

// reasons is what a test wrote, without the lines that only frame it.
func reasons(text string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		line = strings.TrimSpace(line)
		return line == "" || line == "FAIL" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ")
	})
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// goLog is how a line begins that a test has logged.
var goLog = regexp.MustCompile(`(?m)^\s*[^\s:]+\.go:\d+: `)

// skipReason is what a test has logged last, which is why it is skipped, in one line.
func skipReason(text string) string {
	at := goLog.FindAllStringIndex(text, -1)
	if len(at) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(reasons(text[at[len(at)-1][1]:])), " ")
}

// lastOfText is the end of a text, in whole lines where it is cut.
func lastOfText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, rest, found := strings.Cut(text, "\n"); found {
		return rest
	}
	return strings.ToValidUTF8(text, "")
}
