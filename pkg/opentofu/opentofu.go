// Package opentofu runs OpenTofu or Terraform on a module, one child process per step, through terraform-exec. One
// working directory and one state for each directory that it is given; what the module makes is the caller's affair.
package opentofu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

const (
	// defaultParallelism is the programs' own.
	defaultParallelism = 10
	// lockTimeout is how long another tofu on the same state may finish what it does.
	lockTimeout = "10s"
	// maxGrace is how long a child that was interrupted may take at most to record what it did, before it is killed.
	maxGrace = 60 * time.Second
)

// graceOf is how long a child of a call under ctx may take: what is left of the caller's patience is for what the
// caller does then.
func graceOf(ctx context.Context) time.Duration { return min(maxGrace, phase.Grace(ctx)/2) }

// ErrUnusable means that what a call needs of its directory cannot be used, be it that it is damaged or that nothing
// can be written there. Nothing was done.
var ErrUnusable = errors.New("the files that tofu works with cannot be used")

// ErrKilled means that a child did not stop when its context ended and was ended by force: what it had asked for may
// still be done.
var ErrKilled = errors.New("killed at work")

// Options are what stays the same for all directories.
type Options struct {
	// Module holds the module's *.tf files, all at the root.
	Module fs.FS
	// Provider is the provider that the module pins; the zero value says that it needs none to be installed.
	Provider Provider
	// Find says how the program is found; it is looked for when it is first needed.
	Find FindOptions
	// Env is the caller's environment as KEY=VALUE. A child gets a few named variables of it and no others.
	Env []string
	// Environment, if set, returns what a child gets besides them. It may put files into dir, the working directory.
	Environment func(ctx context.Context, dir string) (Environment, error)
	// ProviderMirror is a directory of providers; if set, providers come from nowhere else.
	ProviderMirror string
	// CacheDir holds the shared provider cache. Empty means that every directory keeps its own copy.
	CacheDir string
	// OwnerID is carried by tofu and its providers in their environment: EndOrphans knows them by it.
	OwnerID string
	// NodeOf, if set, returns the node that events about a resource belong to, by the resource's address.
	NodeOf func(address string) string
	// StateOf, if set, returns what is done with a node while a resource of that type undergoes action, or after it; empty:
	// nothing that is worth a word.
	StateOf func(resourceType, action string, done bool) string
	// Observed, if set, tells of an attribute of any resource whether it is only ever read: that it differs from the state is no drift.
	Observed func(attribute string) bool
	// Explain, if set, makes the error that a step ends with.
	Explain func(*Failure) error
	// Credentials returns variables that the child gets too, and what of them must not be seen; nil: none.
	Credentials func(ctx context.Context) (Environment, error)
	// Parallelism is how many resources are worked on at a time; 0 means 10.
	Parallelism int
	// Pause is what passes before the first further try of Retry; it doubles. 0 means a second.
	Pause time.Duration
	// Backend is where the state is kept; the zero value is a file of each directory.
	Backend Backend
	// LogPath is the file that all output is appended to. Empty means none.
	LogPath string
	// Sink hears of each step and each line of output; nil means nobody.
	Sink progress.Sink

	documents bool // what is kept is read and written as it is: no copy of it is made
}

// Provider is a provider as a module pins it.
type Provider struct {
	Source  string // NAMESPACE/TYPE
	Version string
}

// Environment is what a child is told. The environment is the only way a secret takes.
type Environment struct {
	Variables map[string]string
	// Secrets are values that must not be seen in any output.
	Secrets []string
}

// Failure says that a step failed. What was done before it is recorded: the step can be repeated.
type Failure struct {
	// Step is init, plan, show, apply or destroy.
	Step string
	// Diagnostics are the errors that the program told of.
	Diagnostics []Diagnostic
	// Err is the error of the child process.
	Err error
}

func (f *Failure) Error() string {
	if len(f.Diagnostics) == 0 {
		return fmt.Sprintf("tofu %s failed: %v", f.Step, f.Err)
	}
	var parts []string
	for _, d := range f.Diagnostics {
		parts = append(parts, strings.Join(strings.Fields(d.Summary+" "+d.Detail), " "))
	}
	return "tofu " + f.Step + " failed: " + strings.Join(parts, "; ")
}

func (f *Failure) Unwrap() error { return f.Err }

// Runner runs a module. It is safe for concurrent use on different directories.
type Runner struct {
	options Options
}

// New returns a Runner. It touches nothing.
func New(o Options) *Runner {
	if o.Sink == nil {
		o.Sink = progress.Discard
	}
	o.Parallelism = cmp.Or(o.Parallelism, defaultParallelism)
	if o.NodeOf == nil {
		o.NodeOf = func(string) string { return "" }
	}
	if o.Observed == nil {
		o.Observed = func(string) bool { return false }
	}
	if o.Explain == nil {
		o.Explain = func(f *Failure) error { return f }
	}
	return &Runner{options: o}
}

