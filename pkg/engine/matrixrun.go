package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/matrix"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

const (
	matrixVerb = "matrix"
	cellsPhase = "cells"
	cellStep   = "full"
)

// matrixRun is one run of a matrix. All of it is used by one goroutine but for cells, which tell of their ends by ended.
type matrixRun struct {
	*session
	request MatrixRequest
	plan    MatrixPlan
	told    *progress.Matrix

	load    matrix.Load
	held    map[int]bool // cells whose clusters are there though nothing runs on them: they have their part of the budget
	left    []int        // cells that have not begun, in their order
	running map[int]context.CancelFunc
	pending map[int]bool // those of running whose machines are being made
	full    string       // why a cell was refused: one must end before the next is tried; empty: none was
	waits   []cellWait   // that were told
	ended   chan cellEnd
	up      chan int // cells whose machines are made
	results []cellResult

	free func(ctx context.Context, cell PlannedCell) (mebibytes int, known bool) // freeMemory, but in tests
}

// cellResult is what became of a cell; the zero value has not begun.
type cellResult struct {
	status progress.Status
	code   ExitCode
	why    string
}

// cellEnd is the end of a cell.
type cellEnd struct {
	cell    int
	began   time.Time
	outcome Outcome
	code    ExitCode
	err     error
	stopped bool // because another cell has failed
}

// RunMatrix runs every cell of a matrix as a full of its own. The end of ctx begins no further cell and ends those that
// run, as it ends a full. Its error is that of the first cell that failed, in the order of the file.
func (e *Engine) RunMatrix(ctx context.Context, request MatrixRequest) (Outcome, error) {
	plan, err := e.PlanMatrix(request)
	if err == nil {
		err = protectCells(plan.Cells)
	}
	if err != nil {
		return Outcome{}, err
	}
	return e.onMatrix(ctx, request, plan, func(m *matrixRun) error { return m.run(ctx) })
}

// onMatrix opens a run of a matrix.
func (e *Engine) onMatrix(
	ctx context.Context, request MatrixRequest, plan MatrixPlan, work func(*matrixRun) error,
) (Outcome, error) {
	return e.do(ctx, matrixVerb, Request{Name: plan.Name, Settings: request.Settings, Abort: request.Abort}, func(s *session) error {
		s.Record = s.newRecord()
		m := &matrixRun{
			session: s, request: request, plan: plan, told: matrixOf(request, plan),
			running: map[int]context.CancelFunc{}, pending: map[int]bool{}, held: map[int]bool{},
			free: s.freeMemory, ended: make(chan cellEnd), up: make(chan int, len(plan.Cells)), left: slices.Clone(plan.Order),
			results: make([]cellResult, len(plan.Cells)),
		}
		if err := s.checkPlan(); err != nil {
			return err
		}
		if _, err := s.Store.Load(s.Name); !errors.Is(err, state.ErrNotFound) {
			return usage(fmt.Errorf("there is a cluster called %s: the matrix needs another name", s.Name))
		}
		return work(m)
	})
}

func (m *matrixRun) run(ctx context.Context) error {
	earlier, err := m.lastRun()
	if err != nil {
		return err
	}
	if err := m.begin(); err != nil {
		return err
	}
	m.Sink.Emit(progress.Event{Kind: progress.PhaseStart, Phase: cellsPhase})
	began := time.Now()
	if m.request.Resume {
		m.tellAgain(earlier)
	}
	m.holdClusters()
	m.runCells(ctx)
	return m.conclude(ctx, began, m.whyNotRun(ctx))
}

// begin gives the run its directory and tells of it.
func (m *matrixRun) begin() error {
	dir, err := m.Store.NewRun(m.Name, m.verb, m.started)
	if err != nil {
		return Error{ExitConfig, err}
	}
	if other := m.atWork(); other != "" && other < dir.Dir && !m.told.Merged { // of two that began at once, the later ends
		return errors.Join(Error{ExitLocked, fmt.Errorf("the matrix is at work: %s", other)}, dir.Close(), m.Store.RemoveRun(dir))
	}
	return m.beginIn(dir, progress.Event{Matrix: m.told})
}

