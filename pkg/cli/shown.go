package cli

import (
	"bytes"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"hive-test/pkg/progress"
)

// shown is what a node has printed as it goes to w: what would act upon a terminal is taken out where w is one, and in
// the log of a job that reads commands, these too. What goes to a file or, elsewhere, to another program, is as the
// node has sent it.
func (a *app) shown(w io.Writer, text string) string {
	commands := a.commandsFrom(w)
	if commands || isTerminal(w) {
		text = progress.Clean(text)
	}
	if commands {
		text = progress.Disarm(text)
	}
	return text
}

// commandsFrom reports whether what is written to w is read for commands.
func (a *app) commandsFrom(w io.Writer) bool {
	if file, ok := w.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return false
		}
	}
	return progress.ReadsCommands(a.Getenv)
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// shownLines passes lines on as show returns them.
type shownLines struct {
	to      io.Writer
	show    func(text string) string
	pending []byte
}

// longestLine is how much of a line is waited for.
const longestLine = 64 << 10 // bytes

// Write keeps what is no whole line yet.
func (l *shownLines) Write(p []byte) (int, error) {
	l.pending = append(l.pending, p...)
	end := bytes.LastIndexByte(l.pending, '\n') + 1
	if len(l.pending)-end > longestLine {
		end = len(l.pending)
	}
	if err := l.pass(end); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (l *shownLines) pass(end int) error {
	if end == 0 {
		return nil
	}
	_, err := io.WriteString(l.to, l.show(string(l.pending[:end])))
	l.pending = append(l.pending[:0], l.pending[end:]...)
	return err
}

// flush passes on what has no line end.
func (l *shownLines) flush() error { return l.pass(len(l.pending)) }

// withNode is text with the name of the node that has printed it before each line.
func withNode(node, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(node + ": " + strings.TrimRight(line, "\r\n") + "\n")
	}
	return out.String()
}
