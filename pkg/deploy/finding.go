package deploy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Status of a Finding.
type Status string

// Findings pass, fail (the cluster cannot be made), warn (it may work, or it could not be checked) or are skipped,
// because they do not matter here or another finding stands in their way.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Warn Status = "warn"
	Skip Status = "skip"
)

// Finding is the outcome of one check. Detail says what was seen; Fix is a command or a setting that mends it.
type Finding struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
	// Unmade says that the check was not made, or not to its end: there was no time. Then it warns.
	Unmade bool `json:"-"`
}

// NotRun is the id of the finding that says that further checks were not made, for another one has failed. It is no
// check itself.
const NotRun = "not-run"

// longFix is how long a part of a fix is that is told once.
const longFix = 160

// ShortFixes are the fixes of findings, in order, for people: what is long in one and was told before is "as above".
func ShortFixes(findings []Finding) []string {
	told := map[string]bool{}
	shorten := func(text string) string {
		if len(text) > longFix && told[text] {
			return "as above"
		}
		told[text] = true
		return text
	}
	fixes := make([]string, len(findings))
	for i, f := range findings {
		parts := strings.Split(f.Fix, "; ")
		if len(parts) == 1 || told[f.Fix] {
			fixes[i] = shorten(f.Fix)
			continue
		}
		told[f.Fix] = true
		for j := range parts {
			parts[j] = shorten(parts[j])
		}
		fixes[i] = strings.Join(parts, "; ")
	}
	return fixes
}

// ErrTimeUp as the cause of a context means that a check was not made, for the time of all checks was up before.
var ErrTimeUp = errors.New("the time for all checks was up")

// Failed returns the findings that failed.
func Failed(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Status != Fail })
}

// Unmade returns the findings of checks that were not made.
func Unmade(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return !f.Unmade })
}

// PreflightError lists all that stands in the way of up. Nothing was changed.
type PreflightError struct{ Findings []Finding }

// Error gives each finding its own line.
func (e *PreflightError) Error() string {
	lines := make([]string, 0, len(e.Findings))
	for _, f := range e.Findings {
		lines = append(lines, f.Detail)
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d problems:\n  - %s", len(lines), strings.Join(lines, "\n  - "))
}

// Code returns the kind of problem.
func (e *PreflightError) Code() string { return "preflight-failed" }

// Hint gives each finding's fix.
func (e *PreflightError) Hint() string {
	var lines []string
	for _, fix := range ShortFixes(e.Findings) {
		if fix != "" {
			lines = append(lines, fix)
		}
	}
	return strings.Join(lines, "\n")
}