// holdClusters gives clusters of cells that are there already, kept or left, their part of the budget.
func (m *matrixRun) holdClusters() {
	for cell, planned := range m.plan.Cells {
		if m.isThere(planned.Name) {
			m.hold(cell)
		}
	}
}

func (m *matrixRun) hold(cell int) {
	m.load.Hold(m.plan.Cells[cell].Size)
	m.held[cell] = true
}

// runCells runs those that are left until none is, or ctx ends and with it those that run.
func (m *matrixRun) runCells(ctx context.Context) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for {
		if ctx.Err() == nil {
			m.startCells(ctx)
		}
		if ctx.Err() != nil {
			m.tellWaits(nil)
		}
		if len(m.running) == 0 {
			return
		}
		select {
		case cell := <-m.up:
			delete(m.pending, cell)
		case end := <-m.ended:
			m.end(ctx, end)
			if m.request.Matrix.FailFast && m.results[end.cell].status == progress.Failed && ctx.Err() == nil {
				progress.Infof(m.Sink, "%s failed: the others are stopped (fail_fast)", m.plan.Cells[end.cell].Name)
				stop(errFailFast)
			}
		}
	}
}

// errFailFast ends the cells that run when another one has failed.
var errFailFast = errors.New("another cell failed, and the matrix is to fail fast")

// freeMemory is what the hypervisors of a cell have left, in MiB.
func (m *session) freeMemory(ctx context.Context, cell PlannedCell) (free int, known bool) {
	engine := *m.Engine
	engine.Early, engine.Events = nil, progress.Discard
	s, err := engine.open(ctx, "doctor", Request{Name: cell.Name, Settings: cell.Settings})
	if err != nil {
		return 0, false
	}
	defer s.close()
	s.Record = s.newRecord()
	if missing, err := s.Resolve(ctx); err != nil || len(missing) > 0 {
		return 0, false
	}
	deployer, err := s.Deployer()
	if err != nil || deployer.Room == nil {
		return 0, false
	}
	free, err = deployer.Room.FreeMemory(ctx, s.Record)
	return free, err == nil
}

// start runs a cell on a goroutine of its own, which tells of its end.
func (m *matrixRun) start(ctx context.Context, cell int) {
	planned := m.plan.Cells[cell]
	ctx, cancel := context.WithCancel(ctx)
	m.running[cell], m.pending[cell] = cancel, true
	if m.held[cell] {
		m.load.Drop(planned.Size)
		delete(m.held, cell)
	}
	m.load.Add(planned.Size)
	began := time.Now().UTC()
	m.Sink.Emit(progress.Event{
		Kind: progress.StepStart, Time: began, Phase: cellsPhase, Step: cellStep, Node: planned.Name, Message: planned.Label,
	})
	engine := *m.Engine
	engine.Watched, engine.Attend, engine.Early = false, nil, nil
	engine.Events = m.cellEvents(cell)
	go func() {
		request := Request{Name: planned.Name, Settings: planned.Settings, Abort: m.abort, Unreported: true}
		outcome, err := engine.Full(ctx, FullRequest{UpRequest: UpRequest{Request: request}})
		stopped := err != nil && errors.Is(context.Cause(ctx), errFailFast)
		m.ended <- cellEnd{cell, began, outcome, CodeOf(ctx, err), err, stopped}
	}()
}

// cellEvents tells of a cell's run what the matrix shows of it: what it does, and its warnings.
func (m *matrixRun) cellEvents(cell int) progress.Sink {
	planned := m.plan.Cells[cell]
	base := progress.Event{Phase: cellsPhase, Step: cellStep, Node: planned.Name}
	return progress.SinkFunc(func(e progress.Event) {
		told := base
		switch e.Kind {
		case progress.PhaseStart:
			told.Kind, told.Message = progress.NodeState, e.Phase
		case progress.PhaseEnd:
			if e.Phase == string(cluster.PhaseUp) {
				m.up <- cell
			}
			return
		case progress.Warning:
			told.Kind, told.Message, told.Error, told.Hint = e.Kind, e.Message, e.Error, e.Hint
		default:
			return
		}
		m.Sink.Emit(told)
	})
}

