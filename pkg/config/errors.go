package config

import (
	"errors"
	"slices"
)

// Error is everything that is wrong with the settings or with a file of the user's, at once. Each problem says where
// the value came from.
type Error struct{ Problems []error }

func (e *Error) Error() string   { return errors.Join(e.Problems...).Error() }
func (e *Error) Unwrap() []error { return e.Problems }

// Usage tells whether all problems are of flags: then the command line is wrong, not the configuration.
func (e *Error) Usage() bool {
	return len(e.Problems) > 0 && !slices.ContainsFunc(e.Problems, func(p error) bool {
		_, ofFlag := errors.AsType[*FlagError](p)
		return !ofFlag
	})
}

// FlagError is a problem with the value of a flag.
type FlagError struct {
	Flag string // without dashes
	Err  error
}

func (e *FlagError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }
func (e *FlagError) Unwrap() error { return e.Err }
