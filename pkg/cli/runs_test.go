package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

func TestRunsOnANarrowTerminal(t *testing.T) {
	t.Setenv("TZ", "UTC")
	code, began := 6, time.Date(2026, 11, 5, 12, 30, 1, 0, time.UTC)
	runs := []engine.KeptRun{
		{
			Cluster: "ci-123", Run: "20261105T123001.000Z-full", Verb: "full", Result: engine.RunFailed, ExitCode: &code,
			Started: began, Seconds: 754, Cases: engine.RunCases{Passed: 11, Failed: 1}, Bytes: 5 << 20,
		},
		{
			Cluster: "a-rather-long-name-of-a-cluster", Run: "20261105T113001.000Z-configure", Verb: "configure",
			Result: engine.RunInterrupted, Started: began, Seconds: 61, Bytes: 900,
		},
		{
			Cluster: "x", Run: "no\x1b[31mtes", RunDir: "/c/.runs/x/no\x1b[31mtes", Result: engine.RunUnknown,
			Problem: "it\nis odd",
		},
	}
	for width, want := range map[int]string{
		80: `
CLUSTER         RUN                             RESULT       CODE    TOOK  CASES
ci-123          20261105T123001.000Z-full       failed          6  12m34s  11/12
a-rather-long…  20261105T113001.000Z-configure  interrupted     -   1m01s      -
x               notes                           unknown         -       -      -
  - /c/.runs/x/notes: it is odd
3 runs of 3 clusters, 5.0 MiB
`,
		70: `
CLUSTER     RUN                             RESULT         TOOK  CASES
ci-123      20261105T123001.000Z-full       failed       12m34s  11/12
a-rather-…  20261105T113001.000Z-configure  interrupted   1m01s      -
x           notes                           unknown           -      -
  - /c/.runs/x/notes: it is odd
3 runs of 3 clusters, 5.0 MiB
`,
	} {
		var out strings.Builder
		if err := (runsJSON{Runs: runs}).print(page{Writer: &out, width: width}, false); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if len([]rune(strings.TrimRight(line, "\n"))) > width {
				t.Errorf("wider than %d: %q", width, line)
			}
		}
		if diff := cmp.Diff(want, "\n"+out.String()); diff != "" {
			t.Errorf("%d columns (-want +got)\n%s", width, diff)
		}
	}
}

// What differs fits 80 columns, and nothing of a run's texts reaches the terminal but text.
func TestRunsDiffOnANarrowTerminal(t *testing.T) {
	diff := runsDiffJSON{RunsDiff: engine.RunsDiff{
		Phases: []engine.RunChange{{
			Change: engine.Slower, Name: "up", Before: progress.Passed, After: progress.Passed, BeforeSeconds: 60,
			AfterSeconds: 125, UsualSeconds: 70,
		}},
		Cases: []engine.RunChange{{
			Change: engine.NewlyFailing, Suite: "tests/e2e/with-a-long-name.sh",
			Name: "Networking/it reaches every node by \x1b[31mname", Node: "node-2", Before: progress.Passed, After: progress.Failed, Error: "no\nanswer",
		}},
		Settings: []engine.ValueChange{{Key: "ttl", After: "2h"}},
	}}
	var out strings.Builder
	if err := diff.print(page{Writer: &out, width: 80}, false); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(out.String(), "CHANGE")
	want := `         WHAT                                BEFORE  AFTER
slower         phase up                            1m00s   2m05s (1m10s at most)
newly failing  tests/e2e/with-a-long-name.sh: Ne…  passed  failed
setting        ttl                                 -       2h
  - tests/e2e/with-a-long-name.sh: Networking/it reaches every node by name
      (node-2): no answer
`
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSizeWord(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB",
		3 << 40: "3072.0 GiB",
	} {
		if got := sizeWord(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}