// end takes what became of a cell.
func (m *matrixRun) end(ctx context.Context, end cellEnd) {
	planned := m.plan.Cells[end.cell]
	m.running[end.cell]()
	delete(m.running, end.cell)
	delete(m.pending, end.cell)
	m.full = ""
	done := progress.Event{Kind: progress.NodeState, Phase: cellsPhase, Step: cellStep, Node: planned.Name}
	m.Sink.Emit(done)                                         // it does nothing more
	if m.load.Remove(planned.Size); m.isThere(planned.Name) { // kept, or it could not be destroyed
		m.hold(end.cell)
	}
	_, refused := errors.AsType[*deploy.PreflightError](end.err)
	if refused && end.outcome.Dir == "" && len(m.running) > 0 && ctx.Err() == nil {
		m.full = progress.OneLine(end.err.Error()) // those that run may have what it needs
		m.left = slices.Insert(m.left, 0, end.cell)
		m.Sink.Emit(progress.Event{
			Kind: progress.StepEnd, Phase: cellsPhase, Step: cellStep, Node: planned.Name, Status: progress.Skipped,
			Message: "it waits for room: " + m.full,
		})
		return
	}
	if end.err != nil && end.outcome.Dir == "" { // it will not be tried again
		run := state.RunName(cellStep, end.began)
		if err := m.keepRefusal(cluster.Name(planned.Name), run, report.Files(end.outcome.Report)); err != nil {
			progress.Warnf(m.Sink, "%s: the reports are not complete: %v", planned.Name, err)
		}
	}
	ownFailure := slices.ContainsFunc(end.outcome.Report.Cases, func(c report.Case) bool { return c.Status == progress.Failed })
	if end.stopped && !ownFailure {
		end.outcome.Report.Result = progress.Interrupted
	}
	m.tellCell(end.cell, end.began, time.Now().UTC(), end.outcome.Report, end.code, end.err)
}

func (m *matrixRun) isThere(name string) bool {
	_, err := m.Store.Load(cluster.Name(name))
	return !errors.Is(err, state.ErrNotFound)
}

// tellCell tells of a cell that has ended, and of its cases as those of a suite that is called like it.
func (m *matrixRun) tellCell(cell int, began, ended time.Time, r report.Report, code ExitCode, err error) {
	planned := m.plan.Cells[cell]
	why := ""
	if err != nil {
		why = progress.FirstLine(err.Error())
	}
	if x := r.Explanation; x != nil {
		why = x.Headline()
		if n := len(x.Lines); n > 0 && !strings.Contains(why, x.Lines[n-1]) { // the last one tells most often why
			why += ": " + progress.Clip(x.Lines[n-1], 120)
		}
	}
	status := cmp.Or(r.Result, progress.Failed)
	if code == ExitOK {
		status = progress.Passed
	}
	m.results[cell] = cellResult{status, code, why}
	m.told.Cells[cell].RunDir = r.RunDir
	base := progress.Event{Time: ended, Phase: cellsPhase, Suite: planned.Label}
	life := base
	life.Kind, life.Name, life.Status, life.Seconds = progress.Case, "full", status, ended.Sub(began).Seconds()
	if status.Bad() && !slices.ContainsFunc(r.Cases, func(c report.Case) bool { return c.Status.Bad() }) {
		life.Error = cmp.Or(why, string(status))
	} else {
		life.Status = progress.Passed // what failed in it is told by its own cases
	}
	m.Sink.Emit(life)
	for i, c := range r.Cases {
		one := base
		one.Kind, one.Name, one.Status, one.Seconds = progress.Case, caseInCell(planned.Name, c), c.Status, c.Seconds
		one.Error, one.Message, one.Output, one.File, one.Line, one.Place = c.Error, c.Message, c.Output, c.File, c.Line, i+1
		m.Sink.Emit(one)
	}
	end := progress.Event{
		Kind: progress.StepEnd, Time: ended, Phase: cellsPhase, Step: cellStep, Node: planned.Name, Status: status,
		Seconds: ended.Sub(began).Seconds(), Message: planned.Label,
	}
	if status.Bad() && life.Error == "" { // else that has told it
		end.Error = cmp.Or(why, string(status))
	}
	number := int(code)
	end.ExitCode, end.RunDir = &number, r.RunDir
	m.Sink.Emit(end)
}

