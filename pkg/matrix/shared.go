package matrix

import (
	"fmt"
	"strings"
)

// Shared says what all cells that failed have in common and not every other has: the difference that may explain the
// failures. Empty: nothing, or none failed or all.
func (m Matrix) Shared(failed, passed []Cell) string {
	if len(failed) == 0 || len(passed) == 0 {
		return ""
	}
	common, alone := Combination{}, Combination{} // alone: what none that passed has
	for key, value := range failed[0].Values {
		one := Combination{key: value}
		if count(failed, one) == len(failed) && count(passed, one) < len(passed) {
			common[key] = value
		}
		if count(failed, one) == len(failed) && count(passed, one) == 0 {
			alone[key] = value
		}
	}
	if len(alone) > 0 {
		common = alone
	}
	if len(common) == 0 {
		return ""
	}
	what := strings.ReplaceAll(m.Label(Cell{Values: common}), ", ", " and ")
	also := count(passed, common)
	subject := fmt.Sprintf("all %d cells that failed have %s", len(failed), what)
	if len(failed) == 1 {
		subject = "the cell that failed has " + what
	}
	switch {
	case also == 0:
		return subject + ", and none that passed has"
	case also == 1:
		return subject + fmt.Sprintf(", and so has 1 of the %d that passed", len(passed))
	}
	return subject + fmt.Sprintf(", and so have %d of the %d that passed", also, len(passed))
}

// count is how many cells have a combination.
func count(cells []Cell, c Combination) int {
	n := 0
	for _, cell := range cells {
		if cell.Values.has(c) {
			n++
		}
	}
	return n
}
