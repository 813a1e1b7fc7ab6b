package report

import (
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"hive-test/pkg/progress"
)

// sgr is what turns colours on and off in a terminal (ECMA-48).
var sgr = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// look is how text of a terminal looks: 0 for the usual colour, 1 to 8 for the colours, 9 to 16 for the bright ones.
type look struct {
	color int
	bold  bool
}

// drawn returns text that a program printed for a terminal as HTML: colours and bold as classes of spans, all other
// sequences dropped, everything else escaped.
func drawn(text string) template.HTML {
	var b strings.Builder
	var now look
	for text = strings.TrimRight(text, "\r\n \t"); text != ""; {
		at := sgr.FindStringSubmatchIndex(text)
		if at == nil {
			at = []int{len(text), len(text), len(text), len(text)}
		}
		now.write(&b, progress.Clean(text[:at[0]]))
		if at[0] < at[1] {
			now.apply(text[at[2]:at[3]])
		}
		text = text[at[1]:]
	}
	return template.HTML(b.String()) // every text in it went through the escaper, and classes are our own
}

func (l look) write(b *strings.Builder, text string) {
	if text == "" {
		return
	}
	var classes []string
	if l.bold {
		classes = append(classes, "b")
	}
	if l.color > 0 {
		classes = append(classes, "c"+strconv.Itoa(l.color-1))
	}
	if len(classes) > 0 {
		b.WriteString(`<span class="` + strings.Join(classes, " ") + `">`)
		defer b.WriteString("</span>")
	}
	template.HTMLEscape(b, []byte(text))
}

// apply changes the look as codes say. A colour of 256 or of all takes its parameters with it, and is the usual one.
func (l *look) apply(codes string) {
	all := strings.Split(codes, ";")
	for i := 0; i < len(all); i++ {
		n, _ := strconv.Atoi(all[i]) // none is 0
		switch {
		case n == 0:
			*l = look{}
		case n == 1:
			l.bold = true
		case n == 22:
			l.bold = false
		case n >= 30 && n <= 37:
			l.color = n - 30 + 1
		case n >= 90 && n <= 97:
			l.color = n - 90 + 9
		case n == 39:
			l.color = 0
		case n == 38 || n == 48:
			if n == 38 {
				l.color = 0
			}
			if i+1 < len(all) && all[i+1] == "5" {
				i += 2
			} else if i+1 < len(all) && all[i+1] == "2" {
				i += 4
			}
		}
	}
}
