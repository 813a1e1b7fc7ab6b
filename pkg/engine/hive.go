package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
)

// hiveOptions are what configure installs: what the user named, or what came with the simulator.
func (s *session) hiveOptions() hive.Options {
	options := installed(s.Settings)
	if options.Binary == "" && options.Tarball == "" && options.SourceDir == "" && options.Repo == "" {
		options.Binary = s.Record.Binary
	} else if options.Binary != "" { // the next configure takes it, too
		s.Record.Binary = config.Absolute(options.Binary)
	}
	if s.Settings.Given("packages") {
		s.Record.Packages = options.Packages
	}
	options.Packages = s.Record.Packages
	if s.Settings.Given("hive.layout") {
		s.Record.Layout = options.Layout
	}
	if s.Record.Layout != "" {
		options.Layout = s.Record.Layout
	}
	options.SkipCloudInit = !s.Makes()
	options.OSEssentials = s.Record.Spec.CloudInit == cluster.CloudInitNone
	return options
}

// installed is what the user has named to be installed, and how.
func installed(settings config.Settings) hive.Options {
	return hive.Options{
		Binary: settings.Binary, Tarball: settings.Tarball, SourceDir: settings.SourceDir, Build: settings.Build,
		Repo: settings.Repo, Ref: settings.Ref,
		ScriptsDir: settings.ScriptsDir, Layout: settings.Hive.Layout, InitFlags: settings.Hive.InitFlags,
		JoinFlags: settings.Hive.JoinFlags, HealthTimeout: settings.HealthTimeout,
		ProbeTimeout: settings.Hive.ProbeTimeout,
		Packages:     packages(settings),
	}
}

// packages are the names that the setting lists, with commas or blanks between them, too.
func packages(settings config.Settings) []string {
	return strings.FieldsFunc(strings.Join(settings.Packages, ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// checkCPUs looks whether nodes get the CPUs that hive reserves, as far as it is known which hive that will be.
func (s *session) checkCPUs(ctx context.Context) []deploy.Finding {
	f := deploy.Finding{ID: "node-cpus", Title: "nodes have the CPUs that hive reserves", Status: deploy.Pass}
	cpus := cmp.Or(s.Record.Spec.CPUCores, s.Settings.CPUCores)
	problem, fatal := hive.TooFewCPUs("", cpus) // which is asked first, for it runs no program
	if problem != "" {
		problem, fatal = hive.TooFewCPUs(installed(s.Settings).Era(ctx), cpus)
	}
	if problem == "" {
		f.Detail = fmt.Sprintf("%d per node", cpus)
		return []deploy.Finding{f}
	}
	f.Status, f.Detail, f.Fix = deploy.Warn, problem, "set --cpu-cores to 4 or more"
	if fatal {
		f.Status = deploy.Fail
	}
	return []deploy.Finding{f}
}
