package explain

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

const mostSuites = 5 // lines

// suite is one that failed.
type suite struct {
	name   string
	asked  string           // what --suite takes for it
	failed []progress.Event // cases; the first is the one that the run's own error names
	ran    int              // cases
}

// failedSuites are those of a phase that failed, in the order in which they ran.
func failedSuites(events []progress.Event, phase string) []suite {
	var all []suite
	of := func(name string) *suite {
		i := slices.IndexFunc(all, func(s suite) bool { return s.name == name })
		if i < 0 {
			all = append(all, suite{name: name})
			i = len(all) - 1
		}
		return &all[i]
	}
	for _, e := range events {
		switch {
		case e.Phase != phase:
		case e.Kind == progress.Case:
			s := of(e.Suite)
			s.ran++
			if bad(e.Status) {
				s.failed = append(s.failed, e)
			}
		case e.Kind == progress.StepStart && e.Suite != "":
			of(e.Suite).asked = e.Asked
		case e.Kind == progress.StepEnd && e.Suite != "" && e.Name != "":
			of(e.Suite).begin(e.Name)
		}
	}
	return slices.DeleteFunc(all, func(s suite) bool { return len(s.failed) == 0 })
}

// begin makes the case of that name the first that failed: cases may end in another order than results list them.
func (s *suite) begin(name string) {
	if i := slices.IndexFunc(s.failed, func(e progress.Event) bool { return e.Name == name }); i > 0 {
		first := s.failed[i]
		s.failed = slices.Insert(slices.Delete(s.failed, i, i+1), 0, first)
	}
}

func (s suite) first() progress.Event { return s.failed[0] }

// printed are the lines of the case that failed first, without those by which Go frames its tests: what a suite prints
// last may be of another case, or data.
func (s suite) printed() []string {
	return slices.DeleteFunc(linesOf(progress.Clean(s.first().Output)), func(line string) bool {
		return line == "FAIL" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ")
	})
}

// what says how many of its cases failed, and how the first one did, named with its suite or by itself. One that is
// the suite's command has the suite's name, which is said once.
func (s suite) what(withSuite bool) string {
	first := s.first()
	if withSuite && s.isCommand() {
		return progress.FirstLine(first.Error)
	}
	text := fmt.Sprintf("%d of %s failed", len(s.failed), progress.Count(s.ran, "case"))
	switch {
	case withSuite:
		text += ", first " + progress.CaseName(s.name, "", first.Name)
	case first.Name != s.name:
		text += ", first " + first.Name
	}
	return strings.TrimSuffix(text+": "+progress.FirstLine(first.Error), ": ")
}

// isCommand reports whether the suite told of no cases, so that its command stands for one.
func (s suite) isCommand() bool {
	return s.ran == 1 && s.first().Name == s.name && s.first().Error != ""
}

// again returns the command that runs the first case that failed again, and nothing else, of a cluster or whatever else
// target says; empty: its suite cannot choose.
func (s suite) again(target []string) string {
	first := s.first()
	if first.Run == "" {
		return ""
	}
	words := slices.Concat([]string{"hive-test", "test"}, target, []string{"--suite", cmp.Or(s.asked, s.name), "--run", first.Run})
	return remote.Quote(words...)
}

// unsaid returns what failed without the words at its end that lines say, each by itself.
func unsaid(what string, lines []string) string {
	reason, words, found := strings.Cut(what, ": ")
	if !found || len(lines) == 0 {
		return what
	}
	said := strings.Split(words, " | ")
	if strings.Contains(lines[len(lines)-1], strings.TrimSuffix(said[len(said)-1], "...")) {
		return reason
	}
	return what
}

// cases are those that failed, in all suites.
func (f *failure) cases() []progress.Event {
	var all []progress.Event
	for _, s := range f.suites {
		all = append(all, s.failed...)
	}
	return all
}

// eachSuite is a line for each suite that failed, where several did.
func (f *failure) eachSuite(files fs.FS) (lines []string) {
	if len(f.suites) < 2 {
		return nil
	}
	for _, s := range f.suites[:min(mostSuites, len(f.suites))] {
		line := progress.ClipMiddle(s.name+": "+s.what(false), lineWidth)
		if output := f.outputOf(s.name, files); output != "" {
			line += " (" + output + ")"
		}
		lines = append(lines, line)
	}
	if more := len(f.suites) - mostSuites; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// outputOf returns where the output of a suite is, of its last attempt; empty where it has none.
func (f *failure) outputOf(suite string, files fs.FS) string {
	dir := path.Join("suites", suite)
	if files == nil || !fs.ValidPath(dir) {
		return ""
	}
	name, last := path.Join(dir, "output.log"), 1
	entries, _ := fs.ReadDir(files, dir)
	for _, entry := range entries {
		number, is := strings.CutPrefix(strings.TrimRight(entry.Name(), "_"), "attempt-")
		n, err := strconv.Atoi(number)
		again := path.Join(dir, entry.Name(), "output.log")
		if _, missing := fs.Stat(files, again); is && err == nil && missing == nil && n > last {
			name, last = again, n
		}
	}
	if _, err := fs.Stat(files, name); err != nil {
		return ""
	}
	return f.below(name)
}
