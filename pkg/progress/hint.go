package progress

import (
	"slices"
	"strings"
)

// WithHint returns err with a line that says what to do about it. The hint is not part of the message. It returns nil
// for a nil err. Any error with a method Hint() string does the same; nothing needs to import this package for it.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &annotated{error: err, hint: hint}
}

// annotated is an error with what its message does not say.
type annotated struct {
	error
	code, hint string
	nodes      []string
}

func (a *annotated) Unwrap() error       { return a.error }
func (a *annotated) Code() string        { return a.code }
func (a *annotated) Hint() string        { return a.hint }
func (a *annotated) NodeNames() []string { return a.nodes }

// HintOf returns the hints of err and of every error that it wraps or joins, outermost first, each once, one a line.
// It is empty if there are none.
func HintOf(err error) string {
	var hints []string
	visit(err, func(err error) {
		if h, ok := err.(interface{ Hint() string }); ok {
			for line := range strings.Lines(h.Hint()) {
				if line = strings.TrimSpace(line); line != "" && !slices.Contains(hints, line) {
					hints = append(hints, line)
				}
			}
		}
	})
	return strings.Join(hints, "\n")
}
