package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/progress"
)

// Spec is a suite that is to be run.
type Spec struct {
	// Name is one path element; empty: after what it runs. Of two suites with the same name one gets a number.
	Name string
	// Command is a line for bash; Smoke is the suite that is built in.
	Command string
	// Builtin says that Command is the name of one of Options.Builtins.
	Builtin bool
	// Results is ByCommand, ByJUnit, ByTAP or ByGoTest: what its cases are read of. Empty: of what it leaves or prints.
	Results string
	// On is the node that it runs on, as Options.On takes it; empty: this machine.
	On string
	// Dir is where it runs; empty: as Options.Dir says.
	Dir string
	// Env are further variables, as Options.SuiteEnv has them; they win over those.
	Env []string
	// Timeout bounds each of its attempts; 0: nothing of its own does.
	Timeout time.Duration
	// Retries is how often at most what has failed is run again: those cases where it can choose, else all of it.
	Retries int
	// Needs are what the cluster must have: else it is skipped, or fails with Options.RequireAll.
	Needs Needs
	// Fault goes wrong on nodes during each of its attempts.
	Fault Fault

	// Asked is what --suite takes for it; empty: Name, or else Command.
	Asked string
}

// Needs are what a cluster must have for a suite to run on it.
type Needs struct {
	Nodes    int // at least
	KVM, OVN bool
}

// Fault is something that goes wrong on nodes on purpose. The zero value is nothing.
type Fault struct {
	What  string        // as pkg/fault reads it
	Nodes []string      // none: all
	For   time.Duration // 0: as long as the suite may take
}

// Quarantine are cases whose failures do not decide.
type Quarantine struct {
	Suite  string // empty: any
	Case   string // a name, in which * stands for anything and ? for one character
	Reason string
	Until  time.Time // zero: for ever
}

// withNames returns the specs with their names: each is one path element, and no two are alike.
func withNames(specs []Spec) ([]Spec, error) {
	if len(specs) == 0 {
		specs = []Spec{{Command: Smoke}}
	}
	all := slices.Clone(specs)
	taken, reserved := map[string]bool{}, map[string]bool{}
	for _, s := range all { // the user's names are not given to others
		reserved[s.Name] = s.Name != ""
	}
	for i := range all {
		s := &all[i]
		own := s.Name != ""
		s.Asked = cmp.Or(s.Asked, s.Name, s.Command)
		switch {
		case strings.TrimSpace(s.Command) == "":
			return nil, errors.New("a suite is empty: give smoke or a command line")
		case s.isBuiltin():
			s.Name = cmp.Or(s.Name, s.Command)
		default:
			s.Name = cmp.Or(s.Name, commandName(s.Command))
		}
		base := s.Name
		for n := 2; taken[s.Name] || !own && reserved[s.Name]; n++ {
			s.Name = base + "-" + strconv.Itoa(n)
		}
		taken[s.Name] = true
	}
	return all, nil
}

// Title is what messages call the suite.
func (s Spec) Title() string { return cmp.Or(s.Name, s.Command) }

func (s Spec) isSmoke() bool { return s.Command == Smoke }

// quarantined returns a case that failed as one that does not decide, where the list says so.
func (r *runner) quarantined(suite Spec, c Case) Case {
	if c.Status != progress.Failed || c.whole {
		return c
	}
	for _, q := range r.Quarantine {
		if !q.isOf(suite) || !like(q.Case, c.Name) {
			continue
		}
		if !q.Until.IsZero() && !time.Now().Before(q.Until) {
			c.Reason = "its quarantine has ended: " + q.Reason
			continue
		}
		c.Status, c.Reason = progress.Quarantined, q.Reason
		if !q.Until.IsZero() {
			c.Reason += " (until " + q.Until.AddDate(0, 0, -1).Format(time.DateOnly) + ")"
		}
		return c
	}
	return c
}

// excused returns the cases as they count: a Go test that failed only by subtests in quarantine is in quarantine as they.
func (r *runner) excused(suite Spec, cases []Case) []Case {
	all := slices.Clone(cases)
	for i, c := range all {
		all[i] = r.quarantined(suite, c)
	}
	for i, c := range all {
		if c.test == "" || c.Status != progress.Failed || c.Error != "failed" {
			continue // it says something of its own
		}
		bad, excused := false, false
		for _, below := range all {
			if strings.HasPrefix(below.Name, c.Name+"/") {
				bad, excused = bad || below.Failed(), excused || below.Status == progress.Quarantined
			}
		}
		if excused && !bad {
			all[i].Status, all[i].Reason = progress.Quarantined, "only subtests in quarantine failed"
		}
	}
	return all
}