// Run is the work of one call on one directory. It must be closed.
type Run struct {
	// Seconds is the time spent inside child processes, by step.
	Seconds map[string]float64

	runner   *Runner
	dir      workdir
	binary   Binary
	tofu     *tfexec.Terraform
	log      io.WriteCloser
	secrets  []string
	locked   string // id of the lock that the last step met; empty: none
	unlocked bool   // the state is only read: nobody is kept from it
	// undescribed leaves out what changes are for
	undescribed bool

	named bool // a step has said which program runs
}

// Begin finds the program, prepares the working directory and initialises it.
func (r *Runner) Begin(ctx context.Context, dir string) (*Run, error) {
	b, err := Find(ctx, r.options.Find)
	if err != nil {
		return nil, err
	}
	return r.beginWith(ctx, b, workdir{root: dir})
}

// beginWith is Begin with a program that was found.
func (r *Runner) beginWith(ctx context.Context, b Binary, w workdir) (*Run, error) {
	remote := r.options.Backend.Remote()
	if err := w.prepare(r.options.Module, r.options.Backend); err != nil {
		return nil, err
	}
	if !remote {
		if err := checkFlavor(w, b); err != nil {
			return nil, err
		}
	}
	run, err := r.open(ctx, w, b, graceOf(ctx))
	if err != nil {
		return nil, err
	}
	if run.log, err = openLog(r.options.LogPath); err != nil {
		return nil, err
	}
	err = run.initialise(ctx)
	if err == nil && !r.options.documents {
		err = run.refresh(ctx)
	}
	if err == nil && remote && !r.options.documents {
		err = checkFlavor(w, b)
	}
	if err != nil {
		run.Close()
		return nil, err
	}
	return run, nil
}

