package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/state"
)

// session is one run of a verb on one cluster: settings, narration, lock, record and the evidence of the run.
type session struct {
	*Engine
	verb     string
	settings config.Settings
	abort    context.Context
	store    *state.Store
	name     cluster.Name
	record   *cluster.Record
	before   *cluster.Record // as it was before up changed what is asked for; nil for a new cluster
	sim      *simulator
	salvaged bool // the record was put together to destroy the cluster, and is not written back
	unread   bool // the cluster's directory could not be read

	sink     progress.Sink
	memory   *progress.Memory
	recorder progress.Renderer
	debug    *debugLog
	lock     *state.Lock
	run      state.Run
	running  *lifecycle.Job
	started  time.Time
	ended    bool // the last event was emitted
}

// open begins a run: nothing on disk is touched before hold.
func (e *Engine) open(verb string, request Request) (*session, error) {
	name, settings := request.Name, request.Settings
	parsed, store, err := e.storeOf(name, settings)
	if err != nil {
		return nil, err
	}
	s := &session{
		Engine: e, verb: verb, settings: settings, abort: request.Abort, store: store, name: parsed, started: time.Now(),
		memory: new(progress.Memory), debug: newDebugLog(e.Secrets),
	}
	s.Secrets.Learn(TokenSecrets(settings.Proxmox.Token.Reveal())...)
	if s.abort == nil {
		s.abort = context.Background()
	}
	base := progress.Event{Cluster: name, Verb: verb}
	s.sink = e.advising(progress.With(progress.Redact(progress.Multi(e.Events, s.memory, progress.SinkFunc(s.note)), s.Secrets.Values), base))
	for _, event := range e.Early {
		s.sink.Emit(event)
	}
	return s, nil
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
func checkPlan(settings config.Settings) error {
	for _, suite := range settings.Suites {
		if strings.TrimSpace(suite) == "" {
			return usage(errors.New("--suite is empty: give smoke or a command"))
		}
	}
	if settings.JUnit != "" {
		if info, err := os.Stat(settings.JUnit); err == nil && info.IsDir() {
			return usage(fmt.Errorf("--junit: %s is a directory", settings.JUnit))
		}
		if err := os.MkdirAll(filepath.Dir(settings.JUnit), 0o755); err != nil {
			return usage(fmt.Errorf("--junit: %w", err))
		}
	}
	return nil
}

// hold locks the cluster for this process, waiting for another run as long as --wait says.
func (s *session) hold(ctx context.Context) error { return s.holdWithin(ctx, s.settings.Wait) }

// holdWithin locks the cluster for this process, waiting for another run for that time at most; 0: not at all.
func (s *session) holdWithin(ctx context.Context, patience time.Duration) error {
	holder := state.Holder{PID: os.Getpid(), Command: s.command(), Started: s.started}
	var lock *state.Lock
	var err error
	if patience > 0 {
		lock, err = s.store.LockWithin(ctx, s.name, holder, patience, func(e *state.LockedError) {
			s.sink.Emit(progress.Event{Kind: progress.Info, Message: fmt.Sprintf("waiting up to %s: %v", progress.FormatLimit(patience), e)})
		})
	} else {
		lock, err = s.store.Lock(s.name, holder)
	}
	if _, locked := errors.AsType[*state.LockedError](err); err != nil && !locked && ctx.Err() == nil {
		return Error{ExitConfig, err}
	}
	if err != nil {
		return err
	}
	s.lock = lock
	if dead := lock.TookOver; dead != nil {
		s.sink.Emit(progress.Event{Kind: progress.Info, Message: fmt.Sprintf("took over the lock of a dead run: %s", dead)})
	}
	return nil
}

// load reads the cluster's record.
func (s *session) load() error {
	record, err := s.store.Load(s.name)
	if err != nil {
		return explainRecord(err, s.store.Path(s.name, "cluster.json"))
	}
	s.record = record
	s.hostsChanged()
	s.jumpAsAsked()
	return nil
}

// jumpAsAsked reaches nodes as the user says now, where that is said.
func (s *session) jumpAsAsked() {
	if s.settings.Given("ssh.proxy_jump") {
		s.record.ProxyJump = s.settings.SSH.Jumps
	}
}

func explainRecord(err error, path string) error {
	switch {
	case errors.Is(err, state.ErrNotFound):
		return progress.WithHint(err, "`hive-test status` lists the clusters that are here; --clusters-dir names another directory")
	case errors.Is(err, fs.ErrPermission):
		return progress.WithHint(err, "it belongs to the user who made the cluster")
	case errors.Is(err, state.ErrCorrupt):
		return progress.WithHint(err, "nothing was changed: put a good copy back, then try again: cp "+remote.Quote(path+".bak", path)+
			"; or `hive-test down "+filepath.Base(filepath.Dir(path))+"` removes the cluster")
	}
	return err
}

// limited is ctx with the limit of the whole run.
func (s *session) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.settings.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, s.started.Add(s.settings.Timeout),
		fmt.Errorf("the whole run timed out after %s (--timeout)", progress.FormatLimit(s.settings.Timeout)))
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
	s.running = &lifecycle.Job{
		Record: s.record, Store: s.store, Evidence: evidence{s.store, s.run, s.name}, Deploy: deployer,
		Dial: s.dial, Sink: s.sink, Hive: s.hiveOptions(), Suites: s.settings.Suites, SuiteOn: s.settings.SuiteOn, Environ: s.Environ,
		SuiteEnv: s.settings.SuiteEnv, KillLeftovers: s.settings.KillLeftovers, LostAfter: s.settings.LostAfter,
		Now: func() time.Time { return time.Now().UTC() }, Interrupted: func() bool { return errors.Is(root.Err(), context.Canceled) }, Abort: s.abort, Secrets: s.Secrets,
	}
	if s.salvaged {
		s.running.Store = readOnlyStore{s.store, s.unread, s.sink}
	}
	return s.running
}

// timeoutError says that the limit of the whole run has cut short what came before the phases, where it has: what
// failed then is of no use as advice.
func (s *session) timeoutError(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
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
		list[i].Timeout = s.settings.PhaseTimeout(list[i].Name())
		list[i].Setting = "--timeout-" + list[i].Name()
	}
	stopNoting := s.noteInterruptions(ctx)
	lease := s.leaseRun(ctx, r)
	if s.verb == "configure" || s.verb == "test" {
		lease.WarnUnseen(ctx, s.sink)
	}
	manager := &phase.Manager{
		Phases: list, Sink: progress.Multi(s.sink, lease), Abort: s.abort, CleanTimeout: s.settings.PhaseTimeout("down"),
		Timeout: s.settings.Timeout, Setting: "--timeout",
	}
	outcomes, err := manager.Run(ctx)
	stopNoting()
	lease.End(ctx, keepsLease(err, s.abort.Err() != nil))
	if s.abort.Err() == nil {
		err = errors.Join(err, r.Close())
	} else { // something may still use the connections, which end with the process; children would not
		s.EndChildren()
	}
	return s.end(ctx, outcomes, err)
}

// close ends the session: the record of events, the lock.
func (s *session) close() {
	var failure error
	if s.recorder != nil {
		failure = errors.Join(failure, s.recorder.Close())
	}
	failure = errors.Join(failure, s.debug.close(), s.clear())
	if s.lock != nil {
		failure = errors.Join(failure, s.lock.Release())
	}
	if failure != nil {
		s.Events.Emit(progress.Event{Kind: progress.Warning, Time: time.Now().UTC(), Cluster: string(s.name), Verb: s.verb, Message: s.Secrets.Mask(failure.Error())})
	}
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
