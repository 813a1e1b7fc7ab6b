package engine

import (
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/hive"
)

// hiveOptions are what configure installs: what the user named, or what came with the simulator.
func (s *session) hiveOptions() hive.Options {
	options := installed(s.settings)
	if options.Binary == "" && options.Tarball == "" && options.SourceDir == "" && options.Repo == "" {
		options.Binary = s.record.Binary
	}
	if s.settings.Given("packages") {
		s.record.Packages = options.Packages
	}
	options.Packages = s.record.Packages
	if s.settings.Given("hive.layout") {
		s.record.Layout = options.Layout
	}
	if s.record.Layout != "" {
		options.Layout = s.record.Layout
	}
	options.SkipCloudInit = s.record.Spec.Deployer == cluster.DeployerExisting
	options.OSEssentials = s.record.Spec.CloudInit == cluster.CloudInitNone
	return options
}

// installed is what the user has named to be installed, and how.
func installed(settings config.Settings) hive.Options {
	return hive.Options{
		Binary: settings.Binary, Tarball: settings.Tarball, SourceDir: settings.SourceDir, Build: settings.Build, Repo: settings.Repo, Ref: settings.Ref,
		ScriptsDir: settings.ScriptsDir, Layout: settings.Hive.Layout, InitFlags: settings.Hive.InitFlags, JoinFlags: settings.Hive.JoinFlags, HealthTimeout: settings.HealthTimeout,
		ProbeTimeout: settings.Hive.ProbeTimeout,
		Packages:     packages(settings),
	}
}

// packages are the names that the setting lists, with commas or blanks between them, too.
func packages(settings config.Settings) []string {
	return strings.FieldsFunc(strings.Join(settings.Packages, ","), func(r rune) bool { return r == ',' || r == ' ' })
}
