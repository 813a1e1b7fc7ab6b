package progress

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// redraw is the terminal as mpb draws on it: text, and at its end the lines of the live view, which the next text replaces.
// Where the window became narrower since, terminals have broken lines that are too wide for it, so that they take more
// rows than were drawn.
type redraw struct {
	bytes.Buffer
	out   io.Writer
	size  func() (width, height int, err error)
	drawn []int // how wide the lines of the view are
}

// IsTerminal is for mpb.
func (r *redraw) IsTerminal() bool { return true }

// GetTermSize is for mpb.
func (r *redraw) GetTermSize() (width, height int, err error) { return r.size() }

// Flush draws what was written, the last lines of which are the view.
func (r *redraw) Flush(lines int) error {
	text := r.String()
	r.Reset()
	up := r.rows()
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	r.drawn = r.drawn[:0]
	for _, line := range all[len(all)-min(lines, len(all)):] {
		r.drawn = append(r.drawn, cells(line))
	}
	if up > 0 {
		text = fmt.Sprintf("\x1b[%dA\x1b[J%s", up, text)
	}
	_, err := io.WriteString(r.out, text)
	return err
}

// rows is how many rows of the window the view takes now.
func (r *redraw) rows() int {
	width, _, err := r.size()
	rows := 0
	for _, line := range r.drawn {
		rows++
		if err == nil && width > 0 && line > width {
			rows += (line - 1) / width
		}
	}
	return rows
}
