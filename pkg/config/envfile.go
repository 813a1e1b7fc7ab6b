package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/subosito/gotenv"
)

// ReadEnvFile reads a file of NAME=value lines, as a shell and dotenv do. Unknown are the names that no setting is read
// from, in order.
func ReadEnvFile(path string) (values map[string]string, unknown []string, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, &Error{Problems: []error{err}}
	}
	values, err = gotenv.StrictParse(strings.NewReader(string(raw)))
	if err != nil {
		return nil, nil, &Error{Problems: []error{wrongLine(path, string(raw), err)}}
	}
	known := map[string]bool{}
	for _, s := range Table() {
		for _, name := range s.Env {
			known[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	return values, unknown, nil
}

// wrongLine names the line that is no assignment, and does not show it: it may hold a token.
func wrongLine(path, text string, err error) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line != "" && strings.Contains(err.Error(), "`"+line+"`") {
			return fmt.Errorf("%s:%d: it is not of the form NAME=value", path, number)
		}
	}
	return fmt.Errorf("%s: a line is not of the form NAME=value", path)
}
