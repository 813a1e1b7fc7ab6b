package engine

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Who reads of an interruption is told to go on where the cluster was there before, and to remove only what is new.
func TestInterruption(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		finish, signal string
		says           string
		next           []string
	}{
		{"hive-test down ci --clusters-dir c", "interrupt", "was interrupted (INT) at ", nil},
		{"hive-test down ci --clusters-dir c", "", "did not come to its end (it was killed, or its disk was full); remove what it left: hive-test down ci --clusters-dir c", nil},
		{"hive-test up ci --clusters-dir c", "", "; the cluster was there before and stays: `hive-test up ci --clusters-dir c` goes on", []string{"hive-test up ci"}},
		{"hive-test configure ci --clusters-dir c", "terminated", "was there before and stays", []string{"hive-test configure ci"}},
		{"hive-test test ci --clusters-dir c", "", "`hive-test test ci --clusters-dir c` runs the suites again", nil},
	} {
		i := &Interruption{Time: &now, Signal: tt.signal, Command: "hive-test full ci", Finish: tt.finish}
		if got := i.next("ci"); !strings.Contains(i.String(), tt.says) || !slices.Equal(got, tt.next) {
			t.Errorf("%s: %q, next %q", tt.finish, i, got)
		}
	}
}
