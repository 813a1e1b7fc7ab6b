package cli

import (
	"fmt"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

// next says which commands come next after a run that passed, to people: not in CI, nor where only failures are told.
func (a *app) next(settings config.Settings, commands ...string) {
	if !a.advises(settings) {
		return
	}
	lead := "next: "
	for _, command := range commands {
		fmt.Fprintln(a.Stderr, lead+a.inPlace(command))
		lead = "      "
	}
}

// note says what is to be known before what comes next is done, to those who are told that.
func (a *app) note(settings config.Settings, text string) {
	if a.advises(settings) {
		fmt.Fprintln(a.Stderr, text)
	}
}

func (a *app) advises(settings config.Settings) bool {
	return !settings.Quiet && settings.LogFormat != "json" && a.Getenv("CI") == "" && !progress.ReadsCommands(a.Getenv)
}

func (a *app) afterUp(name string, settings config.Settings, outcome engine.Outcome) {
	if outcome.Configure == "" {
		a.next(settings, "hive-test status "+name, "hive-test ssh "+name, exports(name))
		return
	}
	if outcome.Hive == engine.HiveOthers {
		a.note(settings, "hive was formed of other nodes: --force forms it anew, and drops what it holds")
	}
	a.next(settings, outcome.Configure, "hive-test ssh "+name, exports(name))
}

func (a *app) afterConfigure(name string, settings config.Settings) {
	a.next(settings, "hive-test test "+name, "hive-test ssh "+name, exports(name))
}

// afterFull says nothing of a cluster that is gone.
func (a *app) afterFull(name string, settings config.Settings) {
	if settings.Keep == string(lifecycle.KeepAlways) {
		a.next(settings, "hive-test ssh "+name, exports(name), "hive-test down "+name)
	}
}

// exports is the command that gives a shell what it needs to use a cluster.
func exports(name string) string { return `eval "$(hive-test env ` + name + `)"` }
