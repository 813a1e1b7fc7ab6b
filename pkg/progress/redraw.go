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

// GetTermSize is for mpb, which leaves lines out where a window is lower than the view might be: the first ones, and more
// of them than it must. The rows leave out what does not fit by themselves.
func (r *redraw) GetTermSize() (width, height int, err error) {
	width, height, err = r.size()
	return width, max(height, maxLive+2), err
}

// Flush draws what was written, the last lines of which are the view.
func (r *redraw) Flush(lines int) error {
	all := strings.SplitAfter(r.String(), "\n")
	r.Reset()
	lines = min(max(0, lines), len(all)-1) // the last one is empty
	told := len(all) - 1 - lines
	if _, height, err := r.size(); err == nil { // the cursor comes back to what is in the window
		lines = min(lines, max(0, height-1))
	}
	text := strings.Join(all[:told], "")
	if r.view {
		text = eraseBelow + text
	}
	if r.view = lines > 0; r.view {
		text += cutLines + strings.Join(all[told:told+lines], "") + breakLines + fmt.Sprintf("\x1b[%dA", lines)
	}
	_, err := io.WriteString(r.out, text)
	return err
}
