// Package opentofu makes a cluster's VMs with OpenTofu or Terraform, one child process per step, through terraform-exec.
// One working directory and one state per cluster, below the cluster's own directory.
package opentofu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"hive-test/pkg/deploy"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

const (
	// defaultParallelism covers the largest cluster: more is of no use, fewer makes it slower.
	defaultParallelism = 10
	// lockTimeout is how long another tofu on the same state may finish what it does.
	lockTimeout = "10s"
	// maxGrace is how long a child that was interrupted may take at most to record what it did, before it is killed.
	maxGrace = 60 * time.Second
)

// graceOf is how long a child of a call under ctx may take: what is left of the caller's patience is for what the
// caller does then.
func graceOf(ctx context.Context) time.Duration { return min(maxGrace, phase.Grace(ctx)/2) }

// Options are what stays the same for all clusters.
type Options struct {
	// Find says how the program is found; it is looked for when it is first needed.
	Find FindOptions
	// Env is the caller's environment as KEY=VALUE. A child gets a few named variables of it and no others.
	Env []string
	// ProviderMirror is a directory of providers; if set, providers come from nowhere else.
	ProviderMirror string
	// CacheDir holds the shared provider cache. Empty means that every cluster keeps its own copy.
	CacheDir string
	// OwnerID is the owner id of the cluster; tofu and the provider carry it in their environment.
	OwnerID string
	// Endpoint is the address of the Proxmox VE API. Empty means the one that the cluster was made with.
	Endpoint string
	// Token is an API token, USER@REALM!TOKENID=UUID.
	Token string
	// CAFile is a PEM file of the CA that signed the API's certificate; the system's own are trusted besides.
	CAFile string
	// FetchCA, where it is not nil, returns what is taken in place of CAFile, when tofu is to be run.
	FetchCA func(context.Context) string
	// Insecure turns certificate verification off.
	Insecure bool
	// SSHUser and SSHPrivateKeyPath are how hypervisors are logged in to. Without a key the SSH agent is asked, whose
	// socket is SSHAgent, or that of SSH_AUTH_SOCK in Env.
	SSHUser, SSHPrivateKeyPath, SSHAgent string
	// Parallelism is how many resources are worked on at a time; 0 means 10, enough for the largest cluster at once.
	Parallelism int
	// Pause is what passes before the first further try of what failed for a passing reason; it doubles. 0 means a second.
	Pause time.Duration
	// LogPath is the file that all output is appended to. Empty means none.
	LogPath string
	// Sink hears of each step and each line of output; nil means nobody.
	Sink progress.Sink
}

// Provisioner drives tofu. It is safe for concurrent use on different clusters.
type Provisioner struct {
	options Options
}

// New returns a Provisioner. It touches nothing.
func New(o Options) *Provisioner {
	if o.Sink == nil {
		o.Sink = progress.Discard
	}
	if o.Parallelism <= 0 {
		o.Parallelism = defaultParallelism
	}
	return &Provisioner{options: o}
}

// run is one call for one cluster.
type run struct {
	owner   *Provisioner
	dir     workdir
	binary  Binary
	tofu    *tfexec.Terraform
	log     io.WriteCloser
	secrets []string
	seconds map[string]float64
}

