package target

// Error is a mistake that stands in the way before anything was changed: of the configuration, or, with Usage, of what
// was asked for.
type Error struct {
	Err   error
	Usage bool
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *Error) Unwrap() error { return e.Err }

func configError(err error) error { return &Error{Err: err} }

func usageError(err error) error { return &Error{Err: err, Usage: true} }
