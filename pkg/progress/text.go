package progress

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// replacement stands for what cannot be shown.
const replacement = '\uFFFD'

// Clean returns s as text that is safe in a terminal and in an XML 1.0 document: escape sequences of terminals, control
// characters and what changes the direction of text are gone, line ends are "\n", and what is not valid UTF-8 (or not
// allowed in XML) is U+FFFD.
// Tabs and line ends stay. Clean(Clean(s)) == Clean(s).
func Clean(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		if n := escapeLength(s[i:]); n > 0 {
			i += n
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\r':
			b.WriteByte('\n')
			if strings.HasPrefix(s[i+1:], "\n") {
				size++
			}
		case r == '\n', r == '\t':
			b.WriteRune(r)
		case isControl(r), unicode.Is(unicode.Bidi_Control, r): // by the latter, text would be read in another order than it has
		case r == utf8.RuneError, r == 0xFFFE, r == 0xFFFF:
			b.WriteRune(replacement)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// colors is what turns colours on and off in a terminal (ECMA-48).
var colors = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// CleanButColors is Clean, but for the escape sequences that turn colours on and off: they stay.
func CleanButColors(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	for {
		at := colors.FindStringIndex(s)
		if at == nil {
			return b.String() + Clean(s)
		}
		b.WriteString(Clean(s[:at[0]]) + s[at[0]:at[1]])
		s = s[at[1]:]
	}
}

func isClean(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isControl covers C0, DEL and C1: a terminal may take U+009B for the start of an escape sequence.
func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }

// escapeLength returns the length of the terminal escape sequence (ECMA-48) that s starts with, or 0.
func escapeLength(s string) int {
	switch {
	case strings.HasPrefix(s, "\u009b"): // the one-character form of ESC [
		return len("\u009b") + controlSequenceLength(s[len("\u009b"):])
	case len(s) < 2 || s[0] != 0x1b:
		return 0
	case s[1] == '[':
		return 2 + controlSequenceLength(s[2:])
	case strings.IndexByte("]PX^_", s[1]) >= 0: // OSC, DCS, SOS, PM, APC: text up to its terminator
		return 2 + stringLength(s[2:])
	case s[1] >= 0x20 && s[1] <= 0x2f && len(s) > 2: // two-character designators, like ESC ( B
		return 3
	case s[1] >= 0x30 && s[1] <= 0x7e:
		return 2
	}
	return 1
}

func controlSequenceLength(s string) int {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 0x40 && c <= 0x7e:
			return i + 1
		case c < 0x20 || c > 0x3f: // not a sequence after all: keep the text that follows
			return i
		}
	}
	return len(s)
}

// stringLength ends at BEL or ESC \. A sequence that does not end on its line takes no text with it.
func stringLength(s string) int {
	for i := range len(s) {
		switch {
		case s[i] == 0x07:
			return i + 1
		case s[i] == 0x1b && strings.HasPrefix(s[i:], "\x1b\\"):
			return i + 2
		case s[i] == '\n':
			return 0
		}
	}
	return 0
}

// OneLine is Clean on one line: line ends and tabs become blanks.
func OneLine(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// FirstLine is the first line of text that is not blank, as OneLine has it.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return OneLine(line)
}

// Clip bounds text to so many characters, and marks where it was cut.
func Clip(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return text
}

// ClipMiddle bounds text to so many characters, and marks what was left out: of its beginning, which tells what failed, it
// keeps a third, and of its end, which tells why, the rest.
func ClipMiddle(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		begin := limit / 3
		return string(r[:begin]) + "…" + string(r[len(r)-(limit-begin-1):])
	}
	return text
}

// indent puts prefix before every line of s after Clean, trailing blank lines dropped, and ends it with a line end.
// Of more than max lines, the last ones are left out and counted (max 0: all stay).
func indent(s, prefix string, max int) string {
	lines := strings.Split(strings.TrimRight(Clean(s), "\n\t "), "\n")
	left := 0
	if max > 0 && len(lines) > max {
		left = len(lines) - max
		lines = lines[:max]
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(prefix)
		b.WriteString(line)
		b.WriteByte('\n')
	}
	if left > 0 {
		b.WriteString(prefix + "… " + strconv.Itoa(left) + " more lines in the report\n")
	}
	return b.String()
}