// caseInCell is the name of a case without that of its cluster, so that the cases of all cells can be compared.
func caseInCell(cell string, c report.Case) string {
	name := progress.CaseName(c.Suite, c.Node, c.Name)
	return strings.ReplaceAll(name, cell+"-", "node-")
}

// conclude ends the run.
func (m *matrixRun) conclude(ctx context.Context, began time.Time, whyNotRun string) error {
	m.notRun(whyNotRun)
	err := m.verdict()
	code := CodeOf(ctx, err)
	phaseEnd := progress.Event{
		Kind: progress.PhaseEnd, Phase: cellsPhase, Status: code.status(), Seconds: time.Since(began).Seconds(),
	}
	final := m.ending(code)
	final.Matrix = m.withResults()
	if err != nil {
		phaseEnd = phaseEnd.WithError(err)
		final.Explanation = m.explain(err, final.Matrix)
	}
	m.Sink.Emit(phaseEnd)
	return m.endWith(final, code, err)
}

// whyNotRun is why cells have not begun.
func (m *matrixRun) whyNotRun(ctx context.Context) string {
	switch {
	case ctx.Err() != nil:
		return "not begun: " + context.Cause(ctx).Error()
	case m.request.Matrix.FailFast:
		return "not begun: another cell failed, and the matrix is to fail fast"
	}
	return "there was no room for it: clusters that are there still take the budget"
}

// notRun tells of cells that have not come to an end, and why.
func (m *matrixRun) notRun(why string) {
	for cell, planned := range m.plan.Cells {
		if m.results[cell].status != "" {
			continue
		}
		m.results[cell] = cellResult{progress.Interrupted, ExitUnexpected, why}
		m.Sink.Emit(progress.Event{
			Kind: progress.Case, Phase: cellsPhase, Suite: planned.Label, Name: "full", Status: progress.Interrupted, Error: why,
		})
	}
}

// verdict is nil only if every cell passed.
func (m *matrixRun) verdict() error {
	failed, first := 0, -1
	for cell, result := range m.results {
		if result.status == progress.Passed {
			continue
		}
		failed++
		// one that was stopped for another is not the reason
		if first < 0 || m.results[first].status != progress.Failed && result.status == progress.Failed {
			first = cell
		}
	}
	if failed == 0 {
		return m.errMissing()
	}
	if m.results[first].status == progress.Interrupted { // which the code says where it was this run
		m.results[first].code = ExitUnexpected
	}
	err := fmt.Errorf("%d of %s did not pass, first %s: %s",
		failed, progress.Count(len(m.results), "cell"), m.plan.Cells[first].Label, m.results[first].why)
	if missing := m.errMissing(); missing != nil {
		err = fmt.Errorf("%w; %w", err, missing)
	}
	return Error{cmp.Or(m.results[first].code, ExitUnexpected), progress.WithCode(err, "cells-failed")}
}

// explain says which failed, what these have in common, which are flaky, and what comes next.
func (m *matrixRun) explain(err error, told *progress.Matrix) *progress.Explanation {
	x := &progress.Explanation{Phase: cellsPhase, Where: cellsPhase, What: err.Error()}
	first := -1 // that failed
	reasons := mistakes{}
	for cell, result := range m.results {
		if result.status == progress.Failed {
			reasons.add(m.plan.Cells[cell].Label, []error{errors.New(result.why)})
			if first < 0 {
				first = cell
			}
		}
	}
	for _, reason := range reasons.told(len(m.results)) {
		x.Suites = append(x.Suites, reason.Error())
	}
	if more := len(x.Suites) - mostCells; more > 0 {
		x.Suites = append(x.Suites[:mostCells], fmt.Sprintf("and %d more", more))
	}
	causes := make([]string, 0, 1+len(told.Flaky))
	for _, f := range told.Flaky[:min(mostCells, len(told.Flaky))] {
		causes = append(causes, "flaky: "+f.String())
	}
	if told.Shared != "" {
		causes = append(causes, told.Shared)
	}
	x.Cause = strings.Join(causes, "; ")
	if first < 0 && m.request.File != "-" && !m.told.Merged {
		words := slices.Concat([]string{m.request.File}, m.request.Args, m.request.Chosen, []string{"--resume"})
		x.Next = "go on with those that are open: hive-test matrix run " + remote.Quote(words...)
	}
	if first >= 0 && !m.told.Merged { // else the runs may be on another machine
		x.Next = "look at a cell that failed: hive-test explain " + m.plan.Cells[first].Name
	}
	return x
}

