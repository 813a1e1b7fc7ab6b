package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// session is one run of a verb on one cluster: settings, narration, lock, record and the evidence of the run.
type session struct {
	*Engine
	*target.Target
	*run
	abort   context.Context
	before  *cluster.Record // as it was before up changed what is asked for; nil for a new cluster
	warm    bool            // full keeps the cluster for the next run
	unread  bool            // the cluster's directory could not be read
	lock    *state.Lock
	shared  *target.Shared // nil: the cluster is this machine's alone, or is not held
	running *lifecycle.Job
	suites  lifecycle.Suites // of test

	template templateRun // of verbs that build or verify templates

	sourceBefore *cluster.Source // of hive, as the record had it before another was named now
}

// open begins a run: nothing on disk is touched before hold. What settings refer to is read, but for what is needed later
// only, or by others.
func (e *Engine) open(ctx context.Context, verb string, request Request) (*session, error) {
	name := request.Name
	parsed, store, err := e.storeOf(name, request.Settings)
	if err != nil {
		return nil, err
	}
	settings, hidden, err := request.Settings.WithReferences(ctx, verbsOf(verb)...)
	e.Secrets.Learn(hidden...)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(withoutBackend(), verb) {
		settings = settings.WithPassphrase(ctx)
		if err := target.CheckState(settings); err != nil {
			return nil, err
		}
	}
	e.Secrets.Learn(SecretsOf(settings)...)
	r := newRun(e, verb, parsed, store.Root())
	s := &session{Engine: e, run: r, abort: request.Abort, Target: &target.Target{
		Program: e.program(), Verb: verb, Settings: settings, Store: store, Name: parsed, Sink: r.sink,
		Log: r.debug.log, File: r.file,
	}}
	s.Checks = []func(context.Context) []deploy.Finding{s.checkCPUs}
	if s.abort == nil {
		s.abort = context.Background()
	}
	for _, event := range e.Early {
		s.Sink.Emit(event)
	}
	return s, nil
}

// withoutBackend are verbs that need what is here alone, wherever the cluster's state is.
func withoutBackend() []string {
	return []string{"ssh", "exec", "cp", "logs", "env", "inventory", "wait"}
}

// verbsOf are the verbs that settings say they are used by: those on snapshots are one here.
func verbsOf(verb string) []string {
	switch first, _, _ := strings.Cut(verb, " "); first {
	case "snapshot":
		return []string{"save", "list", "delete", "restore"}
	case "state":
		return []string{first}
	}
	return []string{verb}
}

// program is what targets get of the program.
func (e *Engine) program() target.Program {
	return target.Program{
		Environ: e.Environ, TofuEnviron: e.TofuEnviron, CacheDir: e.CacheDir, LockDir: e.LockDir,
		NoLockDir: e.NoLockDir, Secrets: e.Secrets,
	}
}

// storeOf is where the cluster of that name is kept, whether or not it exists.
func (e *Engine) storeOf(name string, settings config.Settings) (cluster.Name, *state.Store, error) {
	parsed, err := cluster.ParseName(name)
	if err != nil {
		return "", nil, usage(err)
	}
	store, err := state.Open(settings.ClustersDir)
	if err != nil {
		return "", nil, Error{ExitConfig, err}
	}
	store.Version = e.Version
	return parsed, store, nil
}

// checkPlan refuses what could only fail at the end of a run.
func (s *session) checkPlan() error {
	for _, suite := range s.Settings.Suites {
		if strings.TrimSpace(suite) == "" {
			return usage(errors.New("--suite is empty: give smoke or a command"))
		}
	}
	if err := s.checkEvidenceDir(s.Settings.EvidenceDir); err != nil {
		s.Settings.EvidenceDir = "" // the reports of a refused run do not go there either
		return usage(fmt.Errorf("--evidence-dir: %w", err))
	}
	if err := checkJUnit(s.Settings.JUnit); err != nil {
		s.Settings.JUnit = ""
		return usage(fmt.Errorf("--junit: %w", err))
	}
	return nil
}

