package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/explain"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

// run is what one run of a verb tells and keeps: its events and, once it has begun, its directory with the record of
// events, the debug log and the reports.
type run struct {
	verb     string
	cluster  cluster.Name
	started  time.Time
	secrets  *progress.Secrets
	sink     progress.Sink
	memory   *progress.Memory
	screen   *fullDisk // what the caller gets of the events
	debug    *debugLog
	keeping  sync.Mutex        // memory and recorder have all events in one order: reports of either are the same
	recorder progress.Renderer // nil before begin
	dir      state.Run         // empty before begin
	ended    bool              // the last event was emitted

	last map[string]float64 // seconds that each phase took when it passed last
}

func newRun(e *Engine, verb string, name cluster.Name, root string) *run {
	r := &run{
		verb: verb, cluster: name, started: time.Now(), secrets: e.Secrets, memory: new(progress.Memory),
		debug: newDebugLog(e.Secrets), screen: &fullDisk{root: root, next: e.Events},
	}
	base := progress.Event{Cluster: string(name), Verb: verb}
	all := progress.Multi(r.screen, progress.SinkFunc(r.keep))
	r.sink = e.advising(progress.With(progress.Redact(progress.SinkFunc(func(e progress.Event) {
		if e.Kind == progress.PhaseStart {
			e.LastSeconds = r.last[e.Phase]
		}
		all.Emit(e)
	}), e.Secrets), base))
	return r
}

// keep remembers an event, and passes it to debug.log, and to events.jsonl once the run has a directory.
func (r *run) keep(e progress.Event) {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	r.memory.Emit(e)
	r.debug.event(e)
	if r.recorder != nil {
		r.recorder.Emit(e)
	}
}

// file is a file of the run's directory; empty where the run keeps nothing.
func (r *run) file(name string) string {
	if r.dir.Dir == "" {
		return ""
	}
	return filepath.Join(r.dir.Dir, name)
}

// begin gives the run its directory; what was told before is recorded there too.
func (r *run) begin(dir state.Run) error {
	r.dir = dir
	recorder, err := progress.Recorder(r.file(state.EventsFile))
	if err != nil {
		return Error{ExitConfig, err}
	}
	r.keeping.Lock()
	for _, e := range r.memory.Events() {
		recorder.Emit(e)
	}
	r.recorder = recorder
	r.keeping.Unlock()
	if err := r.debug.open(r.file(state.DebugFile)); err != nil {
		return Error{ExitConfig, err}
	}
	return nil
}

// write puts every report into the run's directory, and JUnit where the user asked for it; empty: nowhere.
func (r *run) write(result report.Report, junit string) error {
	var failure error
	files := report.Files(result)
	for name, content := range files {
		failure = errors.Join(failure, r.dir.Write(name, content))
	}
	if junit != "" {
		failure = errors.Join(failure, writeOutput(junit, files[report.JUnitFile]))
	}
	return failure
}

// events are what was told so far, without what became known as a secret only later.
func (r *run) events() []progress.Event {
	events := r.memory.Events()
	for i, e := range events {
		events[i] = r.secrets.MaskEvent(e)
	}
	return events
}

// outcome is what came of the run, which may have ended before it began.
func (r *run) outcome(ctx context.Context, err error) Outcome {
	if err != nil && !r.ended { // the caller shows the error
		code := int(CodeOf(ctx, err))
		final := progress.Event{
			Kind: progress.RunEnd, Cluster: string(r.cluster), Verb: r.verb, Status: progress.Failed, ExitCode: &code,
		}
		final = final.WithError(err)
		r.memory.Emit(final)
		if r.recorder != nil {
			r.recorder.Emit(r.secrets.MaskEvent(final))
		}
	}
	return Outcome{Report: report.Build(r.events()), Dir: r.dir.Dir}
}

