package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// How a description writes times, in UTC. Of two promotions the later one counts, however soon it came.
const (
	timeLayout     = "2006-01-02T15:04:05Z"
	promotedLayout = "2006-01-02T15:04:05.000Z"
)

// Description is the text that a template carries: a line that says what it is, and one for each input. Whatever else people write
// beside these lines stays theirs.
func (i Identity) Description() string {
	promoted := "no"
	if !i.Promoted.IsZero() {
		promoted = i.Promoted.UTC().Format(promotedLayout)
	}
	verified := "no"
	if i.Verified {
		verified = "yes"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Template of hive-test - layer: %s - version: %s - built: %s - by: %s - verified: %s - promoted: %s\n", i.Layer,
		i.Version, i.Built.UTC().Format(timeLayout), i.Builder, verified, promoted)
	for _, name := range slices.Sorted(maps.Keys(i.Inputs)) {
		fmt.Fprintf(&text, "input %s: %s\n", name, oneLine(i.Inputs[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(i.Versions)) {
		line := fmt.Sprintf("version %s: %s\n", name, oneLine(i.Versions[name]))
		if text.Len()+len(line) <= mostText {
			text.WriteString(line)
		}
	}
	return text.String()
}

// mostText is how long a description may become: Proxmox VE takes 8192 bytes, and people may add to it. What was found and has no
// room is not told, and not compared with clones.
const mostText = 7000

// oneLine is a value without line ends, which Proxmox VE may rewrite.
func oneLine(value string) string { return strings.Join(strings.Fields(value), " ") }

var (
	identityLine = regexp.MustCompile(`(?m)^Template of hive-test - layer: ([a-z0-9-]+) - version: (hive-[a-z0-9.-]+) - built: (\S+) - by: (\S+)` +
		` - verified: (yes|no) - promoted: (\S+)[ \t\r]*$`)
	valueLine = regexp.MustCompile(`(?m)^(input|version) ([^\r\n]+?): ([^\r\n]*?)[ \t\r]*$`)
)

// ParseDescription reads what Description has written, whatever people have added. ok is false where it names no template, or several.
func ParseDescription(text string) (i Identity, ok bool) {
	found := identityLine.FindAllStringSubmatch(text, 2)
	if len(found) != 1 {
		return Identity{}, false
	}
	line := found[0]
	i = Identity{Layer: line[1], Version: line[2], Builder: line[4], Verified: line[5] == "yes", Inputs: Inputs{}, Versions: Inputs{}}
	var err error
	if i.Built, err = time.Parse(timeLayout, line[3]); err != nil {
		return Identity{}, false
	}
	if line[6] != "no" {
		if i.Promoted, err = time.Parse(promotedLayout, line[6]); err != nil {
			return Identity{}, false
		}
	}
	for _, value := range valueLine.FindAllStringSubmatch(text, -1) {
		if value[1] == "input" {
			i.Inputs[value[2]] = value[3]
		} else {
			i.Versions[value[2]] = value[3]
		}
	}
	return i, true
}

// Redescribe is a description with what it tells of the template replaced by i; what people have added stays.
func Redescribe(text string, i Identity) string {
	if _, ok := ParseDescription(text); !ok {
		return i.Description()
	}
	line, _, _ := strings.Cut(i.Description(), "\n")
	return identityLine.ReplaceAllLiteralString(text, line)
}