// checkEvidenceDir makes the directory that gets copies of what runs keep; empty: there is none. It must not be among
// the clusters, where `down` deletes it.
func (s *session) checkEvidenceDir(dir string) error {
	if dir == "" {
		return nil
	}
	clusters := s.Store.Root()
	if isWithin(clusters, filepath.Join(dir, string(s.Name))) {
		return fmt.Errorf("%s is in the clusters directory %s: name one outside of it", dir, clusters)
	}
	return os.MkdirAll(dir, 0o700)
}

// isWithin reports whether path is dir or below it, wherever links lead. Neither need exist.
func isWithin(dir, path string) bool {
	below, err := filepath.Rel(realPath(dir), realPath(path))
	return err == nil && filepath.IsLocal(below)
}

// realPath returns an absolute path without symbolic links, as far as it exists.
func realPath(path string) string {
	path = config.Absolute(path)
	for existing, rest := path, ""; ; existing, rest = filepath.Dir(existing), filepath.Join(filepath.Base(existing), rest) {
		if found, err := filepath.EvalSymlinks(existing); err == nil {
			return filepath.Join(found, rest)
		}
		if existing == filepath.Dir(existing) {
			return path
		}
	}
}

// checkJUnit makes the directory of the file for JUnit; empty: there is none.
func checkJUnit(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory", path)
	}
	return os.MkdirAll(filepath.Dir(path), 0o755)
}

// hold locks the cluster for this process, waiting for another run as long as --wait says.
func (s *session) hold(ctx context.Context) error { return s.holdWithin(ctx, s.Settings.Wait) }

// holdWithin locks the cluster for this process, waiting for another run for that time at most; 0: not at all.
func (s *session) holdWithin(ctx context.Context, patience time.Duration) error {
	holder := state.Holder{PID: os.Getpid(), Command: s.command(), Started: s.started}
	var lock *state.Lock
	var err error
	if patience > 0 {
		lock, err = s.Store.LockWithin(ctx, s.Name, holder, patience, func(e *state.LockedError) {
			progress.Infof(s.Sink, "waiting up to %s: %v", progress.FormatLimit(patience), e)
		})
	} else {
		lock, err = s.Store.Lock(s.Name, holder)
	}
	if _, locked := errors.AsType[*state.LockedError](err); err != nil && !locked && ctx.Err() == nil {
		return Error{ExitConfig, err}
	}
	if err != nil {
		return err
	}
	s.lock = lock
	if dead := lock.TookOver; dead != nil {
		progress.Infof(s.Sink, "took over the lock of a dead run: %s", dead)
	}
	if err := s.holdShared(ctx, holder, patience); err != nil {
		s.lock = nil
		return errors.Join(err, lock.Release())
	}
	return nil
}

// load reads the cluster's record.
func (s *session) load() error {
	record, err := s.Store.Load(s.Name)
	if err != nil {
		return s.explainRecord(err)
	}
	s.Record = record
	if err := s.environmentAsMade(record); err != nil {
		return err
	}
	s.hostsChanged()
	s.jumpAsAsked()
	return s.simulatedAsAsked()
}

// simulatedAsAsked refuses a cluster that is not simulated where a simulated one is asked for. A file or the
// environment asks verbs alone that take --sim, and not for clusters of hosts, which have a file of their own.
func (s *session) simulatedAsAsked() error {
	if !s.Settings.Sim || s.Record.Target.Simulated {
		return nil
	}
	hint := "leave --sim out"
	if !s.Settings.Explicit("sim") {
		if !s.Makes() || !config.Takes(s.verb, "sim") {
			return nil
		}
		hint = "add --sim=false: " + s.Settings.Source("sim") + " asks for a simulated one"
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %q is not a simulated cluster: nothing was changed", s.Name), hint,
	))
}

// jumpAsAsked reaches nodes as the user says now, where that is said.
func (s *session) jumpAsAsked() {
	if s.Settings.Given("ssh.proxy_jump") {
		s.Record.ProxyJump = s.Settings.SSH.Jumps
	}
}

