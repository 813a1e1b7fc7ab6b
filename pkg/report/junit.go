package report

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/progress"
)

// phasesSuite is the name of the suite that has a case per phase.
const phasesSuite = "phases"

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string `xml:"name,attr"`
	Tests      int    `xml:"tests,attr"`
	Failures   int    `xml:"failures,attr"`
	Errors     int    `xml:"errors,attr"`
	Skipped    int    `xml:"skipped,attr"`
	Time       string `xml:"time,attr"`
	Timestamp  string `xml:"timestamp,attr,omitempty"`
	Properties *junitProperties
	Cases      []junitCase `xml:"testcase"`
	seconds    float64
}

type junitProperties struct {
	XMLName xml.Name        `xml:"properties"`
	List    []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	ClassName string        `xml:"classname,attr"`
	Name      string        `xml:"name,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitProblem `xml:"failure"`
	Error     *junitProblem `xml:"error"`
	Skipped   *string       `xml:"skipped"`
	Output    string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"` // the code of the problem
	Text    string `xml:",chardata"`
}

// JUnit returns r as JUnit XML: a suite "phases" with a case per phase, so that a cluster that never formed is seen by
// whatever reads the file, and a suite per suite of test cases. What failed is a failure, what was interrupted an
// error. The result is well-formed whatever bytes names and messages contain, and uses only what the schemas that
// Jenkins checks by know: all have skipped on a testsuite only, and some no attribute of a case's skipped.
func JUnit(r Report) []byte {
	suites := []junitSuite{phaseSuite(r)}
	for _, c := range r.Cases {
		i := slices.IndexFunc(suites[1:], func(s junitSuite) bool { return s.Name == suiteName(c) }) + 1
		if i == 0 {
			suites = append(suites, junitSuite{Name: suiteName(c)})
			i = len(suites) - 1
		}
		suites[i].add(caseOf(r, c), c.Seconds)
	}
	all := junitSuites{Name: progress.OneLine("hive-test " + r.Verb + " " + r.Cluster), Time: junitSeconds(r.Seconds)}
	for i := range suites {
		s := &suites[i]
		s.Time, s.Timestamp = junitSeconds(s.seconds), timestamp(r.Started)
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
	}
	all.Suites = suites
	return encodeXML(all)
}

func encodeXML(v any) []byte {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	encoder := xml.NewEncoder(&b)
	encoder.Indent("", "  ")
	// Structs of strings and integers always encode, and a buffer does not fail; the tests' fuzzing holds that.
	_ = encoder.Encode(v)
	b.WriteByte('\n')
	return b.Bytes()
}

func phaseSuite(r Report) junitSuite {
	s := junitSuite{Name: phasesSuite, Properties: &junitProperties{List: []junitProperty{
		{"cluster", progress.OneLine(r.Cluster)},
		{"verb", progress.OneLine(r.Verb)},
		{"result", progress.OneLine(string(r.Result))},
		{"exit_code", strconv.Itoa(r.ExitCode)},
		{"run_dir", progress.OneLine(r.RunDir)},
	}}}
	for _, p := range r.Phases {
		c := junitCase{ClassName: className(r, phasesSuite), Name: progress.OneLine(p.Name), Time: junitSeconds(p.Seconds)}
		text := p.Error
		if p.Hint != "" {
			text += "\nhint: " + p.Hint
		}
		code := ""
		if p.Problem != nil {
			code = progress.OneLine(p.Problem.Code)
		}
		c.judge(p.Status, code, text, p.Message)
		c.Output = progress.Clean(stepsText(p.Steps))
		s.add(c, p.Seconds)
	}
	return s
}

func stepsText(steps []Step) string {
	var b strings.Builder
	for _, step := range steps {
		if step.Node != "" {
			b.WriteString(step.Node + ": ")
		}
		b.WriteString(step.Name + " " + string(step.Status) + " " + progress.FormatSeconds(step.Seconds) + "\n")
	}
	return b.String()
}

func caseOf(r Report, c Case) junitCase {
	name := c.Name
	if c.Node != "" && !strings.Contains(name, c.Node) {
		name += " [" + c.Node + "]" // two nodes' cases would be one case to most readers
	}
	j := junitCase{ClassName: className(r, suiteName(c)), Name: progress.OneLine(name), Time: junitSeconds(c.Seconds)}
	j.judge(c.Status, "", c.Error, c.Message)
	if c.Status != progress.Skipped {
		j.Output = progress.Clean(c.Message)
	}
	return j
}

func (c *junitCase) judge(status progress.Status, code, text, reason string) {
	problem := &junitProblem{Message: progress.FirstLine(text), Type: code, Text: progress.Clean(text)}
	switch status {
	case progress.Passed:
	case progress.Skipped:
		line := progress.OneLine(reason)
		c.Skipped = &line
	case progress.Interrupted:
		problem.Message = cmp.Or(problem.Message, "interrupted")
		c.Error = problem
	default:
		problem.Message = cmp.Or(problem.Message, "failed")
		c.Failure = problem
	}
}

func (s *junitSuite) add(c junitCase, seconds float64) {
	s.Tests++
	s.seconds += seconds
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

func suiteName(c Case) string {
	return cmp.Or(progress.OneLine(c.Suite), "tests")
}

func className(r Report, suite string) string {
	if r.Cluster == "" {
		return suite
	}
	return progress.OneLine(r.Cluster + "." + suite)
}

func junitSeconds(f float64) string {
	if f != f || f < 0 || f > 1e12 {
		f = 0
	}
	return strconv.FormatFloat(f, 'f', 3, 64)
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05") // xs:dateTime without a zone, as the common JUnit schema has it
}