// begin finds the program, prepares the working directory and initialises it.
func (p *Provisioner) begin(ctx context.Context, dir string) (*run, error) {
	b, err := Find(ctx, p.options.Find)
	if err != nil {
		return nil, err
	}
	w := workdir{cluster: dir}
	if err := w.prepare(); err != nil {
		return nil, err
	}
	if err := checkFlavor(w, b); err != nil {
		return nil, err
	}
	env, err := p.environment(ctx, w, b)
	if err != nil {
		return nil, err
	}
	if p.options.CAFile != "" && !p.options.Insecure && runtime.GOOS == "darwin" {
		p.options.Sink.Emit(progress.Event{
			Time: time.Now().UTC(), Kind: progress.Warning,
			Message: "on macOS the provider trusts the keychain only", Hint: "add the CA to the keychain: " + p.options.CAFile,
		})
	}
	child, err := tfexec.NewTerraform(w.dir(), b.Path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(child.SetEnv(env), child.SetWaitDelay(graceOf(ctx))); err != nil {
		return nil, fmt.Errorf("set up tofu: %w", err)
	}
	log, err := openLog(p.options.LogPath)
	if err != nil {
		return nil, err
	}
	r := &run{owner: p, dir: w, binary: b, tofu: child, log: log, secrets: p.secrets(env), seconds: map[string]float64{}}
	if err := r.initialise(ctx); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *run) close() { _ = r.log.Close() }

// checkFlavor refuses Terraform for what OpenTofu has made: their names for one provider differ, and only OpenTofu
// translates.
func checkFlavor(w workdir, b Binary) error {
	s, err := readState(w.state())
	if err != nil {
		return err
	}
	if b.Flavor == Terraform && strings.Contains(s.Provider, registryHost(OpenTofu)) {
		return fmt.Errorf("this cluster was made with OpenTofu and Terraform (%s) cannot continue it: name an OpenTofu with --tofu-bin", b.Path)
	}
	return nil
}

// step runs one child and turns its failure into a *deploy.Failure, or an interruption into the error of ctx.
func (r *run) step(ctx context.Context, name string, call func(*stream) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	sink := progress.With(r.owner.options.Sink, progress.Event{Step: "tofu " + name})
	out := newStream(r.log, sink, r.secrets)
	complaints := out.plain()
	r.tofu.SetStderr(complaints)
	start := time.Now()
	sink.Emit(progress.Event{Kind: progress.StepStart, Message: strings.ToLower(r.binary.Flavor) + " " + name})
	fmt.Fprintf(r.log, "%s --- %s %s: %s\n", start.UTC().Format(time.RFC3339), r.binary.Flavor, r.binary.Version, name)
	err := call(out)
	complaints.flush()
	r.seconds[name] += time.Since(start).Seconds()
	if ctx.Err() != nil { // a tofu that had to be killed has left its providers at work
		EndOrphans(context.WithoutCancel(ctx), r.owner.options.OwnerID, sink)
	}
	err = r.judge(ctx, name, out, complaints, err)
	sink.Emit(ended(err, time.Since(start)))
	return err
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

func (r *run) judge(ctx context.Context, name string, out *stream, complaints *lineWriter, err error) error {
	if err == nil {
		return nil
	}
	if err := interruption(ctx, name, err); err != nil {
		return err
	}
	f := &deploy.Failure{Step: "tofu " + name, Problems: problems(out.problems), Log: r.owner.options.LogPath, Err: errors.New(out.mask(err.Error()))}
	if len(f.Problems) == 0 {
		f.Problems = problems(plainProblems(err.Error()))
	}
	for i := range f.Problems {
		p := &f.Problems[i]
		p.Summary, p.Detail = out.mask(p.Summary), out.mask(p.Detail)
	}
	return f
}

// interruption is the error of a child's call whose ctx has ended, nil if it has not. The text of the call's own is not
// to be read then: that of a child that ends well although it was interrupted has none, and asking for it panics.
func interruption(ctx context.Context, name string, err error) error {
	if ctx.Err() == nil {
		return nil
	}
	how, end, did, lacks := "was interrupted", ctx.Err(), ", what it did is recorded", ": its state may lack what it did last"
	if name != "apply" && name != "destroy" { // it changes nothing
		did, lacks = "", ""
	}
	if killed(err) {
		how, end, did = "did not stop when told to and was killed", errors.Join(ctx.Err(), deploy.ErrKilled), lacks
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

// Error says how it was ended.
func (e *cutError) Error() string { return e.text }

// Unwrap returns what matches the end of the context, and deploy.ErrKilled.
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
func plainProblems(text string) []diagnostic {
	var found []diagnostic
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimLeft(line, "│╷╵ "))
		if summary, ok := strings.CutPrefix(line, "Error: "); ok {
			found = append(found, diagnostic{Summary: summary})
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

// Plan returns what Up would do. It works on a copy of the state, in a directory of its own that is gone afterwards.
func (p *Provisioner) Plan(ctx context.Context, request deploy.Request) (deploy.Plan, error) {
	scratch, err := os.MkdirTemp("", "hive-test-plan-")
	if err != nil {
		return deploy.Plan{}, fmt.Errorf("make a directory for the plan: %w", err)
	}
	defer os.RemoveAll(scratch)
	if _, err := readState(workdir{cluster: request.Dir}.state()); err != nil {
		return deploy.Plan{}, err // not of the copy, which is gone when it is read
	}
	if err := copyState(workdir{cluster: request.Dir}, workdir{cluster: scratch}); err != nil {
		return deploy.Plan{}, err
	}
	r, err := p.begin(ctx, scratch)
	if err != nil {
		return deploy.Plan{}, err
	}
	defer r.close()
	next, err := r.plan(ctx, request)
	return next.plan, err
}

// planned is a plan that waits to be applied: the plan file is in the working directory.
type planned struct {
	plan      deploy.Plan
	variables variables
	// changed is true if applying would change anything, be it only what the state remembers.
	changed bool
}

// plan finds out what is to be done, and leaves the plan file.
func (r *run) plan(ctx context.Context, request deploy.Request) (planned, error) {
	var next planned
	var err error
	if next.variables, err = newVariables(request, r.owner.options.Endpoint); err != nil {
		return next, err
	}
	if err := next.variables.write(r.dir.file(plannedVariables)); err != nil {
		return next, err
	}
	before, err := readState(r.dir.state())
	if err != nil {
		return next, err
	}
	err = r.step(ctx, "plan", func(out *stream) error {
		lines := out.json()
		r.tofu.SetStdout(lines)
		next.changed, err = r.tofu.Plan(ctx, tfexec.Out(planFile), tfexec.VarFile(plannedVariables),
			tfexec.LockTimeout(lockTimeout), tfexec.Parallelism(r.owner.options.Parallelism), machineReadable())
		lines.flush()
		if err == nil {
			err = os.Chmod(r.dir.file(planFile), 0o600) // it stays, for PlanText
		}
		if err != nil {
			return err
		}
		next.plan, err = out.plan(before.VMs)
		return err
	})
	if err != nil {
		return next, err
	}
	return next, r.explain(ctx, next.plan.Changes)
}

// PlanText shows the plan file that the last Up has left. It is made of what a failed run has left behind, so it is
// quick and does without what begin repairs.
func (p *Provisioner) PlanText(ctx context.Context, request deploy.Request) (string, error) {
	w := workdir{cluster: request.Dir}
	if _, err := os.Stat(w.file(planFile)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	offline := *p // a plan is shown without asking anybody
	offline.options.FetchCA = nil
	p = &offline
	b, err := Find(ctx, p.options.Find)
	if err != nil {
		return "", err
	}
	env, err := p.environment(ctx, w, b)
	if err != nil {
		return "", err
	}
	child, err := tfexec.NewTerraform(w.dir(), b.Path)
	if err != nil {
		return "", err
	}
	if err := errors.Join(child.SetEnv(env), child.SetWaitDelay(time.Second)); err != nil {
		return "", fmt.Errorf("set up tofu: %w", err)
	}
	text, err := child.ShowPlanFileRaw(ctx, planFile)
	out := newStream(discard{}, progress.Discard, p.secrets(env))
	if err != nil && ctx.Err() != nil {
		EndOrphans(context.WithoutCancel(ctx), p.options.OwnerID, p.options.Sink)
		return "", interruption(ctx, "show", err)
	}
	if err != nil {
		return "", fmt.Errorf("show the plan: %s", out.mask(err.Error()))
	}
	return out.mask(text), nil
}

// Up makes the VMs exist as asked for.
func (p *Provisioner) Up(ctx context.Context, request deploy.Request) (deploy.Result, error) {
	EndOrphans(ctx, p.options.OwnerID, p.options.Sink)
	r, err := p.begin(ctx, request.Dir)
	if err != nil {
		return deploy.Result{}, err
	}
	defer r.close()
	result := deploy.Result{Seconds: r.seconds}
	// What a try could not complete is planned and applied again, after everything was looked at anew.
	err = r.retry(ctx, func() error {
		done, err := r.up(ctx, request)
		result = add(result, done)
		return err
	})
	return result, r.name(err, request)
}

// up is one try: plan, judge, apply.
func (r *run) up(ctx context.Context, request deploy.Request) (deploy.Result, error) {
	var result deploy.Result
	next, err := r.plan(ctx, request)
	if err != nil {
		return result, err
	}
	if refused := request.Refused(next.plan); len(refused) > 0 {
		return result, &deploy.RefusedError{Changes: refused}
	}
	if len(next.plan.Changes) > 0 && request.Check != nil {
		if err := request.Check(ctx, next.plan); err != nil {
			return result, err
		}
	}
	// From here on down needs what is written here.
	if err := next.variables.write(r.dir.variables()); err != nil {
		return result, err
	}
	if !next.changed {
		return result, nil
	}
	return r.apply(ctx, result)
}

func (r *run) apply(ctx context.Context, result deploy.Result) (deploy.Result, error) {
	var out *stream
	err := r.step(ctx, "apply", func(s *stream) error {
		out = s
		lines := s.json()
		defer lines.flush()
		return r.tofu.ApplyJSON(ctx, lines, tfexec.DirOrPlan(planFile), tfexec.Parallelism(r.owner.options.Parallelism), tfexec.LockTimeout(lockTimeout))
	})
	if out != nil {
		result.Created, result.Updated, result.Deleted = out.completed("create"), out.completed("update"), out.completed("delete")
		result.Changed = true
	}
	// tofu makes its backup with the umask's mode.
	if chmod := os.Chmod(r.dir.state()+".backup", 0o600); chmod != nil && !errors.Is(chmod, fs.ErrNotExist) && err == nil {
		err = chmod
	}
	return result, err
}

// Down removes everything that the state holds.
func (p *Provisioner) Down(ctx context.Context, request deploy.Request) error {
	EndOrphans(ctx, p.options.OwnerID, p.options.Sink)
	w := workdir{cluster: request.Dir}
	if s, err := readState(w.state()); err != nil || s.Resources == 0 {
		return err
	}
	r, err := p.begin(ctx, request.Dir)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.refreshVariables(request); err != nil {
		return fmt.Errorf("%w: %w", deploy.ErrUnusable, err)
	}
	// Without a refresh, neither a dead guest agent nor a lost right to look can hold up the removal. But the provider
	// fails on a VM that is gone already; what is gone is found by a refresh, after which the rest can go.
	err = r.retry(ctx, func() error {
		err := r.destroy(ctx, request.Refresh)
		if !request.Refresh && gone(err) {
			p.options.Sink.Emit(progress.Event{Kind: progress.Info, Message: "some VMs are gone already: destroying what is left"})
			err = r.destroy(ctx, true)
		}
		return err
	})
	if err != nil {
		return err
	}
	left, err := readState(w.state())
	if err == nil && left.Resources > 0 {
		err = fmt.Errorf("destroy ended well, yet the state still holds %d resources: repeat it", left.Resources)
	}
	return err
}

func (r *run) destroy(ctx context.Context, refresh bool) error {
	return r.step(ctx, "destroy", func(out *stream) error {
		lines := out.json()
		defer lines.flush()
		r.tofu.SetStdout(lines)
		return r.tofu.Destroy(ctx, tfexec.VarFile(relativeVariables), tfexec.Refresh(refresh),
			tfexec.Parallelism(r.owner.options.Parallelism), tfexec.LockTimeout(lockTimeout), machineReadable())
	})
}

// gone tells whether a destroy failed on something that does not exist any more (PVE: "Configuration file ... does not
// exist", HTTP 500).
func gone(err error) bool {
	failure, ok := errors.AsType[*deploy.Failure](err)
	return ok && slices.ContainsFunc(failure.Problems, func(p deploy.Problem) bool {
		return strings.Contains(p.Summary, "does not exist")
	})
}

// refreshVariables brings what is recorded up to date with how Proxmox VE is reached today; what the cluster is stays.
func (r *run) refreshVariables(request deploy.Request) error {
	v, err := readVariables(r.dir.variables())
	if err != nil { // what they were follows from the request, where that has nodes
		v, err = newVariables(request, r.owner.options.Endpoint)
	}
	if err != nil {
		return fmt.Errorf("read what the cluster was made with: %w", err)
	}
	if r.owner.options.Endpoint != "" {
		v.Endpoint = r.owner.options.Endpoint
	}
	if len(request.Spec.Hypervisors) > 0 {
		v.Hypervisors = hypervisorVariables(request.Spec.Hypervisors)
	}
	return v.write(r.dir.variables())
}
