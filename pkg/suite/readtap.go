package suite

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"hive-test/pkg/progress"
)

// tapTests makes cases of TAP, of version 13 or 14 (testanything.org), on a suite's output. Other lines may be in
// between. A subtest's cases are called after its test point: parent/child. The zero value is ready.
type tapTests struct {
	version bool
	planned int  // what the plan promises; meant only where there is one
	plan    bool // one has come
	points  int  // that have come, on the level of the plan
	ended   bool // nothing may follow: the plan came last
	numbers map[int]bool
	highest int
	nested  []Case // of a subtest whose own test point has not come
	below   int    // test points of the subtest itself, without those of its own subtests
	belowOf int    // what the subtest's plan promises

	belowPlan bool // it has one
	cases     []Case
	wrong     []string // what is not as TAP promises
	bailed    string
	block     bool // a YAML block is open
}

var (
	tapPlan  = regexp.MustCompile(`^1\.\.(\d{1,9})(?:\s*#\s*(.*))?$`)
	tapPoint = regexp.MustCompile(`^(not )?ok(?:\s+(\d{1,9})\b)?(?:\s*-\s|\s|$)\s*(.*)$`)
	// An escaped # is no directive.
	tapDirective = regexp.MustCompile(`(?i)(?:^|[^\\])#\s*(skip|todo)\S*\s*(.*)$`)
)

// tapBlock is how much of the YAML blocks and comments below a failed test point is kept, from its end.
const tapIndent = 4

// line reads a whole line.
func (t *tapTests) line(line string) {
	text := strings.TrimLeft(line, " ")
	depth := len(line) - len(text)
	switch {
	case t.block && strings.TrimSpace(line) == "...":
		t.block = false
		return
	case t.block:
		t.detail(text)
		return
	case t.started() && strings.TrimSpace(line) == "---" && depth > 0:
		t.block = true
		return
	case depth >= tapIndent:
		t.subtest(strings.TrimRight(text, " \r"), depth < 2*tapIndent)
		return
	case depth > 0:
		return
	}
	t.top(strings.TrimRight(text, " \r"))
}

func (t *tapTests) started() bool { return t.version || t.plan || t.points > 0 }

// found reports whether the output is TAP: it has a version or a plan.
func (t *tapTests) found() bool { return t.version || t.plan }

func (t *tapTests) top(text string) {
	switch {
	case text == "TAP version 13" || text == "TAP version 14":
		t.version = true
	case strings.HasPrefix(text, "Bail out!"):
		t.bailed = cmp.Or(strings.TrimSpace(strings.TrimPrefix(text, "Bail out!")), "it says no more")
	case tapPlan.MatchString(text):
		t.takePlan(tapPlan.FindStringSubmatch(text))
	case tapPoint.MatchString(text):
		t.takePoint(tapPoint.FindStringSubmatch(text))
	case strings.HasPrefix(text, "#"):
		t.detail(strings.TrimSpace(strings.TrimPrefix(text, "#")))
	}
}

func (t *tapTests) takePlan(found []string) {
	if t.plan {
		t.wrong = append(t.wrong, "there is a second plan, "+found[0])
		return
	}
	t.plan, t.ended = true, t.points > 0
	t.planned, _ = strconv.Atoi(found[1])
	if t.planned == 0 {
		why := found[2]
		if m := tapDirective.FindStringSubmatch("#" + why); m != nil {
			why = m[2]
		}
		t.cases = append(t.cases, Case{Name: "all", Status: progress.Skipped, Reason: why})
	}
}

func (t *tapTests) takePoint(found []string) {
	if t.ended {
		t.wrong = append(t.wrong, "a test follows its plan, which came last: "+found[0])
	}
	t.points++
	number := t.points
	if found[2] != "" {
		number, _ = strconv.Atoi(found[2])
	}
	switch {
	case t.numbers[number]:
		t.wrong = append(t.wrong, fmt.Sprintf("test %d is there twice", number))
	case t.plan && (number > t.planned || number == 0):
		t.wrong = append(t.wrong, fmt.Sprintf("there is a test %d, and the plan is 1..%d", number, t.planned))
	}
	t.highest = max(t.highest, number)
	if t.numbers == nil {
		t.numbers = map[int]bool{}
	}
	t.numbers[number] = true
	c := tapCase(found, strconv.Itoa(number))
	for _, nested := range t.nested {
		nested.Name = c.Name + "/" + nested.Name
		t.cases = append(t.cases, nested)
	}
	if t.belowPlan && t.below != t.belowOf {
		t.wrong = append(t.wrong, fmt.Sprintf("the plan of subtest %s promises %d tests, and %d came", c.Name, t.belowOf, t.below))
	}
	t.nested, t.below, t.belowOf, t.belowPlan = nil, 0, 0, false
	t.cases = append(t.cases, c)
}