// clear takes the secrets that became known during the run out of all that it wrote, and lists what job has gathered;
// nil: nothing was.
func (r *run) clear(job *lifecycle.Job) error {
	if r.dir.Dir == "" {
		return nil
	}
	err := r.secrets.MaskFiles(r.dir.Dir)
	if job != nil {
		err = errors.Join(err, job.WriteIndex())
	}
	return err
}

// close ends what the run writes.
func (r *run) close(job *lifecycle.Job) error {
	var failure error
	if r.recorder != nil {
		failure = r.recorder.Close()
	}
	return errors.Join(failure, r.debug.close(), r.clear(job))
}

// release says that nothing writes to the run's directory any more.
func (r *run) release() error { return r.dir.Close() }

// reportRefusal writes reports of a run that was refused before it had a directory, where the user asked for some.
func (s *session) reportRefusal(result report.Report) {
	if s.dir.Dir != "" {
		return
	}
	files := report.Files(result)
	var failure error
	if junit := s.Settings.JUnit; junit != "" {
		failure = writeOutput(junit, files[report.JUnitFile])
	}
	failure = errors.Join(failure, s.keepRefusal(s.Name, state.RunName(s.verb, s.started), files))
	if failure != nil {
		progress.Warnf(s.Sink, "the reports are not complete: %v", failure)
	}
}

