package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
)

// hiveOptions are what configure installs: what the user named, or what came with the simulator.
func (s *session) hiveOptions() hive.Options {
	options := installed(s.Settings)
	if s.sourceBefore == nil {
		s.sourceBefore = new(s.Record.Source)
	}
	if options.Source = again(options.Source, s.Record.Source, s.Settings.Given("build")); !sourceOf(s.Settings).Named() {
		options.Source = s.withoutGone(options.Source)
	} else if s.Record.Source = options.Source; hasPassword(options.Repo) { // the next configure takes it, too
		s.Record.Source = cluster.Source{}
	}
	if s.Settings.Given("packages") {
		s.Record.Packages = options.Packages
	}
	options.Packages = slices.Concat(s.Record.Packages, s.template.layer.Packages)
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

// withoutGone returns a remembered source, or none where it was a file or directory of this machine that is there no more:
// what is on the nodes stays.
func (s *session) withoutGone(source cluster.Source) cluster.Source {
	local := cmp.Or(source.Binary, source.Tarball, source.SourceDir)
	if _, err := os.Stat(local); local == "" || !errors.Is(err, fs.ErrNotExist) {
		return source
	}
	if s.verb == string(cluster.PhaseConfigure) || s.verb == "full" {
		progress.Warnf(s.Sink, "%s, which was installed before, is gone: hive stays as it is on the nodes", local)
	}
	return cluster.Source{Build: source.Build}
}

// again returns the source that was named now, or else that of before, of which another ref, or another place to build it,
// may be named alone.
func again(now, before cluster.Source, builds bool) cluster.Source {
	if now.Named() {
		return now
	}
	if !builds {
		now.Build = before.Build
	}
	now.Ref = cmp.Or(now.Ref, before.Ref)
	now.Binary, now.Tarball, now.SourceDir, now.Repo = before.Binary, before.Tarball, before.SourceDir, before.Repo
	return now
}

// hasPassword reports whether a repository's URL holds what no record may.
func hasPassword(repo string) bool {
	parsed, err := url.Parse(repo)
	if err != nil { // such as git@host:path
		return false
	}
	_, given := parsed.User.Password()
	return given || parsed.User != nil && strings.HasPrefix(parsed.Scheme, "http") // a token stands where the user does
}

// sourceOf is where the settings say that hive comes from.
func sourceOf(settings config.Settings) cluster.Source {
	path := func(name string) string {
		if name == "" {
			return ""
		}
		return config.Absolute(name)
	}
	return cluster.Source{
		Binary: path(settings.Binary), Tarball: path(settings.Tarball), SourceDir: path(settings.SourceDir),
		Build: settings.Build, Repo: settings.Repo, Ref: settings.Ref,
	}
}

// installed is what the user has named to be installed, and how.
func installed(settings config.Settings) hive.Options {
	return hive.Options{
		Source: sourceOf(settings), ScriptsDir: settings.ScriptsDir, Layout: settings.Hive.Layout, InitFlags: settings.Hive.InitFlags,
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