// open makes a run in a directory as it is.
func (r *Runner) open(ctx context.Context, w workdir, b Binary, grace time.Duration) (*Run, error) {
	env, secrets, err := r.environment(ctx, w, b)
	if err != nil {
		return nil, err
	}
	child, err := tfexec.NewTerraform(w.dir(), b.Path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(child.SetEnv(env), child.SetWaitDelay(grace)); err != nil {
		return nil, fmt.Errorf("set up tofu: %w", err)
	}
	return &Run{
		Seconds: map[string]float64{}, runner: r, dir: w, binary: b, tofu: child, log: discard{io.Discard}, secrets: secrets,
	}, nil
}

func (r *Run) Close() { _ = r.log.Close() }

// checkFlavor refuses Terraform for what OpenTofu has made: their names for one provider differ, and only OpenTofu
// translates.
func checkFlavor(w workdir, b Binary) error {
	resources, err := ReadState(w.state())
	if err != nil || b.Flavor != Terraform {
		return err
	}
	ofOpenTofu := func(r Resource) bool { return strings.Contains(r.Provider, registryHost(OpenTofu)) }
	if !slices.ContainsFunc(resources, ofOpenTofu) {
		return nil
	}
	return fmt.Errorf("this cluster was made with OpenTofu and Terraform (%s) cannot continue it: "+
		"name an OpenTofu with --tofu-bin", b.Path)
}

// step runs one child and turns its failure into the error that the caller makes of a *Failure, or an interruption into
// the error of ctx.
func (r *Run) step(ctx context.Context, name string, call func(*stream) error) error {
	r.locked = ""
	err := r.once(ctx, name, call)
	if err == nil || r.locked == "" || !r.runner.options.Backend.Remote() {
		return err
	}
	// Whoever calls holds what the state is about: the program that has locked the state was killed, and cannot unlock it.
	progress.Warnf(r.runner.options.Sink, "the state was left locked by a run that is over: it is unlocked (%s)", r.locked)
	if r.tofu.ForceUnlock(ctx, r.locked) != nil {
		return err
	}
	return r.once(ctx, name, call)
}

// escapes are the sequences that colour a terminal.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// lockID is the id of the lock that keeps a program from a state, in its error.
var lockID = regexp.MustCompile(`(?s)state lock.*?\b(?:ID:\s+|already locked: ID=)(\S+)`)

// once is one try of a step.
func (r *Run) once(ctx context.Context, name string, call func(*stream) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o := r.runner.options
	sink := progress.With(o.Sink, progress.Event{Step: "tofu " + name})
	out := newStream(r.log, sink, r.secrets, o.NodeOf)
	out.stateOf = o.StateOf
	complaints := out.plain()
	r.tofu.SetStderr(complaints)
	start := time.Now()
	program := r.program()
	sink.Emit(progress.Event{Kind: progress.StepStart, Message: program})
	began := start.UTC().Format(time.RFC3339)
	fmt.Fprintf(r.log, "%s --- %s %s: %s\n", began, r.binary.Flavor, r.binary.Version, name)
	err := call(out)
	complaints.flush()
	r.Seconds[name] += time.Since(start).Seconds()
	if ctx.Err() != nil { // a tofu that had to be killed has left its providers at work
		EndOrphans(context.WithoutCancel(ctx), o.OwnerID, sink)
	}
	err = r.judge(ctx, name, out, err)
	end := ended(err, time.Since(start))
	end.Message = program
	sink.Emit(end)
	return err
}

// program says once in a run which program it is, and of which version.
func (r *Run) program() string {
	if r.named {
		return ""
	}
	r.named = true
	return r.binary.Flavor + " " + r.binary.Version
}

func ended(err error, took time.Duration) progress.Event {
	e := progress.Event{Kind: progress.StepEnd, Status: progress.Passed, Seconds: took.Seconds()}
	if err != nil {
		e.Status, e.Error, e.Problem = progress.Failed, err.Error(), progress.ProblemOf(err)
	}
	if errors.Is(err, context.Canceled) {
		e.Status = progress.Interrupted
	}
	return e
}

func (r *Run) judge(ctx context.Context, name string, out *stream, err error) error {
	if err == nil {
		return nil
	}
	if err := interruption(ctx, name, err); err != nil {
		return err
	}
	text := escapes.ReplaceAllString(err.Error(), "") // not all commands can be told to leave colours out
	f := &Failure{Step: name, Diagnostics: out.problems, Err: errors.New(out.mask(text))}
	if len(f.Diagnostics) == 0 {
		f.Diagnostics = plainProblems(text)
	}
	for i := range f.Diagnostics {
		d := &f.Diagnostics[i]
		if m := lockID.FindStringSubmatch(d.Summary + "\n" + d.Detail); m != nil {
			r.locked = m[1]
		}
		d.Address = out.about(*d)
		d.Summary, d.Detail = out.mask(d.Summary), out.mask(d.Detail)
	}
	return r.runner.options.Explain(f)
}

// interruption is the error of a child's call whose ctx has ended, nil if it has not. The text of the call's own is not
// to be read then: that of a child that ends well although it was interrupted has none, and asking for it panics.
func interruption(ctx context.Context, name string, err error) error {
	if ctx.Err() == nil {
		return nil
	}
	how, end := "was interrupted", ctx.Err()
	did, lacks := ", what it did is recorded", ": its state may lack what it did last"
	if name != "apply" && name != "destroy" { // it changes nothing
		did, lacks = "", ""
	}
	if killed(err) {
		how, end, did = "did not stop when told to and was killed", errors.Join(ctx.Err(), ErrKilled), lacks
	}
	how += did
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return &cutError{fmt.Sprintf("tofu %s %s (%v)", name, how, cause), errors.Join(cause, end)}
	}
	return &cutError{fmt.Sprintf("tofu %s %s", name, how), end}
}

// cutError is a call that was ended before its end; its text is the whole of it.
type cutError struct {
	text  string
	cause error
}

func (e *cutError) Error() string { return e.text }

// Unwrap returns what matches the end of the context, and ErrKilled.
func (e *cutError) Unwrap() error { return e.cause }

// killed reports whether the error is of a child that was ended by SIGKILL.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// plainProblems finds the errors in output for people, which init prints: a line "Error: SUMMARY", then paragraphs.
func plainProblems(text string) []Diagnostic {
	var found []Diagnostic
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimLeft(line, "│╷╵ "))
		if summary, ok := strings.CutPrefix(line, "Error: "); ok {
			found = append(found, Diagnostic{Summary: summary})
		} else if len(found) > 0 && line != "" {
			d := &found[len(found)-1]
			d.Detail = strings.TrimSpace(d.Detail + "\n" + line)
		}
	}
	return found
}

// machineReadable makes Plan and Destroy print JSON. PlanJSON and DestroyJSON do too, but run the program once more
// before, to learn a version that Find knows already: a tenth of the time that a plan without changes takes. What Dir
// holds becomes the last argument as it is (terraform-exec 0.26).
func machineReadable() *tfexec.DirOption { return tfexec.Dir("-json") }