// explainRecord says what to do where the record of the cluster cannot be read.
func (s *session) explainRecord(err error) error {
	path := s.Store.Path(s.Name, "cluster.json")
	switch {
	case errors.Is(err, state.ErrNotFound):
		hint := "`hive-test status` lists the clusters that are here; --clusters-dir names another directory"
		if near := s.nearestClusters(); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "? " + hint
		}
		if s.Settings.State.Remote() {
			hint = "hive-test attach " + s.Name.String() + " brings it here if another machine has made it; " + hint
		}
		return progress.WithHint(err, hint)
	case errors.Is(err, fs.ErrPermission):
		return progress.WithHint(err, "it belongs to the user who made the cluster")
	case errors.Is(err, state.ErrCorrupt):
		return progress.WithHint(err, "nothing was changed: put a good copy back, then try again: cp "+remote.Quote(path+".bak", path)+
			"; or `hive-test down "+filepath.Base(filepath.Dir(path))+"` removes the cluster")
	}
	return err
}

// nearestClusters returns the clusters that are here whose names are most like the one that was asked for.
func (s *session) nearestClusters() []string {
	here, _ := s.Store.List() // without it there is less to say
	names := make([]string, len(here))
	for i, name := range here {
		names[i] = string(name)
	}
	return config.Nearest(string(s.Name), names)
}

// limited is ctx with the limit of the whole run.
func (s *session) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Settings.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, s.started.Add(s.Settings.Timeout),
		fmt.Errorf("the whole run timed out after %s (--timeout)", progress.FormatLimit(s.Settings.Timeout)))
}

// within is ctx with a limit that the named flag sets; 0 is none. Phases have theirs from phase.Manager.
func within(ctx context.Context, limit time.Duration, flag string) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return phase.Limited(ctx, limit, fmt.Errorf("timed out (%s)", flag))
}

// job wires what the phases need. The user has said stop when root has ended by more than its time.
func (s *session) job(root context.Context, deployer deploy.Capable) *lifecycle.Job {
	options := s.hiveOptions()
	s.running = &lifecycle.Job{
		Record: s.Record, Store: s.store(), Evidence: evidence{s.Store, s.dir, s.Name}, Deploy: deployer,
		Dial: s.dial, Sink: s.Sink, Hive: options, SourceBefore: *s.sourceBefore,
		Suites:  s.suites,
		Environ: s.Environ, Watched: s.Watched,
		Reset:    lifecycle.Reset{Between: s.Settings.ResetBetween == "suite", Memory: s.Settings.ResetMemory},
		SuiteEnv: s.Settings.SuiteEnv, KillLeftovers: s.Settings.KillLeftovers, LostAfter: s.Settings.LostAfter,
		Now:         func() time.Time { return time.Now().UTC() },
		Interrupted: func() bool { return errors.Is(root.Err(), context.Canceled) }, Abort: s.abort, Secrets: s.Secrets,
	}
	if s.Recovered {
		s.running.Store = readOnlyStore{s.Store, s.unread, s.Sink}
	}
	return s.running
}

// connect makes the simulator of a simulated cluster run.
func (s *session) connect(ctx context.Context) error { return s.cutShort(ctx, s.Connect(ctx)) }

// dial opens the way to the nodes of a record, with the cluster's own key and host keys.
func (s *session) dial(r *cluster.Record) (lifecycle.Remote, error) {
	return remote.NewDialer(remote.Config{
		User: r.Spec.SSHUser, KeyPath: r.SSHKeyPath, KnownHosts: s.Store.Path(r.Name, "known_hosts"), Log: s.Log,
		ProxyJump: r.ProxyJump, AgentSocket: cmp.Or(r.SSHAgent, s.Settings.SSH.AgentSocket),
	})
}

// cutShort says that a signal, or the limit of the whole run, has cut short what came before the phases, where it
// has: what failed then is of no use as advice.
func (s *session) cutShort(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w, before anything was changed", context.Cause(ctx))
	}
	what := fmt.Errorf("%w, before anything was changed: %w", context.Cause(ctx), err)
	if errors.Is(err, context.Cause(ctx)) { // it says so
		what = fmt.Errorf("%w, before anything was changed", err)
	}
	return Error{ExitConfig, progress.WithHint(what, "allow more time with --timeout, if it only was slow")}
}

