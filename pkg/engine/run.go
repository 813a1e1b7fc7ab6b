package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/explain"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

// note passes an event to debug.log, and to events.jsonl once the run has a directory.
func (s *session) note(e progress.Event) {
	s.debug.event(e)
	if s.recorder != nil {
		s.recorder.Emit(e)
	}
}

// learnKeys makes the private keys known that the run uses; one that is still to be made is learnt when it is.
func (s *session) learnKeys() {
	for _, path := range []string{s.record.SSHKeyPath, s.record.Target.HypervisorSSHKeyPath} {
		if raw, err := os.ReadFile(path); path != "" && err == nil {
			s.Secrets.Learn(string(raw))
		}
	}
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
		final = final.WithError(err)
	}
	if err != nil {
		final.Explanation = explain.Run(append(s.memory.Events(), final), os.DirFS(s.run.Dir), s.record.Spec.Deployer == cluster.DeployerExisting)
	}
	s.sink.Emit(final)
	s.ended = true
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
	if err != nil && !s.ended { // the caller shows the error
		code := int(CodeOf(ctx, err))
		final := progress.Event{
			Kind: progress.RunEnd, Cluster: string(s.name), Verb: s.verb, Status: progress.Failed, ExitCode: &code,
		}.WithError(err)
		s.memory.Emit(final)
		if s.recorder != nil {
			s.recorder.Emit(s.Secrets.MaskEvent(final))
		}
	}
	return Outcome{Report: report.Build(s.events()), Dir: s.run.Dir}
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
