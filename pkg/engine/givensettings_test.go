package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

// given are the settings that a run with this file tells of.
func given(t *testing.T, file string) []progress.Setting {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "hive-test.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(config.LoadOptions{
		Flags: pflag.NewFlagSet("test", pflag.ContinueOnError), ConfigPath: path, WorkDir: dir, Env: func(string) string { return "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return givenSettings(settings)
}

const suitesFile = `suites:
  e2e:
    command: go test -json ./e2e --as hunter22
    results: gotest
    on: node1
    env: [MODE=fast, PASSED_ON, API_TOKEN=hunter22, "DB=postgres://me:hunter23@db/x", "FOR=hunter22 too"]
    timeout: 20m
    retries: 0
    needs: {nodes: 3, kvm: true}
  plain:
    path: /opt/x.sh
quarantine:
  - {suite: e2e, case: TestA*, reason: issue 5, until: 2999-01-31}
`

// Suites and quarantine are told with what they are, and without secrets.
func TestGivenSuites(t *testing.T) {
	var got []string
	for _, s := range given(t, suitesFile) {
		got = append(got, s.Key+" = "+s.Value)
		if !strings.Contains(s.From, "hive-test.yaml") {
			t.Errorf("%s is from %q", s.Key, s.From)
		}
	}
	if diff := cmp.Diff([]string{
		"suites = e2e, plain",
		"suites.e2e.command = go test -json ./e2e --as [redacted]",
		"suites.e2e.results = gotest",
		"suites.e2e.on = node1",
		"suites.e2e.env = MODE=fast, PASSED_ON, API_TOKEN, DB, FOR=[redacted] too",
		"suites.e2e.timeout = 20m",
		"suites.e2e.retries = 0",
		"suites.e2e.needs.nodes = 3",
		"suites.e2e.needs.kvm = true",
		"suites.plain.path = /opt/x.sh",
		"quarantine = TestA*",
		"quarantine.e2e: TestA* = issue 5 (until 2999-01-31)",
	}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Two runs with a suite of the same name differ in what that is.
func TestCompareSuites(t *testing.T) {
	changed := strings.NewReplacer(
		"MODE=fast", "MODE=slow", "hunter22", "hunter24", "20m", "30m", "retries: 0", "retries: 2", "nodes: 3", "nodes: 5",
		"issue 5", "issue 6", "/opt/x.sh", "/opt/y.sh",
	).Replace(suitesFile)
	before, after := tested(), tested()
	before.Settings, after.Settings = given(t, suitesFile), given(t, changed)
	of := func(key, before, after string) ValueChange { return ValueChange{"suites." + key, before, after} }
	want := []ValueChange{
		{"quarantine.e2e: TestA*", "issue 5 (until 2999-01-31)", "issue 6 (until 2999-01-31)"},
		of("e2e.env", "MODE=fast, PASSED_ON, API_TOKEN, DB, FOR=[redacted] too", "MODE=slow, PASSED_ON, API_TOKEN, DB, FOR=[redacted] too"),
		of("e2e.needs.nodes", "3", "5"), of("e2e.retries", "0", "2"), of("e2e.timeout", "20m", "30m"),
		of("plain.path", "/opt/x.sh", "/opt/y.sh"),
	}
	if diff := cmp.Diff(want, compareRuns(before, after, []report.Report{}).Settings); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
