package progress

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// GitHub returns a Renderer for the log of a GitHub Actions job: a group per phase, annotations for errors, warnings and
// cases that failed, are flaky or in quarantine, and at the end of the run a summary appended to the file at summaryPath (GITHUB_STEP_SUMMARY;
// none if empty). summary makes its Markdown from the run's events without output, debug and waits; nil gives a table
// of the phases. Workflow commands in the output of children do not take effect. Commands and escapes are those of
// the runner's documentation ("workflow commands for GitHub Actions") and of actions/toolkit.
func GitHub(w io.Writer, summaryPath string, o Options, summary func([]Event) []byte) Renderer {
	g := &gitHub{plain: newPlain(w, o), path: summaryPath, summary: summary}
	g.plain.dress = g.dress
	return g
}

type gitHub struct {
	*plain
	path    string
	summary func([]Event) []byte
	events  []Event
	grouped bool
	failed  []*Problem // errors that were annotated
	cases   CaseAnnotations
}

func (g *gitHub) Emit(e Event) {
	g.mu.Lock()
	g.keep(e)
	g.mu.Unlock()
	g.plain.Emit(e)
}

// dress is called with the lock of plain held.
func (g *gitHub) dress(e Event, text string) string {
	text = Disarm(text)
	switch e.Kind {
	case PhaseStart:
		ended := g.endGroup()
		g.grouped = true
		return ended + "::group::" + escapeData(OneLine(e.Phase)+detail(e.Message)) + "\n"
	case PhaseEnd:
		return g.endGroup() + text + g.cases.Rest() + g.annotation(e, e.Phase)
	case StepEnd:
		if e.Node == "" {
			return text // the phase will tell
		}
		return text + g.annotation(e, label(e, e.Step))
	case Case:
		g.failed = append(g.failed, failureOf(e)...)
		return text + g.cases.Of(e)
	case Warning:
		return command("warning", e.Node, newLines(Options{}).warning(e, ""))
	case RunEnd:
		return g.endGroup() + text + g.annotation(e, strings.TrimSpace(e.Verb+" "+e.Cluster)) + g.writeSummary()
	}
	return text
}

func (g *gitHub) keep(e Event) {
	ended := func(before Event) bool { return before.Kind == RunEnd }
	if e.Kind == RunStart && slices.ContainsFunc(g.events, ended) {
		g.events = nil
	}
	switch e.Kind {
	case Output, Debug, Wait:
	default:
		g.events = append(g.events, e)
	}
}

func (g *gitHub) endGroup() string {
	if !g.grouped {
		return ""
	}
	g.grouped = false
	return "::endgroup::\n"
}

// annotation marks a failure on the page of the run: once, even if the phase fails for the same reason.
func (g *gitHub) annotation(e Event, title string) string {
	failed := failureOf(e)
	if failed == nil || e.Kind != StepEnd && failed[0].ReportedIn(g.failed...) {
		return ""
	}
	g.failed = append(g.failed, failed...)
	return ErrorAnnotation(title, e.Error, e.Hint)
}

// failureOf returns the failure of what has failed and says why, if it does.
func failureOf(e Event) []*Problem {
	if e.Status != Failed && e.Status != Interrupted || strings.TrimSpace(Clean(e.Error)) == "" {
		return nil
	}
	return []*Problem{e.Failure()}
}

// ErrorAnnotation returns the workflow command that marks an error on the page of the run.
func ErrorAnnotation(title, text, hint string) string {
	if hint = strings.TrimSpace(Clean(hint)); hint != "" {
		text += "\nhint: " + hint
	}
	return command("error", title, text)
}

// CaseAnnotations makes the workflow commands that mark cases on the page of the run: errors of those that failed,
// warnings of flaky ones, notices of those in quarantine. GitHub shows the first ten of each kind of a step, so that
// cases leave some to what comes after them. The zero value is ready.
type CaseAnnotations struct{ told, left map[string]int }

// mostCases is how many cases get annotations of a kind.
const mostCases = 6

// Of returns the command for a case; empty: it gets none.
func (a *CaseAnnotations) Of(e Event) string {
	kind, prefix, text := "error", "", e.Error
	switch e.Status {
	case Flaky:
		kind, prefix = "warning", "flaky: "
	case Quarantined:
		kind, prefix, text = "notice", "in quarantine: ", e.Message+"\n"+e.Error
	case Passed, Skipped:
		return ""
	}
	if strings.TrimSpace(Clean(text)) == "" {
		return ""
	}
	if a.told == nil {
		a.told, a.left = map[string]int{}, map[string]int{}
	}
	if a.told[kind] == mostCases {
		a.left[kind]++
		return ""
	}
	a.told[kind]++
	return command(kind, prefix+CaseName(e.Suite, e.Node, e.Name), text, place(e)...)
}

// Rest returns the commands that say how many cases got none since it was called last.
func (a *CaseAnnotations) Rest() string {
	var b strings.Builder
	for _, of := range []struct{ kind, what string }{
		{"error", "failed cases"}, {"warning", "flaky cases"}, {"notice", "cases in quarantine"},
	} {
		if n := a.left[of.kind]; n > 0 {
			b.WriteString(command(of.kind, "", fmt.Sprintf("more %s: %d; the job summary has them", of.what, n)))
		}
	}
	a.left = map[string]int{}
	return b.String()
}

// place are the properties that say where a case failed. GitHub shows an annotation beside that line where the
// repository has such a file.
func place(e Event) []string {
	if file := OneLine(e.File); file != "" && e.Line > 0 {
		return []string{"file=" + escapeProperty(file), "line=" + strconv.Itoa(e.Line)}
	}
	return nil
}

func (g *gitHub) writeSummary() string {
	if g.path == "" {
		return ""
	}
	var text []byte
	if g.summary != nil {
		text = g.summary(g.events)
	} else if table := PhaseTable(g.lines.rows); table != "" {
		text = []byte("```\n" + table + "```\n")
	}
	if err := appendFile(g.path, text); err != nil {
		return command("warning", "", fmt.Sprintf("the job summary is missing: %v", err))
	}
	return ""
}

func appendFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func command(name, title, text string, properties ...string) string {
	if title = OneLine(title); title != "" {
		properties = append(properties, "title="+escapeProperty(title))
	}
	if len(properties) > 0 {
		name += " " + strings.Join(properties, ",")
	}
	return "::" + name + "::" + escapeData(strings.TrimSpace(Clean(text))) + "\n"
}

func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}
