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
	if settings.Quiet || settings.LogFormat == "json" || a.Getenv("CI") != "" || progress.ReadsCommands(a.Getenv) {
		return
	}
	lead := "next: "
	for _, command := range commands {
		fmt.Fprintln(a.Stderr, lead+a.inPlace(command))
		lead = "      "
	}
}

func (a *app) afterUp(name string, settings config.Settings, hive engine.Hive) {
	configure := "hive-test configure " + name
	switch {
	case hive == engine.HiveFormed:
		a.next(settings, "hive-test status "+name, "hive-test ssh "+name, exports(name))
		return
	case hive == engine.HiveOthers:
		configure += " --force"
	}
	if !settings.Sim && settings.Binary == "" && settings.Tarball == "" && settings.SourceDir == "" && settings.Repo == "" {
		configure += " --binary FILE"
	}
	a.next(settings, configure, "hive-test ssh "+name, exports(name))
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
