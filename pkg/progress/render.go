package progress

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Renderer is a Sink that shows or keeps events. Close ends it: what is pending is written, a live view is taken off
// the screen, and the first error of writing is returned. Close does not close the writer that it was given. Emit and
// Close are safe for concurrent use, and Close may be called twice.
type Renderer interface {
	Sink
	Close() error
}

// Verbosity says how much a renderer for people shows.
type Verbosity int

// Verbosities. Each shows what the one before it shows.
const (
	Quiet   Verbosity = iota - 1 // -q: warnings and failures
	Normal                       // phases, steps, waits, cases, narration
	Verbose                      // -v: output of children and nodes too
	Chatty                       // -vv: debug events too
)

// Options say how a renderer for people behaves. The zero value is plain, normal output.
type Options struct {
	Verbosity Verbosity
	Color     bool // colour may be used
}

// shows says whether an event of kind k is for verbosity v. End events are for all: they may tell of a failure.
func (v Verbosity) shows(k Kind) bool {
	switch k {
	case Output:
		return v >= Verbose
	case Debug:
		return v >= Chatty
	case RunStart, PhaseStart, StepStart, Wait, Info, NodeState:
		return v >= Normal
	}
	return true
}

// Filter returns a Sink that passes on only the events that verbosity v shows (for JSONLines on a screen). End events
// always pass.
func Filter(next Sink, v Verbosity) Sink {
	return SinkFunc(func(e Event) {
		if v.shows(e.Kind) {
			next.Emit(e)
		}
	})
}

// Auto returns the Renderer that fits w: GitHub where GITHUB_ACTIONS is "true", Terminal on a terminal, else Plain;
// where another CI reads commands, Plain without such in what children print. getenv is os.Getenv or a test's. There is
// no colour unless o allows it, w is a terminal, NO_COLOR is empty (see no-color.org) and TERM is not "dumb"; a dumb
// terminal gets Plain. summary is handed to GitHub.
func Auto(w io.Writer, getenv func(string) string, o Options, summary func([]Event) []byte) Renderer {
	dumb := getenv("TERM") == "dumb"
	if getenv("NO_COLOR") != "" || dumb || !isTerminal(w) {
		o.Color = false
	}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		return GitHub(w, getenv("GITHUB_STEP_SUMMARY"), o, summary)
	case ReadsCommands(getenv):
		p := newPlain(w, o)
		p.dress = func(_ Event, text string) string { return Disarm(text) }
		return p
	case dumb:
		return Plain(w, o)
	}
	return Terminal(w, o)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