// shared says what the cells that failed have in common.
func (m *matrixRun) shared() string {
	ended := map[progress.Status][]matrix.Cell{}
	for cell, result := range m.results {
		ended[result.status] = append(ended[result.status], m.plan.Cells[cell].Cell)
	}
	return m.request.Matrix.Shared(ended[progress.Failed], ended[progress.Passed])
}

// mostCells is how many reasons for which cells failed, and flaky ones, an explanation lists.
const mostCells = 10

// withResults is the plan with what became of the cells.
func (m *matrixRun) withResults() *progress.Matrix {
	told := *m.told
	told.Cells = slices.Clone(m.told.Cells)
	for cell, result := range m.results {
		told.Cells[cell].Status, told.Cells[cell].Why = result.status, result.why
		if result.status != "" {
			number := int(result.code)
			told.Cells[cell].ExitCode = &number
		}
	}
	told.Shared = m.shared()
	told.FindFlaky()
	return &told
}

// lastRun returns the events of the last run of what this one runs, where that did not come to its end, and refuses what is
// at work. Shards that run in one directory have runs of their own. One of another file counts where there is none of
// this: what differs is told, if it matters.
func (m *matrixRun) lastRun() ([]progress.Event, error) {
	runs, err := m.Store.Runs(m.Name)
	if err != nil {
		return nil, err
	}
	if other := m.atWork(); other != "" {
		return nil, Error{ExitLocked, fmt.Errorf("the matrix is at work: %s", other)}
	}
	why := strings.TrimSpace("it has not run yet " + strings.Join(m.told.Chosen, " "))
	var ofOtherFile []progress.Event
	for _, run := range runs {
		if !strings.HasSuffix(filepath.Base(run.Dir), "-"+matrixVerb) {
			continue
		}
		events, err := eventsOf(run)
		if err != nil {
			why = err.Error()
			continue
		}
		switch told, _ := readMatrix(events); {
		case told.Merged || !slices.Equal(told.Chosen, m.told.Chosen):
		case told.FileHash == m.told.FileHash:
			return m.unfinished(events)
		case ofOtherFile == nil:
			ofOtherFile = events
		}
	}
	if ofOtherFile != nil {
		return m.unfinished(ofOtherFile)
	}
	return m.nothingToResume(why)
}

// atWork is the directory of the first run of the matrix that is at work; empty: none is.
func (m *matrixRun) atWork() string {
	runs, _ := m.Store.Runs(m.Name) // what cannot be listed cannot be run either
	for _, run := range slices.Backward(runs) {
		if strings.HasSuffix(filepath.Base(run.Dir), "-"+matrixVerb) && run.Dir != m.dir.Dir && run.AtWork() {
			return run.Dir
		}
	}
	return ""
}

