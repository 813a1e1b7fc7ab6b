package progress

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// redraw is the terminal as mpb draws on it: text, and at its end the lines of the live view, which the next text replaces.
// The cursor waits at the beginning of the view, for that is where it stays whatever becomes of the lines below it: in a
// window that becomes narrower, many terminals break them, and a program hears of that some time later.
type redraw struct {
	bytes.Buffer
	out  io.Writer
	size func() (width, height int, err error)
	view bool // there is one
}

// What terminals understand: lines that are too wide are cut, or broken again; all from the cursor on is erased.
const (
	cutLines   = "\x1b[?7l"
	breakLines = "\x1b[?7h"
	eraseBelow = "\r\x1b[J"
)

// IsTerminal is for mpb.
func (r *redraw) IsTerminal() bool { return true }

// GetTermSize is for mpb.
func (r *redraw) GetTermSize() (width, height int, err error) { return r.size() }

// Flush draws what was written, the last lines of which are the view.
func (r *redraw) Flush(lines int) error {
	all := strings.SplitAfter(r.String(), "\n")
	r.Reset()
	told := max(0, len(all)-1-lines) // the last one is empty
	text := strings.Join(all[:told], "")
	if r.view {
		text = eraseBelow + text
	}
	if r.view = lines > 0; r.view {
		text += cutLines + strings.Join(all[told:], "") + breakLines + fmt.Sprintf("\x1b[%dA", lines)
	}
	_, err := io.WriteString(r.out, text)
	return err
}
