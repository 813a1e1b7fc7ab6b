package progress

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// ReadsCommands reports whether the job that this runs in reads commands from its output: GitHub Actions, Azure
// Pipelines, TeamCity. What nodes and children print must not be taken for one there.
func ReadsCommands(getenv func(string) string) bool {
	return getenv("GITHUB_ACTIONS") == "true" || getenv("TF_BUILD") != "" || getenv("TEAMCITY_VERSION") != ""
}

// hashCommand is how commands begin that are read anywhere in a line: GitHub's older ones, Azure's, TeamCity's.
var hashCommand = regexp.MustCompile(`##((?:vso|teamcity)?\[)`)

// Disarm keeps text from being read as a command: GitHub's runner takes a line that starts with :: (blanks before it do
// not count, and a lone carriage return ends a line), and others what begins with ## anywhere in a line.
func Disarm(text string) string {
	if !strings.Contains(text, "::") && !strings.Contains(text, "##") {
		return text
	}
	text = hashCommand.ReplaceAllString(text, "## $1")
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, part := range strings.SplitAfter(line, "\r") {
			if trimmed := strings.TrimLeftFunc(part, unicode.IsSpace); strings.HasPrefix(trimmed, "::") {
				part = part[:len(part)-len(trimmed)] + "| " + trimmed
			}
			b.WriteString(part)
		}
	}
	return b.String()
}

// DisarmJSON is Disarm for a JSON document, which stays the same: there, commands can be in strings only. What would act
// upon a terminal is escaped, too.
func DisarmJSON(document []byte) []byte {
	document = hashCommand.ReplaceAll(bytes.Clone(document), []byte(`#\u0023$1`))
	acts := func(r rune) bool { return r >= ' ' && isControl(r) || unicode.Is(unicode.Bidi_Control, r) }
	if !bytes.ContainsFunc(document, acts) {
		return document
	}
	var b bytes.Buffer
	for _, r := range string(document) {
		if acts(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}
