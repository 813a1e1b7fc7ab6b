package cli

import (
	"bytes"
	"strings"
	"testing"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
)

// Who can run them is told the next commands, and nobody else is.
func TestNextCommands(t *testing.T) {
	settings := config.Settings{}
	for _, tt := range []struct {
		name   string
		change func(*config.Settings, *app)
		want   string
	}{
		{"plain", func(*config.Settings, *app) {}, "next: hive-test test dev1\n      hive-test ssh dev1\n      eval \"$(hive-test env dev1)\"\n"},
		{"elsewhere", func(_ *config.Settings, a *app) { a.place = " --clusters-dir x" }, "next: hive-test test --clusters-dir x dev1\n" +
			"      hive-test ssh --clusters-dir x dev1\n      eval \"$(hive-test env --clusters-dir x dev1)\"\n"},
		{"quiet", func(s *config.Settings, _ *app) { s.Quiet = true }, ""},
		{"JSON lines", func(s *config.Settings, _ *app) { s.LogFormat = "json" }, ""},
		{"CI", func(_ *config.Settings, a *app) { a.Getenv = func(string) string { return "true" } }, ""},
	} {
		var stderr bytes.Buffer
		s := settings
		a := &app{Environment: Environment{Stderr: &stderr, Getenv: func(string) string { return "" }}}
		tt.change(&s, a)
		a.afterConfigure("dev1", s)
		if stderr.String() != tt.want {
			t.Errorf("%s: %q", tt.name, stderr.String())
		}
	}
}

// TestNextAfterUp: what comes next depends on the hive that is there.
func TestNextAfterUp(t *testing.T) {
	for _, tt := range []struct {
		outcome engine.Outcome
		want    string
	}{
		{engine.Outcome{Configure: "hive-test configure dev1 --binary FILE"}, "next: hive-test configure dev1 --binary FILE\n"},
		{engine.Outcome{Hive: engine.HiveFormed}, "next: hive-test status dev1\n"},
		{
			engine.Outcome{Hive: engine.HiveStopped, Configure: "hive-test configure dev1 --from start"},
			"next: hive-test configure dev1 --from start\n",
		},
		{
			engine.Outcome{Hive: engine.HiveOthers, Configure: "hive-test configure dev1 --force"},
			"hive was formed of other nodes: --force forms it anew, and drops what it holds\nnext: hive-test configure dev1 --force\n",
		},
	} {
		var stderr bytes.Buffer
		a := &app{Environment: Environment{Stderr: &stderr, Getenv: func(string) string { return "" }}}
		a.afterUp("dev1", config.Settings{}, tt.outcome)
		if !strings.HasPrefix(stderr.String(), tt.want) {
			t.Errorf("%q: %q, want %q", tt.outcome.Hive, stderr.String(), tt.want)
		}
	}
}
