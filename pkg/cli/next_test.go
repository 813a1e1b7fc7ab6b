package cli

import (
	"bytes"
	"testing"

	"hive-test/pkg/config"
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
