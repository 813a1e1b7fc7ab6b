package remote

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// Quote returns argv as one line for a POSIX shell, which splits it into exactly argv again. It is the single place of
// shell quoting. A NUL byte cannot be expressed in any shell: [Host.Run] refuses it.
func Quote(argv ...string) string { return shellescape.QuoteCommand(argv) }

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Exports returns one "export NAME=VALUE" line per variable, sorted by name, to be read by a POSIX shell. A name that
// is not a shell variable name and a value with a NUL byte are errors.
func Exports(vars map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		switch {
		case !variableName.MatchString(name):
			return "",
				fmt.Errorf("%q is not a name of an environment variable: use letters, digits and underscores", name)
		case strings.ContainsRune(vars[name], 0):
			return "", fmt.Errorf("the value of %s holds a NUL byte, which no environment variable can", name)
		}
		b.WriteString("export " + name + "=" + Quote(vars[name]) + "\n")
	}
	return b.String(), nil
}
