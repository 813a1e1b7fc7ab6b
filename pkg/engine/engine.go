// Package engine is the life of clusters, for any Go program: one method per verb of hive-test. It knows of no command
// line, no terminal and no signals: what is asked for comes as a Request, what happens is told as events, what came of
// it is an Outcome.
//
// An Engine may run several clusters at once; of one cluster, one run at a time changes anything (see
// state.LockedError).
package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/target"
)

// Options are what an engine gets from the program that it works for. The zero value works.
type Options struct {
	// Version is the program's, which records of clusters name; empty: "devel".
	Version string
	// Environ is what OpenTofu, suites and the simulator get of the environment; nil: that of this process.
	Environ []string
	// TofuEnviron is Environ with what OpenTofu alone gets; nil: Environ.
	TofuEnviron []string
	// CacheDir keeps programs and providers between runs; empty: hive-test in the user's cache directory.
	CacheDir string
	// LockDir is where runs of this user keep each other from the same VM ids, where no setting names another
	// directory. Empty: a directory of this user among the temporary files, unless NoLockDir says why there is none.
	LockDir   string
	NoLockDir error
	// Events gets every event of every run; nil: nobody does. It must be safe for concurrent use.
	Events progress.Sink
	// Watched says that somebody sees events as they come, so that it is worth asking Proxmox VE how far machines are.
	Watched bool
	// Early are events of before: each run tells them at its start.
	Early []progress.Event
	// Secrets are the values that no file and no event may show; nil: those alone that runs learn.
	Secrets *progress.Secrets
	// Attend makes f hear when the user asks a run to end, before its context ends; f(nil) ends that. It returns lines
	// to be shown at once. It is for programs that run one verb at a time. Nil: the end of a run's context is all that
	// is noted.
	Attend func(f func(signal os.Signal, again bool) (lines []string))
	// EndChildren ends the processes that a run has left when its Abort has ended; nil: they are left.
	EndChildren func()
	// Confirm asks the user; nil: nobody can be asked, which is an error where it is needed.
	Confirm func(question string) (bool, error)
	// Advise completes the commands that a text advises; nil: they are as they are.
	Advise func(text string) string
}

// Engine runs verbs on clusters. Its methods are safe for concurrent use.
type Engine struct{ Options }

// Open returns an engine, unless ctx has ended. It touches neither disk nor network, and keeps no context.
func Open(ctx context.Context, options Options) (*Engine, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if options.Version == "" {
		options.Version = "devel"
	}
	if options.Environ == nil {
		options.Environ = os.Environ()
	}
	if options.TofuEnviron == nil {
		options.TofuEnviron = options.Environ
	}
	if dir, err := os.UserCacheDir(); options.CacheDir == "" && err == nil {
		options.CacheDir = filepath.Join(dir, "hive-test")
	}
	if options.Events == nil {
		options.Events = progress.SinkFunc(func(progress.Event) {})
	}
	if options.Secrets == nil {
		options.Secrets = new(progress.Secrets)
	}
	if options.EndChildren == nil {
		options.EndChildren = func() {}
	}
	if options.Confirm == nil {
		options.Confirm = func(string) (bool, error) { return false, errors.New("nobody can be asked") }
	}
	if options.Advise == nil {
		options.Advise = func(text string) string { return text }
	}
	return &Engine{options}, nil
}

// Request says which cluster a verb is about, and what is asked for.
type Request struct {
	Name     string
	Settings config.Settings
	// Abort ends the cleaning up of a run whose own context has ended; nil: it is done to its end.
	Abort context.Context
	// Unreported leaves the reports of a run that is refused before it begins to the caller, who may try again.
	Unreported bool
}

// named is the request for a verb that needs no cluster: its events have the name of another thing then.
func (r Request) named(otherwise string) Request {
	r.Name = cmp.Or(r.Name, otherwise)
	return r
}

// Outcome is what came of a run with phases. Report is complete whatever the error; Dir is empty where the run ended
// before it began.
type Outcome struct {
	Report report.Report
	Dir    string
	Hive   Hive // after up
	// Configure is the command of hive-test that comes next after up; empty where hive needs nothing.
	Configure string
}

// Hive is what an up has found of the hive on its cluster.
type Hive string

// What hive can be.
const (
	HiveUnformed Hive = ""              // to be formed, or half way through that
	HiveFormed   Hive = "formed"        // of the nodes that are there
	HiveStopped  Hive = "stopped"       // the same, but nodes were restarted, where it is to be started
	HiveOthers   Hive = "other-members" // formed of other nodes: only by force it is formed anew
)

// SecretsOf are the values of settings that nothing may show.
func SecretsOf(settings config.Settings) []string {
	secrets := target.TokenSecrets(settings.Proxmox.Token.Reveal())
	for _, secret := range []config.Secret{settings.StatePassphrase, settings.StateServer.Passphrase} {
		if !secret.Empty() {
			secrets = append(secrets, secret.Reveal())
		}
	}
	return append(secrets, settings.HeldCredentials()...)
}