// phases runs a list of phases as this session's run, reports on it, and returns the error that decides the exit code.
func (s *session) phases(ctx context.Context, r *lifecycle.Job, list []phase.Entry) error {
	for i := range list {
		limited := limitedAs(list[i].Name())
		list[i].Timeout, list[i].Setting = s.Settings.PhaseTimeout(limited), "--timeout-"+limited
	}
	stopNoting := s.noteInterruptions(ctx)
	lease := s.leaseRun(ctx, r)
	if s.verb == "configure" || s.verb == "test" {
		lease.WarnUnseen(ctx, s.Sink)
	}
	manager := &phase.Manager{
		Phases: list, Sink: progress.Multi(s.Sink, lease), Abort: s.abort,
		CleanTimeout: s.Settings.PhaseTimeout("down"),
		Timeout:      s.Settings.Timeout, Setting: "--timeout",
	}
	outcomes, err := manager.Run(ctx)
	stopNoting()
	s.nameUnproved(outcomes)
	s.noteSaving(outcomes)
	if err := s.releaseShared(); err != nil { // while others see that the run is at work
		progress.Warn(s.Sink, err.Error(), progress.HintOf(err))
	}
	lease.End(ctx, keepsLease(err, s.abort.Err() != nil))
	if s.abort.Err() == nil {
		err = errors.Join(err, r.Close())
	} else { // something may still use the connections, which end with the process; children would not
		s.EndChildren()
	}
	return s.end(ctx, outcomes, err)
}

// nameUnproved names the VMs of which nobody knows whether they are gone: down was given up while it was at work on them.
func (s *session) nameUnproved(outcomes []phase.Outcome) {
	for _, o := range outcomes {
		_, told := errors.AsType[*deploy.LeakError](o.Err)
		if o.Name != string(cluster.PhaseDown) || told || !errors.Is(o.Err, phase.ErrStuck) || !s.Makes() {
			continue
		}
		leak := &deploy.LeakError{Name: s.Name}
		for _, node := range s.Record.Nodes {
			at := placement.Of(node)
			leak.Unseen = append(leak.Unseen, deploy.VMRef{VMID: at.VMID, Name: node.Name, Hypervisor: at.Hypervisor})
		}
		progress.Warn(s.Sink, leak.Error(), leak.Hint())
	}
}

// close ends the session: the run, then the lock.
func (s *session) close() {
	defer s.Target.Close() // one process may look for days
	failure := s.run.close(s.running)
	copied, copyFailure := s.run.copyTo(s.Settings.EvidenceDir)
	if copied != "" {
		s.afterwards(progress.Info, "copied to "+copied)
	}
	failure = errors.Join(failure, copyFailure, s.run.release(), s.releaseShared())
	if s.lock != nil {
		failure = errors.Join(failure, s.lock.Release())
	}
	if failure != nil {
		s.afterwards(progress.Warning, failure.Error())
	}
	s.screen.tell()
}

// afterwards tells what is known only when the run's own log of events is closed.
func (s *session) afterwards(kind progress.Kind, message string) {
	s.screen.Emit(progress.Event{
		Kind: kind, Time: time.Now().UTC(), Cluster: string(s.Name), Verb: s.verb, Message: s.Secrets.Mask(message),
	})
}

// newOwner is who the VMs of a new cluster belong to.
func newOwner(now time.Time) cluster.Owner {
	owner := cluster.Owner{ID: newID(), Created: now.UTC().Truncate(time.Second)}
	if u, err := user.Current(); err == nil {
		owner.User = u.Username
	}
	owner.Host, _ = os.Hostname()
	return owner
}

// newID is a random id that also says when it was made: from a VM alone it can be told how old its cluster is.
func newID() string {
	if id, err := uuid.NewV7(); err == nil {
		return id.String()
	}
	return uuid.NewString()
}
