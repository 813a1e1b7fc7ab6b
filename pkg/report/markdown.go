package report

import (
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/progress"
)

// Markdown returns r as GitHub-flavoured Markdown, for a file or a job summary: the verdict, errors with their hints,
// phases, cases (failed ones in full), warnings.
func Markdown(r Report) []byte {
	var b strings.Builder
	title := strings.TrimSpace("hive-test " + r.Verb + " " + r.Cluster)
	fmt.Fprintf(&b, "# %s: %s\n\n", mdText(title), mdText(string(r.Result)))
	fmt.Fprintf(&b, "%s, exit code %d", progress.FormatSeconds(r.Seconds), r.ExitCode)
	if !r.Started.IsZero() {
		fmt.Fprintf(&b, ", started %s", r.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	b.WriteString("\n")
	if r.OwnerID != "" {
		fmt.Fprintf(&b, "\nOwner id: %s\n", mdCode(r.OwnerID))
	}
	if r.RunDir != "" {
		fmt.Fprintf(&b, "\nEvidence: %s\n", mdCode(r.RunDir))
	}
	mdExplanation(&b, r.Explanation)
	mdMatrix(&b, r)
	mdProblems(&b, "Errors", r.Errors)
	mdPhases(&b, r.Phases)
	mdCases(&b, r)
	mdProblems(&b, "Warnings", r.Warnings)
	mdProblems(&b, "Notes", r.Notes)
	return []byte(b.String())
}

func mdExplanation(b *strings.Builder, x *progress.Explanation) {
	if x == nil {
		return
	}
	fmt.Fprintf(b, "\n## What happened\n\n%s\n", mdText(x.Headline()))
	if len(x.Suites) > 0 {
		b.WriteString("\n" + mdBlock(strings.Join(x.Suites, "\n")))
	}
	if len(x.Lines) > 0 {
		b.WriteString("\n" + mdBlock(strings.Join(x.Lines, "\n")))
	}
	if x.From != "" {
		fmt.Fprintf(b, "\nFrom %s.\n", mdCode(x.From))
	}
	mdAdvice(b, x)
}

// mdAdvice is what an explanation takes for the cause, and what it advises.
func mdAdvice(b *strings.Builder, x *progress.Explanation) {
	if x.Cause != "" {
		fmt.Fprintf(b, "\n**Likely cause:** %s\n", mdText(x.Cause))
	}
	if x.Next != "" {
		fmt.Fprintf(b, "\n**Next:** %s\n", mdText(x.Next))
	}
}

func mdProblems(b *strings.Builder, title string, problems []Problem) {
	if len(problems) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n", title)
	for _, p := range problems {
		if where := p.where(); where != "" {
			fmt.Fprintf(b, "\n**%s**\n", mdText(where))
		}
		b.WriteString("\n" + mdBlock(p.Message))
		if p.Hint != "" {
			fmt.Fprintf(b, "\nHint: %s\n", mdText(p.Hint))
		}
	}
}

// where names phase, step and node of a problem, as far as they are known.
func (p Problem) where() string {
	parts := slices.DeleteFunc([]string{p.Phase, p.Step, p.Node}, func(part string) bool { return part == "" })
	return strings.Join(parts, " · ")
}

func mdPhases(b *strings.Builder, phases []Phase) {
	if len(phases) == 0 {
		return
	}
	b.WriteString("\n## Phases\n\n| Phase | Result | Time | Steps |\n|---|---|---:|---|\n")
	for _, p := range phases {
		steps := make([]string, 0, len(p.Steps))
		for _, s := range p.Steps {
			name := mdText(named(s.Node, s.Name))
			steps = append(steps, mark(s.Status)+" "+name+" "+progress.FormatSeconds(s.Seconds))
		}
		note := strings.Join(steps, ", ")
		if p.Status == progress.Skipped {
			note = mdText(p.Message)
		}
		fmt.Fprintf(b, "| %s | %s %s | %s | %s |\n", mdText(p.Name), mark(p.Status), p.Status,
			progress.FormatSeconds(p.Seconds), note)
	}
}

func mdCases(b *strings.Builder, r Report) {
	if len(r.Cases) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Cases\n\n%s\n", countText(r.Cases))
	mdCaseTable(b, r.Cases)
	again := newAgain(r)
	for _, c := range r.Cases {
		if c.Error != "" {
			fmt.Fprintf(b, "\n**%s**\n\n%s", mdText(progress.CaseName(c.Suite, c.Node, c.Name)), mdBlock(c.Error))
		}
		if c.Status.Bad() && c.Run != "" {
			fmt.Fprintf(b, "\nRun it again: %s\n", mdCode(again.command(c)))
		}
	}
}

func mdCaseTable(b *strings.Builder, cases []Case) {
	b.WriteString("\n| Case | Result | Time |\n|---|---|---:|\n")
	for _, c := range cases {
		name := mdText(progress.CaseName(c.Suite, c.Node, c.Name))
		fmt.Fprintf(b, "| %s | %s %s | %s |\n", name, mark(c.Status), c.Status, progress.FormatSeconds(c.Seconds))
	}
}

func countText(cases []Case) string {
	n := map[progress.Status]int{}
	for _, c := range cases {
		n[c.Status]++
	}
	return progress.CaseCount(n)
}

func named(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + ": " + name
}

func mark(s progress.Status) string {
	switch s {
	case progress.Passed:
		return "✓"
	case progress.Failed:
		return "✗"
	case progress.Skipped:
		return "–"
	}
	return "!"
}

// markup is what Markdown or HTML would take for markup, and an @, which would call people who have nothing to do with
// it.
var markup = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "&#64;", `\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`,
	"]", `\]`, "|", `\|`, "~", `\~`, "#", `\#`,
)

// mdText is s on one line with all markup made harmless.
func mdText(s string) string { return markup.Replace(progress.OneLine(s)) }

func mdCode(s string) string {
	s = progress.OneLine(s)
	fence := strings.Repeat("`", longestRun(s)+1)
	if fence != "`" {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

func mdBlock(s string) string {
	s = strings.TrimRight(progress.Clean(s), "\n")
	fence := strings.Repeat("`", max(3, longestRun(s)+1))
	return fence + "text\n" + s + "\n" + fence + "\n"
}

// longestRun returns the length of the longest run of backticks in s.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
