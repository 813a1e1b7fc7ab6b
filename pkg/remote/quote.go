package remote

import (
	"regexp"

	"al.essio.dev/pkg/shellescape"
)

// Quote returns argv as one line for a POSIX shell, which splits it into exactly argv again. It is the single place of
// shell quoting. A NUL byte cannot be expressed in any shell: [Host.Run] refuses it.
func Quote(argv ...string) string { return shellescape.QuoteCommand(argv) }

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Exports returns one "export NAME=VALUE" line per variable, sorted by name, to be read by a POSIX shell. A name that
// is not a shell variable name and a value with a NUL byte are errors.
func Exports(vars map[string]string) (string, error) {
	return Environment{Set: vars}.lines(func(name, value string) string {
		return "export " + name + "=" + Quote(value)
	})
}
