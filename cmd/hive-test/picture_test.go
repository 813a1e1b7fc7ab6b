package main_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// picture is what the README shows of a run.
var picture = filepath.Join("..", "..", "docs", "pictures", "full.svg")

// TestPicture looks at the picture of a run in the README. -update takes it anew, of a terminal in tmux.
func TestPicture(t *testing.T) {
	if *update {
		takePicture(t)
	}
	raw, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for decoder := xml.NewDecoder(strings.NewReader(string(raw))); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", picture, err)
		}
		if data, ok := token.(xml.CharData); ok {
			text.Write(data)
		}
	}
	for _, want := range []string{"$ hive-test full ci-123", "✓ up", "✓ configure", "✓ test", "✓ down", "full ci-123 passed"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the picture does not show %q: take it anew with -update", want)
		}
	}
	if !strings.Contains(page(t, "README.md"), "](docs/pictures/full.svg)") {
		t.Error("the README does not show the picture")
	}
}

func takePicture(t *testing.T) {
	needTmux(t)
	window := size{96, 60}
	r := newRecorder(startSimulator(t), window)
	shown := r.open("full ci-123 --sim")
	shown.await("[exit ")
	shown.ended(0)
	text := shown.tmux("capture-pane", "-p", "-e", "-J", "-S", "-", "-t", "it")
	text = strings.ReplaceAll(text[:strings.Index(text, "[exit ")], r.dir+"/", "")
	if err := os.MkdirAll(filepath.Dir(picture), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(picture, []byte(svg("\x1b[1m$ hive-test full ci-123 --sim\x1b[0m\n"+text, window.width)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sgr is what turns colors on and off (ECMA-48).
var sgr = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// Of a character, in the unit of the picture.
const charWidth, lineHeight, margin = 8.4, 19, 14

// svg draws lines of a terminal.
func svg(text string, columns int) string {
	lines := strings.Split(strings.TrimRight(text, "\n "), "\n")
	width, height := float64(columns)*charWidth+2*margin, len(lines)*lineHeight+2*margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="a run of hive-test full in a terminal">
<style>text{font:14px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d8dee9;white-space:pre}.b{font-weight:bold}.r{fill:#f47067}.g{fill:#57ab5a}.y{fill:#daaa3f}.d{fill:#8b949e}</style>
<rect width="100%%" height="100%%" rx="8" fill="#1c2128"/>
`, width, height, width, height)
	class := ""
	for i, line := range lines {
		fmt.Fprintf(&out, `<text x="%d" y="%d" xml:space="preserve">`, margin, margin+lineHeight*(i+1)-5)
		for len(line) > 0 {
			at := sgr.FindStringSubmatchIndex(line)
			if at == nil {
				at = []int{len(line), len(line), len(line), len(line)}
			}
			tspan(&out, class, line[:at[0]])
			if at[0] < at[1] {
				class = classOf(class, line[at[2]:at[3]])
			}
			line = line[at[1]:]
		}
		out.WriteString("</text>\n")
	}
	return out.String() + "</svg>\n"
}

func tspan(out *strings.Builder, class, text string) {
	if text == "" {
		return
	}
	if class != "" {
		fmt.Fprintf(out, `<tspan class="%s">`, class)
	}
	_ = xml.EscapeText(out, []byte(text)) // a strings.Builder cannot fail
	if class != "" {
		out.WriteString("</tspan>")
	}
}

// classOf returns how text looks after codes.
func classOf(class, codes string) string {
	for _, code := range strings.Split(codes, ";") {
		switch code {
		case "", "0", "39", "22":
			class = ""
		case "1":
			class = "b"
		case "2":
			class = "d"
		case "31":
			class = "r"
		case "32":
			class = "g"
		case "33":
			class = "y"
		}
	}
	return class
}
