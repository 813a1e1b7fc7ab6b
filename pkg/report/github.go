package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hive-test/pkg/progress"
)

// Limits of a job summary. GitHub refuses one of more than 1 MiB, whole.
const (
	mostSummary  = 900 << 10 // bytes
	mostFailures = 100       // that are told in full
	mostDrawn    = 60        // of the timeline
	failureText  = 8000      // bytes of one failure's output, from its end
)

// GitHub returns r as the summary of a GitHub Actions job: the verdict and why, the phases, each failure folded, the
// timeline as a Mermaid Gantt chart, and what to know besides. Whatever names and outputs contain, it is markup of ours
// alone.
func GitHub(r Report) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s %s\n\n", mark(r.Result), mdText(strings.TrimSpace("hive-test "+r.Verb+" "+r.Cluster+": "+string(r.Result))))
	fmt.Fprintf(&b, "%s, exit code %d", progress.FormatSeconds(r.Seconds), r.ExitCode)
	if text := countText(r.Cases); text != "" {
		b.WriteString("; cases: " + text)
	}
	b.WriteString("\n")
	if x := r.Explanation; x != nil {
		githubExplanation(&b, x)
	}
	mdMatrix(&b, r)
	githubPhases(&b, r.Phases)
	githubCases(&b, r.Cases)
	githubTimeline(&b, r)
	for _, list := range []struct {
		title    string
		problems []Problem
	}{{"Errors", r.Errors}, {"Warnings", r.Warnings}, {"Notes", r.Notes}} {
		if len(list.problems) > 0 {
			var inside strings.Builder
			mdProblems(&inside, list.title, list.problems)
			folded(&b, fmt.Sprintf("%s (%d)", list.title, len(list.problems)), inside.String())
		}
	}
	if r.RunDir != "" {
		fmt.Fprintf(&b, "\nEvidence: %s\n", mdCode(r.RunDir))
	}
	text := progress.Disarm(b.String()) // it may be printed in a job's log as well
	if len(text) > mostSummary {
		return []byte(strings.ToValidUTF8(text[:mostSummary], "") + "\n\n</details>\n\nThis summary is cut off: the reports of the run have all of it.\n")
	}
	return []byte(text)
}

// Annotations returns the workflow commands that mark, on the page of a run of GitHub Actions, what failed in r and the
// cases that are flaky or in quarantine, as the run itself has done it if it ran there.
func Annotations(r Report) []byte {
	const mostErrors = 3 // beside cases
	var b strings.Builder
	var cases progress.CaseAnnotations
	for _, c := range r.Cases {
		b.WriteString(cases.Of(progress.Event{
			Kind: progress.Case, Suite: c.Suite, Node: c.Node, Name: c.Name, Status: c.Status, Error: c.Error,
			Message: c.Message, File: c.File, Line: c.Line,
		}))
	}
	b.WriteString(cases.Rest())
	for _, p := range r.Errors[:min(mostErrors, len(r.Errors))] {
		b.WriteString(progress.ErrorAnnotation(p.where(), p.Message, p.Hint))
	}
	return []byte(b.String())
}

func githubExplanation(b *strings.Builder, x *progress.Explanation) {
	fmt.Fprintf(b, "\n%s\n", mdText(x.Headline()))
	if len(x.Lines) > 0 {
		b.WriteString("\n" + mdBlock(strings.Join(x.Lines, "\n")))
	}
	mdAdvice(b, x)
}

func githubPhases(b *strings.Builder, phases []Phase) {
	if len(phases) == 0 {
		return
	}
	b.WriteString("\n| Phase | Result | Time |\n|---|---|---:|\n")
	for _, p := range phases {
		note := ""
		if p.Status == progress.Skipped && p.Message != "" {
			note = ": " + mdText(p.Message)
		}
		fmt.Fprintf(
			b, "| %s | %s %s%s | %s |\n", mdText(p.Name), mark(p.Status), p.Status, note, progress.FormatSeconds(p.Seconds))
	}
}

// githubCases folds each case that is to be read open, and all in one table.
func githubCases(b *strings.Builder, cases []Case) {
	told := 0
	for _, c := range cases {
		if c.Error == "" {
			continue
		}
		if told++; told > mostFailures {
			continue
		}
		text := c.Error
		if output := strings.TrimSpace(c.Output); output != "" && output != c.Error {
			text += "\n\n" + lastOf(output, failureText)
		}
		title := fmt.Sprintf("%s %s: %s", mark(c.Status), c.Status, progress.CaseName(c.Suite, c.Node, c.Name))
		if place := c.place(); place != "" {
			title += " (" + place + ")"
		}
		inside := "\n" + mdBlock(text)
		if c.Message != "" {
			inside = "\n" + mdText(c.Message) + "\n" + inside
		}
		folded(b, title, inside)
	}
	if more := told - mostFailures; more > 0 {
		fmt.Fprintf(b, "\nand %d more\n", more)
	}
	if len(cases) == 0 {
		return
	}
	var all strings.Builder
	mdCaseTable(&all, cases)
	folded(b, "All cases ("+countText(cases)+")", all.String())
}

// folded writes what is opened by a click. Title is no markup yet.
func folded(b *strings.Builder, title, inside string) {
	fmt.Fprintf(b, "\n<details><summary>%s</summary>\n%s\n</details>\n", mdText(title), inside)
}

// githubTimeline draws phases and their steps that took a moment.
func githubTimeline(b *strings.Builder, r Report) {
	if r.Started.IsZero() || len(r.Phases) == 0 {
		return
	}
	var chart strings.Builder
	chart.WriteString("\n```mermaid\ngantt\n  dateFormat x\n  axisFormat %M:%S\n")
	bars := 0
	bar := func(name string, status progress.Status, from time.Time, seconds float64) {
		if from.IsZero() || bars == mostDrawn {
			return
		}
		bars++
		begin := max(0, from.Sub(r.Started).Milliseconds())
		word := map[progress.Status]string{progress.Passed: "done, ", progress.Skipped: ""}
		style, known := word[status]
		if !known {
			style = "crit, "
		}
		fmt.Fprintf(&chart, "  %s :%s%d, %d\n", chartText(name), style, begin, begin+max(1, int64(seconds*1000)))
	}
	for _, p := range r.Phases {
		if p.Status == progress.Skipped {
			continue
		}
		fmt.Fprintf(&chart, "  section %s\n", chartText(p.Name))
		bar(p.Name, p.Status, p.Started, p.Seconds)
		for _, s := range p.Steps {
			if s.Seconds >= p.Seconds/50 {
				bar(named(s.Node, s.Name), s.Status, s.Started, s.Seconds)
			}
		}
	}
	if bars == 0 {
		return
	}
	chart.WriteString("```\n")
	folded(b, "Timeline", chart.String())
}

// chartText is a text that Mermaid takes for the name of a bar or of a section: letters, digits and blanks, and little
// else.
func chartText(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '-', r == '_', r == '.', r == '(', r == ')', r == '/':
			return r
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			return r
		}
		return ' '
	}, progress.OneLine(s))
	return cmp.Or(strings.TrimSpace(s[:min(len(s), 60)]), "unnamed")
}
