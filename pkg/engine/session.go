package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/existing"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/explain"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

// session is one run of a verb on one cluster: settings, narration, lock, record and the evidence of the run.
type session struct {
	*Engine
	verb     string
	settings config.Settings
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
}

// open begins a run: nothing on disk is touched before hold.
func (e *Engine) open(verb, name string, settings config.Settings) (*session, error) {
	parsed, store, err := e.storeOf(name, settings)
	if err != nil {
		return nil, err
	}
	if verb == "test" || verb == "full" {
		if err := checkPlan(settings); err != nil {
			return nil, err
		}
	}
	s := &session{Engine: e, verb: verb, settings: settings, store: store, name: parsed, started: time.Now(), memory: new(progress.Memory), debug: newDebugLog(e.Secrets)}
	s.Secrets.Learn(TokenSecrets(settings.Proxmox.Token.Reveal())...)
	base := progress.Event{Cluster: name, Verb: verb}
	s.sink = e.advising(progress.With(progress.Redact(progress.Multi(e.Events, s.memory, progress.SinkFunc(s.note)), s.Secrets.Values), base))
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

// note passes an event to debug.log, and to events.jsonl once the run has a directory.
func (s *session) note(e progress.Event) {
	s.debug.event(e)
	if s.recorder != nil {
		s.recorder.Emit(e)
	}
}

// TokenSecrets are an API token and its secret part.
func TokenSecrets(token string) []string {
	_, secret, _ := strings.Cut(token, "=")
	return []string{token, secret}
}

// learnKeys makes the private keys known that the run uses; one that is still to be made is learnt when it is.
func (s *session) learnKeys() {
	for _, path := range []string{s.record.SSHKeyPath, s.record.Target.HypervisorSSHKeyPath} {
		if raw, err := os.ReadFile(path); path != "" && err == nil {
			s.Secrets.Learn(string(raw))
		}
	}
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
		s.sink.Emit(progress.Event{Kind: progress.Info, Message: fmt.Sprintf("taken over from a run that died: %s", dead)})
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

// connect makes the simulator run if the cluster lives there, and takes over how it is reached.
func (s *session) connect(ctx context.Context) error {
	if !s.record.Target.Simulated {
		return nil
	}
	id := s.record.Target.SimulatorID
	if id == "" && len(s.record.Phases) > 0 { // made before simulators had ids
		id = anySimulator
	}
	sim, err := startSimulator(ctx, s.Environ, s.store.Root(), s.settings.SimHosts, id, s.sink)
	if errors.Is(err, errOtherSimulator) {
		return s.otherSimulator()
	}
	if err != nil {
		return s.cutShort(ctx, err)
	}
	s.sim = &sim
	s.Secrets.Learn(TokenSecrets(sim.Token)...)
	s.simulatedTarget()
	return nil
}

// otherSimulator refuses a cluster whose simulator is not that of its clusters directory: what another one does not know of
// proves nothing of the cluster's VMs.
func (s *session) otherSimulator() error {
	dir := remote.Quote(s.store.Dir(s.name))
	if len(s.record.Nodes) == 0 { // nothing but an owner id
		return Error{ExitConfig, progress.WithHint(fmt.Errorf("%s has no simulator that could have the VMs of cluster %q: nothing was changed", s.store.Root(), s.name),
			"name the clusters directory that has with --clusters-dir")}
	}
	hint := "if this is a copy, use the cluster where it was made, and remove the copy: rm -r " + dir +
		"\nif that simulator was removed, its VMs went with it: rm -r " + dir
	if made, _, found := strings.Cut(s.record.Target.CAFile, "/.sim/"); found && made != s.store.Root() {
		hint = fmt.Sprintf("it was used in %s last: hive-test %s %s --clusters-dir %s\n%s", made, s.verb, s.name, remote.Quote(made), hint)
	}
	return Error{ExitConfig, progress.WithHint(
		fmt.Errorf("the VMs of cluster %q are on another simulator than that of %s: nothing was changed", s.name, s.store.Root()), hint)}
}

// token is the API token: the simulator's for a simulated cluster, else the user's.
func (s *session) token() string {
	if s.sim != nil {
		return s.sim.Token
	}
	return s.settings.Proxmox.Token.Reveal()
}

// deployer is what makes, removes and describes the cluster's machines. This is the one place that chooses it.
func (s *session) deployer() (deploy.Capable, error) {
	if s.record.Spec.Deployer == cluster.DeployerExisting {
		return deploy.Of(existing.Hosts{}), nil
	}
	fleet, err := s.proxmoxFleet()
	if err != nil {
		return deploy.Capable{}, err
	}
	return deploy.Of(proxmox.Deployer{Fleet: fleet, Provisioner: s.lazily()}), nil
}

// proxmoxFleet is how a cluster's VMs are seen on Proxmox VE.
func (s *session) proxmoxFleet() (*proxmox.Fleet, error) {
	target := s.record.Target
	client, err := api.New(api.Options{
		Endpoint: target.Endpoint, Token: s.token(), CAFile: target.CAFile, Fingerprint: target.Fingerprint, Insecure: target.Insecure,
		Log: s.debug.log, Warn: func(text string) { s.sink.Emit(progress.Event{Kind: progress.Warning, Message: text}) },
	})
	if err != nil {
		return nil, Error{ExitConfig, err}
	}
	idRange := api.DefaultIDRange()
	if s.settings.Proxmox.VMIDRange != "" {
		if idRange, err = api.ParseIDRange(s.settings.Proxmox.VMIDRange); err != nil {
			return nil, Error{ExitConfig, err}
		}
	}
	locks, err := s.lockDir()
	if err != nil {
		return nil, Error{ExitConfig, fmt.Errorf("the locks on VM ids: %w", err)}
	}
	return proxmox.New(proxmox.Options{
		Client: client, IDRange: idRange, IDBase: s.settings.Proxmox.VMIDBase, Parallelism: s.settings.Parallelism,
		LockDir: locks, ClaimLasts: s.claimLasts(), Checks: s.upChecks(), Taken: s.otherAddresses,
	}), nil
}

// otherAddresses are the addresses that other clusters of this clusters directory have, with who has each. A record that
// cannot be read is of no cluster that could be used.
func (s *session) otherAddresses() (map[netip.Addr]string, error) {
	names, err := s.store.List()
	if err != nil {
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	taken := map[netip.Addr]string{}
	for _, name := range names {
		r, err := s.store.Load(name)
		if newer, ok := errors.AsType[*state.NewerError](err); ok { // it may have addresses that are not known here
			return nil, newer
		}
		if err != nil || r.Owner.ID == s.record.Owner.ID {
			continue
		}
		for _, n := range r.Nodes {
			for _, a := range []netip.Addr{n.Management, n.Data, n.StaticManagement.Addr(), n.StaticData.Addr()} {
				if a.IsValid() {
					taken[a] = n.Name
				}
			}
		}
	}
	return taken, nil
}

// begin gives the run its directory; what was told before is recorded there too.
func (s *session) begin() error {
	run, err := s.store.NewRun(s.name, s.verb, s.started)
	if err != nil {
		return Error{ExitConfig, err}
	}
	s.run = run
	s.learnKeys()
	recorder, err := progress.Recorder(filepath.Join(run.Dir, state.EventsFile))
	if err != nil {
		return Error{ExitConfig, err}
	}
	for _, e := range s.memory.Events() {
		recorder.Emit(e)
	}
	s.recorder = recorder
	if err := s.debug.open(filepath.Join(run.Dir, state.DebugFile)); err != nil {
		return Error{ExitConfig, err}
	}
	s.sink.Emit(progress.Event{Kind: progress.RunStart, RunDir: run.Dir, OwnerID: s.record.Owner.ID})
	if s.record.Spec.Deployer != cluster.DeployerExisting && (s.verb == "up" || s.verb == "full") {
		s.sink.Emit(progress.Event{Kind: progress.Info, Message: "owner id " + s.record.Owner.ID + ": with it, `down --owner` needs no directory"})
	}
	return s.store.Resume(s.name)
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
	return phase.Limited(ctx, limit, fmt.Errorf("the time was up (%s)", flag))
}

// job wires what the phases need. The user has said stop when root has ended by more than its time.
func (s *session) job(root context.Context, deployer deploy.Capable) *lifecycle.Job {
	s.running = &lifecycle.Job{
		Record: s.record, Store: s.store, Evidence: evidence{s.store, s.run, s.name}, Deploy: deployer,
		Dial: s.dial, Sink: s.sink, Hive: s.hiveOptions(), Suites: s.settings.Suites, SuiteOn: s.settings.SuiteOn, Environ: s.Environ, SuiteEnv: s.settings.SuiteEnv, KillLeftovers: s.settings.KillLeftovers, LostAfter: s.settings.LostAfter, Now: func() time.Time { return time.Now().UTC() },
		Interrupted: func() bool { return errors.Is(root.Err(), context.Canceled) }, Abort: s.Abort, Secrets: s.Secrets,
	}
	if s.salvaged { // what tofu would need is not sure to be there, and the API deletes as well
		s.running.Store = keeper{s.store, s.unread, s.sink}
	}
	return s.running
}

// dial opens the way to the nodes of a record, with the cluster's own key and host keys.
func (s *session) dial(r *cluster.Record) (lifecycle.Remote, error) {
	return remote.NewDialer(remote.Config{
		User: r.Spec.SSHUser, KeyPath: r.SSHKeyPath, KnownHosts: s.store.Path(r.Name, "known_hosts"), Log: s.debug.log,
		ProxyJump: r.ProxyJump, AgentSocket: cmp.Or(r.SSHAgent, s.settings.SSH.AgentSocket),
	})
}

// cutShort says that the limit of the whole run has cut short what came before the phases, where it has: what failed then
// is of no use as advice.
func (s *session) cutShort(ctx context.Context, err error) error {
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
	beat := s.startHeartbeat(ctx, r)
	if s.verb == "configure" || s.verb == "test" {
		beat.Unseen(ctx, s.sink)
	}
	manager := &phase.Manager{
		Phases: list, Sink: progress.Multi(s.sink, beat), Abort: s.Abort, CleanTimeout: s.settings.PhaseTimeout("down"),
		Timeout: s.settings.Timeout, Setting: "--timeout",
	}
	outcomes, err := manager.Run(ctx)
	stopNoting()
	beat.End(ctx, err, s.Abort.Err() != nil)
	if s.Abort.Err() == nil {
		err = errors.Join(err, r.Close())
	} else { // something may still use the connections, which end with the process; children would not
		s.EndChildren()
	}
	return s.end(ctx, outcomes, err)
}

// end closes the run: last event and reports.
func (s *session) end(ctx context.Context, outcomes []phase.Outcome, err error) error {
	code := ExitOK
	if err != nil {
		if code = outcomeCode(outcomes); code == ExitOK {
			code = plainCode(err)
		}
		code = CodeOf(ctx, Error{code, err})
	}
	status := progress.Passed
	switch {
	case code == ExitInterrupted || code == ExitTerminated:
		status = progress.Interrupted
	case code != ExitOK:
		status = progress.Failed
	}
	number := int(code)
	final := progress.Event{Kind: progress.RunEnd, Status: status, Seconds: time.Since(s.started).Seconds(), ExitCode: &number, RunDir: s.run.Dir, Message: filepath.Join(s.run.Dir, report.MarkdownFile)}
	if err != nil && len(failures(outcomes)) == 0 {
		final.Error, final.Hint = err.Error(), progress.HintOf(err)
	}
	if err != nil {
		final.Explanation = explain.Run(append(s.memory.Events(), final), os.DirFS(s.run.Dir), s.record.Spec.Deployer == cluster.DeployerExisting)
	}
	s.sink.Emit(final)
	result := report.Build(s.events())
	writeErr := s.write(result)
	if err == nil {
		return writeErr
	}
	if writeErr != nil {
		s.sink.Emit(progress.Event{Kind: progress.Warning, Message: "the reports are not complete: " + writeErr.Error()})
	}
	return Error{code, ReportedError{err}}
}

func failures(outcomes []phase.Outcome) []phase.Outcome {
	var failed []phase.Outcome
	for _, o := range outcomes {
		if o.Err != nil {
			failed = append(failed, o)
		}
	}
	return failed
}

// write puts every report into the run's directory, and where the user asked for JUnit.
func (s *session) write(result report.Report) error {
	var failure error
	files := report.Files(result)
	for name, content := range files {
		failure = errors.Join(failure, s.run.Write(name, content))
	}
	if s.settings.JUnit != "" {
		failure = errors.Join(failure, os.WriteFile(s.settings.JUnit, files[report.JUnitFile], 0o644))
	}
	return failure
}

// events are what was told so far, without what became known as a secret only later.
func (s *session) events() []progress.Event {
	events := s.memory.Events()
	for i, e := range events {
		events[i] = s.Secrets.MaskEvent(e)
	}
	return events
}

// outcome is what came of the run, which may have ended before it began.
func (s *session) outcome(ctx context.Context, err error) Outcome {
	if err != nil && s.recorder == nil {
		code := int(CodeOf(ctx, err))
		s.memory.Emit(progress.Event{Kind: progress.RunEnd, Cluster: string(s.name), Verb: s.verb, Status: progress.Failed, ExitCode: &code, Error: err.Error(), Hint: progress.HintOf(err)})
	}
	return Outcome{Report: report.Build(s.events()), Dir: s.run.Dir}
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

// clear takes the secrets that became known during the run out of all that it wrote, and lists what is there.
func (s *session) clear() error {
	if s.run.Dir == "" {
		return nil
	}
	err := s.Secrets.MaskFiles(s.run.Dir)
	if s.running != nil {
		err = errors.Join(err, s.running.WriteIndex())
	}
	return err
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

// evidence is the run's directory as lifecycle sees it.
type evidence struct {
	store *state.Store
	run   state.Run
	name  cluster.Name
}

// Path is a file below the run's directory.
func (e evidence) Path(elem ...string) string {
	return filepath.Join(append([]string{e.run.Dir}, elem...)...)
}

// KeepResults makes dir the cluster's last test results.
func (e evidence) KeepResults(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return state.CopyTo(dir, e.store.Path(e.name, "test-results"))
}

// DropResults removes the last test results.
func (e evidence) DropResults() error {
	return os.RemoveAll(e.store.Path(e.name, "test-results"))
}

// SaveResults copies the last test results, if there are any, below the run's directory.
func (e evidence) SaveResults() error {
	results := e.store.Path(e.name, "test-results")
	if _, err := os.Stat(results); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return state.CopyTo(results, e.Path("test-results"))
}
