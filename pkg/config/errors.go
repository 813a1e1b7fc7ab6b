package config

import (
	"errors"
	"strings"
)

// Error is everything that is wrong with the settings or with a file of the user's, at once. Each problem says where
// the value came from.
type Error struct{ Problems []error }

// Error lists the problems, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the problems.
func (e *Error) Unwrap() []error { return e.Problems }

// Usage tells whether all problems are of flags: then the command line is wrong, not the configuration.
func (e *Error) Usage() bool {
	for _, p := range e.Problems {
		if _, ok := errors.AsType[*FlagError](p); !ok {
			return false
		}
	}
	return len(e.Problems) > 0
}

// FlagError is a problem with the value of a flag.
type FlagError struct {
	Flag string // without dashes
	Err  error
}

// Error names the flag.
func (e *FlagError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *FlagError) Unwrap() error { return e.Err }
