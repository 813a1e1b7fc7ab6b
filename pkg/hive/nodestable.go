package hive

import (
	"regexp"
	"slices"
	"strings"
)

var ansi = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// parseNodes reads the table of `hive get nodes` and returns each node's STATUS by NAME. The table is coloured even
// when nobody looks, and columns were added over time: cells are found by their header.
func parseNodes(text string) map[string]string {
	nodes := map[string]string{}
	name, status, width := -1, -1, 0
	for line := range strings.Lines(ansi.ReplaceAllString(text, "")) {
		cells := splitRow(line)
		if name < 0 || status < 0 {
			name, status, width = column(cells, "NAME"), column(cells, "STATUS"), len(cells)
			continue
		}
		if len(cells) == width && cells[name] != "" && strings.Trim(cells[name], "-─=+") != "" {
			nodes[cells[name]] = cells[status]
		}
	}
	return nodes
}

// splitRow cuts a line at its bars, with or without bars at its ends.
func splitRow(line string) []string {
	line = strings.ReplaceAll(strings.TrimSpace(line), "│", "|")
	if !strings.Contains(line, "|") {
		return nil
	}
	if rest, framed := strings.CutPrefix(line, "|"); framed {
		line = strings.TrimSuffix(rest, "|")
	}
	cells := strings.Split(line, "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func column(cells []string, title string) int {
	return slices.IndexFunc(cells, func(cell string) bool { return strings.EqualFold(cell, title) })
}
