package report

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// runSuite is the name of the suite that has one case: the run itself.
const runSuite = "hive-test"

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
	Flaky     *junitProblem `xml:"flakyFailure"` // Surefire's form of a case that failed, and passed when run again; it has a type
	Output    string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"` // the code of the problem
	Text    string `xml:",chardata"`
}

// JUnit returns r as JUnit XML: a suite per suite of test cases, and before them the suite "hive-test" with one case,
// named after the verb. That case is the run without its test cases, so that a cluster that never formed is red, too;
// the phases are its properties and its output. CI systems know a case again by its class and its name: neither
// has the cluster's name in it. What failed is one failure, what was interrupted an error. The result is well-formed
// whatever bytes names and messages contain, and uses only what the schemas that Jenkins checks by know: all have
// skipped on a testsuite only, and some no attribute of a case's skipped.
func JUnit(r Report) []byte {
	suites := []junitSuite{suiteOfRun(r)}
	logs := logsOf(r)
	for _, c := range r.Cases {
		name := suiteName(r, c)
		i := slices.IndexFunc(suites[1:], func(s junitSuite) bool { return s.Name == name }) + 1
		if i == 0 {
			suites = append(suites, junitSuite{Name: name})
			i = len(suites) - 1
		}
		suites[i].add(caseOf(r, c, logs[c.Suite]), c.Seconds)
	}
	all := junitSuites{Name: progress.OneLine("hive-test " + r.Verb), Time: junitSeconds(r.Seconds)}
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

// suiteOfRun is the run without its test cases.
func suiteOfRun(r Report) junitSuite {
	s := junitSuite{Name: runSuite, Properties: propertiesOf(r)}
	c := junitCase{ClassName: runSuite, Name: cmp.Or(progress.OneLine(r.Verb), "run"), Time: junitSeconds(r.Seconds)}
	status, code, text := judgeRun(r)
	c.judge(status, code, text, "")
	c.Output = progress.Clean(phasesText(r.Phases))
	s.add(c, r.Seconds)
	return s
}

func propertiesOf(r Report) *junitProperties {
	list := []junitProperty{
		{"cluster", progress.OneLine(r.Cluster)},
		{"verb", progress.OneLine(r.Verb)},
		{"result", progress.OneLine(string(r.Result))},
		{"exit_code", strconv.Itoa(r.ExitCode)},
		{"run_dir", progress.OneLine(r.RunDir)},
	}
	for _, n := range r.Nodes {
		list = append(list, junitProperty{"node." + progress.OneLine(withoutCluster(r, n.Name)), nodeText(n)})
	}
	for _, p := range r.Phases {
		list = append(list,
			junitProperty{"phase." + progress.OneLine(p.Name), progress.OneLine(string(p.Status))},
			junitProperty{"phase." + progress.OneLine(p.Name) + ".seconds", junitSeconds(p.Seconds)})
	}
	return &junitProperties{List: list}
}

// nodeText is what is known of a node, on one line.
func nodeText(n progress.Node) string {
	parts := []string{progress.OneLine(n.Name)}
	if n.VMID != 0 {
		parts = append(parts, "VM "+strconv.Itoa(n.VMID))
	}
	for _, text := range []string{n.Hypervisor, n.Management, n.Hive} {
		if text = progress.OneLine(text); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// judgeRun is how the run has ended, but for what its test cases tell themselves.
func judgeRun(r Report) (status progress.Status, code, text string) {
	told := slices.ContainsFunc(r.Cases, func(c Case) bool { return c.Status.Bad() })
	status = progress.Passed
	var texts []string
	for _, p := range r.Phases {
		if !p.Status.Bad() || (told && p.Name == string(cluster.PhaseTest) && p.Status == progress.Failed) {
			continue
		}
		if p.Problem != nil {
			code = cmp.Or(code, progress.OneLine(p.Problem.Code))
		}
		if status != progress.Failed {
			status = p.Status
		}
		texts = append(texts, withHint(p.Name+": "+cmp.Or(p.Error, string(p.Status)), p.Hint))
	}
	if status == progress.Passed && r.Result.Bad() && (!told || r.Result == progress.Interrupted) {
		status = r.Result
		for _, problem := range r.Errors {
			texts = append(texts, withHint(problem.Message, problem.Hint))
		}
	}
	return status, code, strings.Join(texts, "\n")
}

func withHint(text, hint string) string {
	if hint == "" {
		return text
	}
	return text + "\nhint: " + hint
}

// phasesText are the phases with their steps, a line each.
func phasesText(phases []Phase) string {
	var b strings.Builder
	line := func(name string, status progress.Status, seconds float64) {
		b.WriteString(name + " " + string(status) + " " + progress.FormatSeconds(seconds) + "\n")
	}
	for _, p := range phases {
		line(p.Name, p.Status, p.Seconds)
		for _, step := range p.Steps {
			name := step.Name
			if step.Node != "" {
				name = step.Node + ": " + name
			}
			line("  "+name, step.Status, step.Seconds)
		}
	}
	return b.String()
}

// logsOf are the paths of what suites that are commands have printed, by suite.
func logsOf(r Report) map[string]string {
	logs := map[string]string{}
	for _, p := range r.Phases {
		for _, s := range p.Steps {
			if s.Suite != "" && s.Command != "" && r.RunDir != "" {
				logs[s.Suite] = path.Join(r.RunDir, "suites", s.Suite, "output.log")
			}
		}
	}
	return logs
}

// caseOf is a case, with what its suite has printed attached in the form that Jenkins and GitLab read, where it did not
// pass.
func caseOf(r Report, c Case, log string) junitCase {
	name := c.Name
	if c.Node != "" && !strings.Contains(name, c.Node) {
		name += " [" + c.Node + "]" // two nodes' cases would be one case to most readers
	}
	j := junitCase{
		ClassName: suiteName(r, c), Name: progress.OneLine(withoutCluster(r, name)), Time: junitSeconds(c.Seconds),
	}
	j.judge(c.Status, "", c.Error, c.Message)
	output := c.Output
	switch c.Status {
	case progress.Quarantined: // what says so is the reason why it does not count
		output = strings.TrimPrefix(c.Error+"\n"+output, "\n")
	case progress.Skipped:
	default:
		output = strings.TrimPrefix(c.Message+"\n"+output, "\n")
	}
	if log != "" && (c.Status.Bad() || c.Status == progress.Flaky || c.Status == progress.Quarantined) {
		output = strings.TrimPrefix(output+"\n[[ATTACHMENT|"+progress.OneLine(log)+"]]", "\n")
	}
	j.Output = progress.Clean(strings.TrimRight(output, "\n"))
	return j
}

func (c *junitCase) judge(status progress.Status, code, text, reason string) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	problem := &junitProblem{Message: progress.OneLine(first), Type: code, Text: progress.Clean(text)}
	switch status {
	case progress.Passed:
	case progress.Flaky:
		problem.Type = cmp.Or(code, "flaky")
		c.Flaky = problem
	case progress.Skipped, progress.Quarantined:
		line := progress.OneLine(reason)
		c.Skipped = &line
	case progress.Interrupted:
		if first == "" {
			problem.Message = "interrupted"
		}
		c.Error = problem
	default:
		if first == "" {
			problem.Message = "failed"
		}
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

// suiteName is the name of a case's suite, which is its class as well.
func suiteName(r Report, c Case) string {
	return cmp.Or(progress.OneLine(withoutCluster(r, c.Suite)), "tests")
}

// WithoutCluster returns a name of the report as it is for every cluster: its nodes are called node-1, node-2, ...
func (r Report) WithoutCluster(name string) string { return withoutCluster(r, name) }

// withoutCluster is a name that is the same for every cluster: its nodes are called node-1, node-2, ...
func withoutCluster(r Report, name string) string {
	if r.Cluster == "" {
		return name
	}
	return hostWord.ReplaceAllStringFunc(name, func(word string) string {
		number, found := strings.CutPrefix(word, r.Cluster+"-")
		if n, err := strconv.Atoi(number); !found || err != nil || strconv.Itoa(n) != number {
			return word
		}
		return "node-" + number
	})
}

// hostWord is what may be the name of a node.
var hostWord = regexp.MustCompile(`[A-Za-z0-9-]+`)

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