// Preview returns what a plan with these variables would say. It works on a copy of the state, in a directory of its
// own that is gone afterwards.
func (r *Runner) Preview(ctx context.Context, dir string, variables any) (Plan, error) {
	scratch, err := os.MkdirTemp("", "hive-test-plan-")
	if err != nil {
		return Plan{}, fmt.Errorf("make a directory for the plan: %w", err)
	}
	defer os.RemoveAll(scratch)
	if r.options.Backend.Remote() { // it is read there, and not locked
		return r.preview(ctx, scratch, variables)
	}
	if _, err := ReadState(StatePath(dir)); err != nil {
		return Plan{}, err // not of the copy, which is gone when it is read
	}
	if err := copyState(workdir{root: dir}, workdir{root: scratch}); err != nil {
		return Plan{}, err
	}
	return r.preview(ctx, scratch, variables)
}

func (r *Runner) preview(ctx context.Context, scratch string, variables any) (Plan, error) {
	run, err := r.Begin(ctx, scratch)
	if err != nil {
		return Plan{}, err
	}
	defer run.Close()
	run.unlocked = true
	return run.Plan(ctx, variables)
}

// Plan finds out what is to be done to have what variables ask for, a value that becomes a JSON object, and leaves the
// plan in the working directory.
func (r *Run) Plan(ctx context.Context, variables any) (Plan, error) {
	plan := Plan{variables: variables}
	if err := writeVariables(r.dir.file(plannedVariables), variables); err != nil {
		return plan, err
	}
	err := r.step(ctx, "plan", func(out *stream) error {
		lines := out.json()
		r.tofu.SetStdout(lines)
		var err error
		plan.Changed, err = r.tofu.Plan(ctx, tfexec.Out(planFile), tfexec.VarFile(plannedVariables),
			tfexec.Lock(!r.unlocked), tfexec.LockTimeout(lockTimeout), tfexec.Parallelism(r.runner.options.Parallelism),
			machineReadable())
		lines.flush()
		if err == nil {
			err = os.Chmod(r.dir.file(planFile), 0o600) // it stays, for Show
		}
		if err != nil {
			return err
		}
		plan.Changes, err = out.planned()
		plan.drifted = out.drifted
		return err
	})
	if err != nil || r.undescribed {
		return plan, err
	}
	return plan, r.describe(ctx, plan.Changes)
}

// Apply does what the last plan says, and keeps its variables beside the state for Destroy. It returns the changes that
// were completed, where it fails as well.
func (r *Run) Apply(ctx context.Context, plan Plan) ([]Change, error) {
	if err := writeVariables(VariablesPath(r.dir.root), plan.variables); err != nil || !plan.Changed {
		return nil, err
	}
	var done []Change
	err := r.step(ctx, "apply", func(out *stream) error {
		lines := out.json()
		err := r.tofu.ApplyJSON(ctx, lines, tfexec.DirOrPlan(planFile),
			tfexec.Parallelism(r.runner.options.Parallelism), tfexec.LockTimeout(lockTimeout))
		lines.flush()
		done = out.done
		return err
	})
	err = errors.Join(err, r.copyChanged(ctx))
	// tofu makes its backup with the umask's mode.
	chmod := os.Chmod(StatePath(r.dir.root)+".backup", 0o600)
	if err == nil && !errors.Is(chmod, fs.ErrNotExist) {
		err = chmod
	}
	return done, err
}

// Destroy removes everything that the state holds. Variables are kept beside the state first. Without refresh nobody is
// asked what is still there.
func (r *Run) Destroy(ctx context.Context, variables any, refresh bool) error {
	if err := writeVariables(VariablesPath(r.dir.root), variables); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	err := r.step(ctx, "destroy", func(out *stream) error {
		lines := out.json()
		defer lines.flush()
		r.tofu.SetStdout(lines)
		return r.tofu.Destroy(ctx, tfexec.VarFile(relativeVariables), tfexec.Refresh(refresh),
			tfexec.Parallelism(r.runner.options.Parallelism), tfexec.LockTimeout(lockTimeout), machineReadable())
	})
	return errors.Join(err, r.copyChanged(ctx))
}

// Show returns the plan that the last Plan has left, for people; empty if there is none. It is made of what a failed
// run has left behind, so it is quick and does without what Begin repairs.
func (r *Runner) Show(ctx context.Context, dir string) (string, error) {
	w := workdir{root: dir}
	if _, err := os.Stat(w.file(planFile)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	b, err := Find(ctx, r.options.Find)
	if err != nil {
		return "", err
	}
	run, err := r.open(ctx, w, b, time.Second)
	if err != nil {
		return "", err
	}
	text, err := run.tofu.ShowPlanFileRaw(ctx, planFile)
	if err != nil && ctx.Err() != nil {
		EndOrphans(context.WithoutCancel(ctx), r.options.OwnerID, r.options.Sink)
		return "", interruption(ctx, "show", err)
	}
	if err != nil {
		return "", fmt.Errorf("show the plan: %s", mask(err.Error(), run.secrets))
	}
	return mask(text, run.secrets), nil
}