// eventsOf reads those of a run, as far as they can be read.
func eventsOf(run state.Run) ([]progress.Event, error) {
	file, err := os.Open(filepath.Join(run.Dir, state.EventsFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	events, err := progress.ReadEvents(file)
	if len(events) > 0 {
		err = nil
	}
	return events, err
}

func (m *matrixRun) nothingToResume(why string) ([]progress.Event, error) {
	if m.request.Resume {
		return nil, usage(fmt.Errorf("there is no run of matrix %s to go on with: %s", m.Name, why))
	}
	return nil, nil
}

// unfinished returns the events of a run whose cells did not all come to their ends.
func (m *matrixRun) unfinished(events []progress.Event) ([]progress.Event, error) {
	told, results := readMatrix(events)
	open := 0
	for _, cell := range told.Cells {
		if r, ended := results[cell.Name]; !ended || r.Status == progress.Interrupted {
			open++
		}
	}
	switch {
	case open == 0:
		return m.nothingToResume("its last run came to its end")
	case !m.request.Resume:
		progress.Infof(m.Sink, "the last run did not come to its end (%d of %s are open): --resume would go on with it",
			open, progress.Count(len(told.Cells), "cell"))
		return nil, nil
	}
	if err := m.plan.checkSame(told); err != nil {
		return nil, usage(err)
	}
	return events, nil
}

// readMatrix returns what the events of a run tell of a matrix: its plan, and the ends of cells by name.
func readMatrix(events []progress.Event) (told *progress.Matrix, ends map[string]progress.Event) {
	told, ends = &progress.Matrix{}, map[string]progress.Event{}
	for _, e := range events {
		if e.Matrix != nil {
			told = e.Matrix
		}
		if e.Kind == progress.StepEnd && e.Step == cellStep && e.Status != progress.Skipped {
			ends[e.Node] = e
		}
	}
	return told, ends
}

// tellAgain tells what an earlier run of the matrix has told of cells that have ended, and takes them as done. One that
// ended when the matrix was killed, so that nobody told of it, has left a report of its own.
func (m *matrixRun) tellAgain(events []progress.Event) {
	_, ends := readMatrix(events)
	begins := map[string]time.Time{}
	for _, e := range events {
		if e.Kind == progress.StepStart && e.Step == cellStep {
			begins[e.Node] = e.Time
		}
	}
	for cell, planned := range m.plan.Cells {
		end, ended := ends[planned.Name]
		began, begun := begins[planned.Name]
		switch {
		case ended && end.Status != progress.Interrupted:
			m.retell(cell, events)
		case begun && !ended:
			m.tellReported(cell, began)
		}
		if m.results[cell].status != "" {
			m.left = slices.DeleteFunc(m.left, func(c int) bool { return c == cell })
		}
	}
	progress.Infof(m.Sink, "%d of %s are done already", len(m.plan.Cells)-len(m.left), progress.Count(len(m.plan.Cells), "cell"))
}

// retell tells the events of a cell again.
func (m *matrixRun) retell(cell int, events []progress.Event) {
	planned := m.plan.Cells[cell]
	begun, why := false, ""
	for _, e := range events {
		of := e.Step == cellStep && e.Node == planned.Name || e.Kind == progress.Case && e.Suite == planned.Label
		if !of {
			continue
		}
		switch e.Kind {
		case progress.StepStart:
			if begun { // it was begun again
				continue
			}
			begun = true
		case progress.StepEnd:
			if e.Status == progress.Skipped {
				continue
			}
			code := ExitUnexpected
			if e.ExitCode != nil {
				code = ExitCode(*e.ExitCode)
			}
			m.results[cell] = cellResult{e.Status, code, cmp.Or(e.Error, why)}
			m.told.Cells[cell].RunDir = e.RunDir
		case progress.Case:
			if e.Status.Bad() {
				why = cmp.Or(why, e.Error)
			}
		default:
			continue
		}
		e.Cluster, e.Verb = "", ""
		m.Sink.Emit(e)
	}
}

// tellReported tells of a cell that has come to its end since, by the report of its run.
func (m *matrixRun) tellReported(cell int, began time.Time) {
	planned := m.plan.Cells[cell]
	runs, err := m.Store.Runs(cluster.Name(planned.Name))
	if err != nil || len(runs) == 0 || m.isThere(planned.Name) {
		return
	}
	r, err := readReport(runs[0])
	if err != nil || r.Verb != "full" || r.Started.Before(began.Add(-time.Second)) || r.Result == progress.Interrupted {
		return
	}
	m.Sink.Emit(progress.Event{
		Kind: progress.StepStart, Time: r.Started, Phase: cellsPhase, Step: cellStep, Node: planned.Name, Message: planned.Label,
	})
	m.tellCell(cell, r.Started, r.Started.Add(time.Duration(r.Seconds*float64(time.Second))), r, ExitCode(r.ExitCode), nil)
}