// judgeQuarantine tells of entries that are of no use any more: a suite that they name has run to its end, and had no case
// of that name, or one that passed though its time is up.
func (r *runner) judgeQuarantine(ctx context.Context, results Results) {
	if ctx.Err() != nil || r.Run != "" || r.Skip != "" {
		return
	}
	for _, q := range r.Quarantine {
		var cases []Case
		ran, lacking := false, false
		for i, result := range results.Suites {
			if q.Suite != "" && q.isOf(r.suites[i]) {
				ran, lacking = true, lacking || result.Lacks != "" || slices.ContainsFunc(result.Cases, func(c Case) bool {
					return c.whole && c.Status != progress.Passed // cut off, or crashed
				})
				cases = append(cases, result.Cases...)
			}
		}
		if why := q.useless(cases); ran && !lacking && why != "" {
			r.Sink.Emit(progress.Event{
				Kind: progress.Warning, Suite: q.Suite,
				Message: fmt.Sprintf("the quarantine of %s (%s) can be removed: %s", q.Case, q.Reason, why),
			})
		}
	}
}

// isOf reports whether the entry is about cases of the suite.
func (q Quarantine) isOf(s Spec) bool {
	return q.Suite == "" || q.Suite == s.Name || q.Suite == s.Asked
}

// useless says why a suite with those cases does not need the entry; empty: it may.
func (q Quarantine) useless(cases []Case) string {
	matched, bad := false, false
	for _, c := range cases {
		if like(q.Case, c.Name) {
			matched = true
			bad = bad || c.Status != progress.Passed
		}
	}
	switch {
	case !matched:
		return "no case has that name"
	case !bad && !q.Until.IsZero() && !time.Now().Before(q.Until):
		return "its time is up, and it passed"
	}
	return ""
}

// like reports whether a name is as a pattern has it.
func like(pattern, name string) bool {
	expression := regexp.QuoteMeta(pattern)
	expression = strings.ReplaceAll(strings.ReplaceAll(expression, `\*`, `.*`), `\?`, `.`)
	match, err := regexp.MatchString("^(?s:"+expression+")$", name)
	return err == nil && match
}

// simpleLine is a command line to whose end flags can be added.
var simpleLine = regexp.MustCompile(`^[^|&;<>()#` + "`" + `\n]*$`)

// Chooses reports whether cases of the suite can be chosen by their names.
func (s Spec) Chooses() bool {
	return s.isBuiltin() || s.Results == ByGoTest && simpleLine.MatchString(s.Command) && takesFlags(strings.Fields(s.Command))
}

// takesFlags reports whether the words run Go tests, by go test or as a test binary, and flags at their end are those of
// the tests.
func takesFlags(words []string) bool {
	for _, word := range words {
		if flag := strings.TrimLeft(word, "-"); flag != word && (flag == "args" || strings.HasSuffix(flag, "failfast")) {
			return false
		}
	}
	test := func(word string) bool { return strings.HasPrefix(word, "-test.") }
	return isGoTest(words) || strings.HasSuffix(programOf(words), ".test") || slices.ContainsFunc(words, test)
}

// isGoTest reports whether the words run go test, and not a test binary.
func isGoTest(words []string) bool { return programOf(words) == "go" && slices.Contains(words, "test") }

// only returns the regular expression that a name alone matches.
func only(name string) string { return "^" + regexp.QuoteMeta(name) + "$" }

// onlyGo returns what go test -run takes for a test alone, which is an expression for each part of its name; empty: it is
// none.
func onlyGo(test string) string {
	if test == "" {
		return ""
	}
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = only(part)
	}
	return strings.Join(parts, "/")
}

// choosing returns the command line of Go tests that runs only those whose names match run, and none that matches skip;
// empty ones leave it open. quote makes a word for the shell of each.
func (s Spec) choosing(run, skip string, quote func(...string) string) string {
	prefix := "-test."
	if isGoTest(strings.Fields(s.Command)) {
		prefix = "-"
	}
	line := s.Command
	for _, flag := range []struct{ name, value string }{{"run", run}, {"skip", skip}} {
		if flag.value != "" {
			line += fmt.Sprintf(" %s%s=%s", prefix, flag.name, quote(flag.value))
		}
	}
	return line
}