// fit cuts a line to width columns, marking the cut with "…".
func fit(line string, width int) string {
	if width <= 0 {
		return ""
	}
	return runewidth.Truncate(line, width, "…")
}

// Wrap breaks lines of s at blanks so that none is wider than width cells. What follows of a line stands below its
// beginning, indented by indent more. Colors take no room. A word that is wider than a line stays whole, so that it can be
// copied, and so does a line that is a command. Of width 0, s stays as it is.
func Wrap(s string, width int, indent string) string {
	if width <= 0 {
		return s
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		text := strings.TrimSuffix(line, "\n")
		b.WriteString(wrapLine(text, width, indent) + line[len(text):])
	}
	return b.String()
}

// WrapTold is Wrap for what is told to people: a line with a command that comes next stays whole, for one that is broken
// cannot be copied. A command in backquotes does, and what is around it is broken as ever.
func WrapTold(s string, width int) string {
	const kept = "\u00a0" // for blanks of commands
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.Contains(quotedCommand.ReplaceAllString(line, ""), "hive-test ") {
			line = quotedCommand.ReplaceAllStringFunc(line, func(command string) string {
				return strings.ReplaceAll(command, " ", kept)
			})
			line = strings.ReplaceAll(Wrap(line, width, "  "), kept, " ")
		}
		b.WriteString(line)
	}
	return b.String()
}

var quotedCommand = regexp.MustCompile("`[^`\n]*`")

// shellCommand is a line that is a command, and nothing else: they stand alone and are indented.
var shellCommand = regexp.MustCompile(`^ +(cd|export|hive-test) `)

func wrapLine(line string, width int, indent string) string {
	if cells(line) <= width || shellCommand.MatchString(line) {
		return line
	}
	rest := strings.TrimLeft(line, " ")
	margin := line[:len(line)-len(rest)]
	var b strings.Builder
	b.WriteString(margin)
	used, gap := len(margin), ""
	for rest != "" {
		word, after, _ := strings.Cut(rest, " ")
		if wide := cells(gap + word); gap != "" && used+wide > width {
			b.WriteString("\n" + margin + indent + word)
			used = len(margin) + cells(indent+word)
		} else {
			b.WriteString(gap + word)
			used += wide
		}
		rest = strings.TrimLeft(after, " ")
		gap = strings.Repeat(" ", 1+len(after)-len(rest))
	}
	return b.String()
}

// cells is how many cells of a terminal a line of ours takes: colors take none.
func cells(line string) int {
	width := 0
	for line != "" {
		text, rest, found := strings.Cut(line, "\x1b[")
		width += runewidth.StringWidth(text)
		if !found {
			break
		}
		_, line, _ = strings.Cut(rest, "m")
	}
	return width
}

// FormatSeconds writes a duration for people: 0.4s, 12.3s, 1m05s, 1h02m.
func FormatSeconds(seconds float64) string {
	switch {
	case math.IsNaN(seconds) || seconds < 0:
		return "0.0s"
	case seconds < 59.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + "s"
	case seconds < 3599.5:
		s := int(math.Round(seconds))
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case seconds < 1e9:
		m := int(math.Round(seconds / 60))
		return fmt.Sprintf("%dh%02dm", m/60, m%60)
	}
	return "a very long time"
}

// FormatLimit writes a limit as people type it: 5m, not 5m0s. What was computed is rounded: 1s, not 982.1ms.
func FormatLimit(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.Round(precision(d)).String())
}

// precision is what of a duration is worth a word.
func precision(d time.Duration) time.Duration {
	switch d = d.Abs(); {
	case d >= 10*time.Second:
		return time.Second
	case d >= time.Second/2:
		return time.Second / 10
	case d >= time.Second/10:
		return 10 * time.Millisecond
	}
	return time.Millisecond
}

// Count writes how many of a thing there are: 1 VM, 2 VMs.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