// keepRefusal writes the reports of a refused run where copies of what runs keep go.
func (s *session) keepRefusal(name cluster.Name, run string, files map[string][]byte) error {
	kept := s.Settings.EvidenceDir
	if kept == "" {
		return nil
	}
	dir := filepath.Join(kept, string(name), run)
	if err := s.checkEvidenceDir(kept); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var failure error
	for name, content := range files {
		failure = errors.Join(failure, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return failure
}

// copyTo copies what the run has kept to DIR/CLUSTER/RUN, and returns that; an empty dir is none.
func (r *run) copyTo(dir string) (copied string, err error) {
	if dir == "" || r.dir.Dir == "" {
		return "", nil
	}
	copied = r.copied(dir)
	if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
		return "", fmt.Errorf("--evidence-dir: %w", err)
	}
	if err := state.CopyTo(r.dir.Dir, copied); err != nil { // which only this user may read, as what it is copied of
		return "", fmt.Errorf("--evidence-dir: %w", err)
	}
	return copied, nil
}

// copied is where in a directory the copy of a run goes.
func (r *run) copied(dir string) string {
	return filepath.Join(dir, string(r.cluster), filepath.Base(r.dir.Dir))
}

// learnKeys makes the private keys known that the run uses; one that is still to be made is learnt when it is.
func (s *session) learnKeys() {
	for _, path := range []string{s.Record.SSHKeyPath, placement.TargetOf(s.Record.Target).HypervisorSSHKeyPath} {
		if raw, err := os.ReadFile(path); path != "" && err == nil {
			s.Secrets.Learn(string(raw))
		}
	}
}

// begin begins the run on the cluster.
func (s *session) begin() error {
	dir, err := s.Store.NewRun(s.Name, s.verb, s.started)
	if err != nil {
		return Error{ExitConfig, err}
	}
	s.learnKeys()
	if err := s.beginIn(dir, progress.Event{OwnerID: s.Record.Owner.ID, Nodes: nodesOf(s.Record)}); err != nil {
		return err
	}
	if s.Makes() && (s.provisions() || s.verb == "full") {
		progress.Infof(s.Sink, "owner id %s: with it, `down --owner` needs no directory", s.Record.Owner.ID)
	}
	if kept := s.Settings.EvidenceDir; kept != "" {
		progress.Infof(s.Sink, "what this run keeps is copied to %s at its end", s.run.copied(kept))
	}
	return s.Store.Resume(s.Name)
}

// beginIn gives the run that directory, and tells of its start what start does not say itself.
func (s *session) beginIn(dir state.Run, start progress.Event) error {
	past := pastReports(s.Store, s.Name)
	s.last = lastSeconds(past)
	if err := s.run.begin(dir); err != nil {
		return err
	}
	start.Kind, start.RunDir, start.History = progress.RunStart, dir.Dir, historyOf(past)
	start.Settings, start.Flags = givenSettings(s.Settings), s.Settings.Flags()
	s.Sink.Emit(start)
	return nil
}

// pastReport is the report of an earlier run, and the name of that run's directory.
type pastReport struct {
	run string
	report.Report
}

// pastReports returns the reports of the last runs of the cluster's name, the newest first. They are for people: what
// cannot be read is left out.
func pastReports(store *state.Store, name cluster.Name) []pastReport {
	const most = 20
	runs, err := store.Runs(name)
	if err != nil {
		return nil
	}
	var past []pastReport
	for _, run := range runs {
		if r, err := readReport(run); err == nil {
			past = append(past, pastReport{filepath.Base(run.Dir), r})
		}
		if len(past) == most {
			break
		}
	}
	return past
}

// lastSeconds returns how long each phase took when it passed last.
func lastSeconds(past []pastReport) map[string]float64 {
	seconds := map[string]float64{}
	for _, last := range past {
		for _, p := range last.Phases {
			if _, known := seconds[p.Name]; !known && p.Status == progress.Passed {
				seconds[p.Name] = p.Seconds
			}
		}
	}
	return seconds
}

// historyOf returns what a run's events tell of the runs before it.
func historyOf(past []pastReport) []progress.PastRun {
	var history []progress.PastRun
	for _, r := range past {
		history = append(history, progress.PastRun{
			Run: r.run, Verb: r.Verb, Result: r.Result, Started: r.Started, Seconds: r.Seconds,
		})
	}
	return history
}

// nodesOf are the nodes of a cluster as events tell them.
func nodesOf(record *cluster.Record) []progress.Node {
	address := func(a netip.Addr) string {
		if !a.IsValid() {
			return ""
		}
		return a.String()
	}
	var nodes []progress.Node
	for _, n := range record.Nodes {
		vm := placement.Of(n)
		nodes = append(nodes, progress.Node{
			Name: n.Name, VMID: vm.VMID, Hypervisor: vm.Hypervisor,
			Management: address(n.Management), Data: address(n.Data),
		})
	}
	return nodes
}

// readReport reads the report of a run that has come to its end.
func readReport(run state.Run) (report.Report, error) {
	var r report.Report
	raw, err := os.ReadFile(filepath.Join(run.Dir, report.JSONFile))
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
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
	final := s.ending(code)
	final.Nodes = nodesOf(s.Record)
	if err != nil && len(failures(outcomes)) == 0 {
		final = final.WithError(err)
	}
	if err != nil {
		final.Explanation = explain.Run(append(s.memory.Events(), final), os.DirFS(s.dir.Dir), !s.Makes())
	}
	return s.endWith(final, code, err)
}

// ending is the last event of a run that ends with code.
func (s *session) ending(code ExitCode) progress.Event {
	number := int(code)
	return progress.Event{
		Kind: progress.RunEnd, Status: code.status(), Seconds: time.Since(s.started).Seconds(), ExitCode: &number,
		RunDir: s.dir.Dir, Message: s.file(report.MarkdownFile),
	}
}

// endWith tells the last event, writes the reports and returns what the run ends with.
func (s *session) endWith(final progress.Event, code ExitCode, err error) error {
	writeErr := s.conclude(final)
	if err == nil {
		return writeErr
	}
	if writeErr != nil {
		progress.Warnf(s.Sink, "the reports are not complete: %v", writeErr)
	}
	return Error{code, ReportedError{err}}
}

// conclude tells the last event and writes the reports. The event names the report only where it could be written.
func (s *session) conclude(final progress.Event) error {
	final.Time = time.Now().UTC()
	named := final
	named.Cluster, named.Verb = string(s.Name), s.verb
	writeErr := s.write(report.Build(append(s.events(), s.secrets.MaskEvent(s.advised(named)))), s.Settings.JUnit)
	if _, err := os.Stat(final.Message); err != nil {
		final.Message = ""
	}
	s.Sink.Emit(final)
	s.ended = true
	return writeErr
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