// subtest reads a line of a subtest, whose cases belong to the next test point around it.
// Direct says that it is a line of the outermost subtest.
func (t *tapTests) subtest(text string, direct bool) {
	found := tapPoint.FindStringSubmatch(text)
	if plan := tapPlan.FindStringSubmatch(text); plan != nil && direct {
		t.belowOf, _ = strconv.Atoi(plan[1])
		t.belowPlan = true
		return
	}
	if why, bails := strings.CutPrefix(text, "Bail out!"); bails && (t.started() || t.belowPlan) {
		t.bailed = cmp.Or(strings.TrimSpace(why), "it says no more")
		return
	}
	if found == nil {
		if comment, is := strings.CutPrefix(text, "#"); is {
			t.detail(strings.TrimSpace(comment))
		}
		return
	}
	if direct {
		t.below++
	}
	t.nested = append(t.nested, tapCase(found, cmp.Or(found[2], strconv.Itoa(len(t.nested)+1))))
}

// tapCase is what a test point says.
func tapCase(found []string, number string) Case {
	name, status, reason := found[3], progress.Passed, ""
	if found[1] != "" {
		status = progress.Failed
	}
	if at := tapDirective.FindStringSubmatchIndex(found[3]); at != nil {
		word := strings.ToLower(found[3][at[2]:at[3]])
		reason, name = found[3][at[4]:at[5]], found[3][:strings.LastIndex(found[3][:at[2]], "#")]
		switch { // a TODO that fails is as expected
		case word == "skip" && status == progress.Passed:
			status = progress.Skipped
		case word == "todo" && status == progress.Failed:
			status, reason = progress.Skipped, strings.TrimSpace("to do: "+reason)
		default:
			reason = ""
		}
	}
	name = strings.ReplaceAll(strings.TrimSpace(name), `\#`, "#")
	c := Case{Name: cmp.Or(name, "test "+number), Status: status, Reason: reason}
	if c.Failed() {
		c.Error = "not ok " + number
	}
	return c
}

// detail is what is said of the last test point.
func (t *tapTests) detail(text string) {
	list := t.cases
	if len(t.nested) > 0 {
		list = t.nested
	}
	if len(list) == 0 {
		return
	}
	c := &list[len(list)-1]
	if !c.Failed() {
		return
	}
	if c.Output == "" { // the first line says most
		c.Error = text
	}
	c.Output = lastOfText(c.Output+text+"\n", caseOutput)
	key, value, _ := strings.Cut(strings.TrimSpace(text), ":")
	value = strings.Trim(strings.TrimSpace(value), `"'`)
	switch key {
	case "message":
		c.Error = cmp.Or(value, c.Error)
	case "file":
		c.File = value
	case "line":
		c.Line, _ = strconv.Atoi(value)
	}
}

// finish returns the cases once the suite has ended. What is not as TAP promises is a case that failed, called name.
func (t *tapTests) finish(ctx context.Context, name string) []Case {
	switch {
	case ctx.Err() != nil: // what it lacks is no fault of its own
		return append(t.cases, t.nested...)
	case t.bailed != "":
		t.wrong = append(t.wrong, "it bailed out: "+t.bailed)
	case !t.plan:
		t.wrong = append(t.wrong, "its output ends without a plan: it is cut off")
	case t.points != t.planned && (t.points < t.planned || len(t.wrong) == 0):
		t.wrong = append(t.wrong, fmt.Sprintf("its plan promises %d tests, and %d came", t.planned, t.points))
	case t.highest > t.planned && len(t.wrong) == 0:
		t.wrong = append(t.wrong, fmt.Sprintf("there is a test %d, and the plan is 1..%d", t.highest, t.planned))
	}
	if t.block {
		t.wrong = append(t.wrong, "its output ends within a YAML block: it is cut off")
	}
	cases := t.cases
	for _, c := range t.nested {
		t.wrong = append(t.wrong, "the subtest with "+c.Name+" has not ended")
		cases = append(cases, c)
	}
	if len(t.wrong) == 0 {
		return cases
	}
	c := Case{Name: name, Status: progress.Failed, Error: strings.Join(t.wrong, "; "), whole: true}
	return append(cases, c)
}
