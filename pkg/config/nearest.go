package config

import "strings"

// Nearest are the names that a word may have been meant for: those that are most like it, if a third of its letters at
// most is wrong, else those that begin with it.
func Nearest(word string, names []string) []string {
	var near, longer []string
	limit := (len(word) + 2) / 3
	for _, name := range names {
		switch d := distance(word, name); {
		case d < limit:
			near, limit = []string{name}, d
		case d == limit:
			near = append(near, name)
		}
		if len(word) > 1 && strings.HasPrefix(name, word) {
			longer = append(longer, name)
		}
	}
	if len(near) > 0 {
		return near
	}
	return longer
}

// distance is the number of letters to insert, delete, replace or swap to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
