// Package suite is what test runs against a cluster: the built-in suite "smoke", and any external command. Every case
// is told to a progress.Sink as it ends and kept in the Results.
package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// Smoke is the name of the built-in suite.
const Smoke = "smoke"

// IaC is the name of the suite of pkg/iac/run, which callers of Run bring along as one of Options.Builtins.
const IaC = "iac"

// GatewayPort is where every node answers AWS calls.
const GatewayPort = 9999

// Defaults of Options.
const (
	DefaultRequestTimeout = 15 * time.Second
	DefaultGrace          = 10 * time.Second
)

// Options say what is run against which cluster.
type Options struct {
	// Suites are run one after another in this order; none: Smoke.
	Suites []Spec
	// Run and Skip are regular expressions that choose cases by their names, of suites that can; empty: all.
	Run, Skip string
	// Quarantine lists cases whose failures do not decide.
	Quarantine []Quarantine
	// AllowFlaky lets a suite pass though cases of it are flaky.
	AllowFlaky bool
	// Lacks returns, before a suite that needs something, what of that the cluster has not; empty: nothing. Nil: all is
	// there.
	Lacks func(ctx context.Context, needs Needs) (string, error)
	// Fault applies the fault of a suite before each of its attempts, and returns what heals it. Nil: there are no faults.
	Fault func(ctx context.Context, s Spec) (heal func(), err error)
	// Builtins are the suites that are no commands, besides Smoke, by their names.
	Builtins map[string]Builtin
	// RequireAll makes a suite fail that the cluster lacks something for.
	RequireAll bool
	// Nodes are the cluster's nodes in index order, with their management addresses. Only Builtins can do without any.
	Nodes       cluster.Nodes
	Credentials Credentials
	// Now tells, before each suite, where the nodes are by then, and the Environment that belongs to it. Nil: where
	// they were.
	Now func() (cluster.Nodes, map[string]string)
	// Health tells what is known of all nodes now, for smoke. Nil: the health and peers cases are left out.
	Health func(context.Context) []NodeHealth
	// ArtifactsDir is a directory of this run. Each suite gets one of its own below it, emptied first.
	ArtifactsDir string
	// Reset, if it is set, is called before each suite but the first, with what the one before did and the name of the
	// next. Where it fails no further suite is run.
	Reset func(ctx context.Context, before SuiteResult, next string) error
	// On tells, before each external suite with such a node, how that is reached.
	On func(ctx context.Context, node string) (*Node, error)
	// PrivateDir is a directory for what suites read and nobody may keep: their AWS profile files, and the CA. It is
	// removed at the end. Empty: one among the temporary files.
	PrivateDir string
	// Dir is where external suites run; empty: this process's working directory.
	Dir string
	// Environment is set for external suites besides what this package sets, and wins over it where it is not empty:
	// HIVE_SSH_USER, HIVE_SSH_KEY, HIVE_SSH_CONFIG, HIVE_SSH_KNOWN_HOSTS belong here.
	Environment map[string]string
	// Inherit is the environment of who runs this; nil: this process's. External suites get of it what they may need,
	// and nothing of a hypervisor: inherit.go lists it.
	Inherit []string
	// SuiteEnv are names of further variables of Inherit that external suites get, and NAME=value for others. They win
	// over all else.
	SuiteEnv []string
	// KillLeftovers ends what an external suite has left running; else it is only named.
	KillLeftovers bool
	// Secrets are masked in all output, and in what suites leave in their directories, besides the secret key of
	// Credentials.
	Secrets []string
	Sink    progress.Sink
	// Dial connects to a port of a node, for smoke; nil: directly. External suites connect as they do.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// RequestTimeout bounds one answer to smoke. What is late is asked once more before its case fails.
	RequestTimeout time.Duration
	// Grace is how long an external suite has to end after INT, before KILL.
	Grace time.Duration
	// GatewayPort is 0 for the usual one.
	GatewayPort int
}

// Credentials are an AWS key pair that the cluster accepts, and the PEM certificates of the CA that its gateways'
// certificates come from. Profile is the name that hive itself has for them: hive or spinifex.
type Credentials struct {
	AccessKey, SecretKey, Region, CAPEM, Profile string
}

// NodeHealth is what is known of one node: nil where it is as it should be, else why it is not.
type NodeHealth struct {
	Node   string
	Health error // HTTP 200, JSON, running, its own name
	Peers  error // it sees all other nodes
	// Unreachable is why nothing on the node can be expected to answer; nil: something may.
	Unreachable error
}

// EndedError as the cause of Run's context ends the suites as failed, where others end them as interrupted.
type EndedError struct{ Err error }

func (e *EndedError) Error() string { return e.Err.Error() }
func (e *EndedError) Unwrap() error { return e.Err }

// endStatus is what becomes of what runs when ctx ends.
func endStatus(ctx context.Context) progress.Status {
	_, ended := errors.AsType[*EndedError](context.Cause(ctx))
	if ended || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return progress.Failed
	}
	return progress.Interrupted
}

// Results are what the suites did, in their order.
type Results struct {
	Suites []SuiteResult `json:"suites"`
}

// SuiteResult is what one suite did. ExitCode and Signal ("KILL") are those of an external command; a command that
// could not be started has exit code -1.
type SuiteResult struct {
	Name     string `json:"name"`
	Cases    []Case `json:"cases"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	// Lacks is what the suite needs and the cluster has not: it was not run. Empty: nothing.
	Lacks   string  `json:"lacks,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Case is one test case.
type Case struct {
	Name    string          `json:"name"`
	Status  progress.Status `json:"status"`
	Seconds float64         `json:"seconds"`
	Error   string          `json:"error,omitempty"`
	Output  string          `json:"output,omitempty"` // the end of what it printed, if it did not pass
	// Reason says why the case is skipped, flaky or quarantined.
	Reason string `json:"reason,omitempty"`
	// File and Line are where it says that it failed, as the suite names the file; 0: the line is not known.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`

	test  string // what go test -run takes for it; empty: it is no Go test
	place int    // in the results of its suite
	run   string // what --run takes for it alone; empty: it cannot be chosen
	node  string // that it is about, if it is of smoke
	whole bool   // it is about the suite as a whole: it crashed, was cut off, ran nothing; no quarantine excuses that
}

// Failed says whether the case ran and did not pass.
func (c Case) Failed() bool { return c.Status.Bad() }

// Failed says whether a case failed that decides. A command that failed has a case that says so, unless its cases do.
func (s SuiteResult) Failed() bool { return slices.ContainsFunc(s.Cases, Case.Failed) }

// flaky is how many cases are.
func (s SuiteResult) flaky() int {
	count := 0
	for _, c := range s.Cases {
		if c.Status == progress.Flaky {
			count++
		}
	}
	return count
}

// Flaky is how many cases are flaky, of all suites.
func (r Results) Flaky() int {
	count := 0
	for _, s := range r.Suites {
		count += s.flaky()
	}
	return count
}

// Failed says whether any suite failed, or no case was run at all though the cluster has all that suites need: a skipped
// case is not run. Flaky cases do not count.
func (r Results) Failed() bool {
	run := func(c Case) bool { return c.Status != progress.Skipped }
	done := func(s SuiteResult) bool { return s.Lacks != "" || slices.ContainsFunc(s.Cases, run) }
	return slices.ContainsFunc(r.Suites, SuiteResult.Failed) || !slices.ContainsFunc(r.Suites, done)
}

// Run runs all suites, also after one has failed, and returns what they did. Failing tests are no error: see
// Results.Failed. The error is that of ctx, after which no further suite is begun, or says that a suite could not be
// run for reasons of this machine. The results until then come with it.
func Run(ctx context.Context, o Options) (Results, error) {
	if len(o.Nodes) == 0 && !o.withoutNodes() {
		return Results{}, errors.New("there are no nodes to test")
	}
	r, err := newRunner(o)
	if err != nil {
		return Results{}, err
	}
	defer func() { _ = os.RemoveAll(r.PrivateDir) }()
	var results Results
	var errs []error
	for i, s := range r.suites {
		if ctx.Err() != nil {
			break
		}
		if i > 0 && r.Reset != nil {
			if err := r.Reset(ctx, results.Suites[i-1], s.Name); err != nil {
				errs = append(errs, fmt.Errorf("before suite %s: %w", s.Name, err))
				break
			}
		}
		if r.Now != nil {
			r.Nodes, r.Environment = r.Now()
		}
		result, err := r.run(ctx, s)
		results.Suites = append(results.Suites, result)
		errs = append(errs, err)
	}
	r.judgeQuarantine(ctx, results)
	if ctx.Err() != nil {
		errs = append(errs, fmt.Errorf("%s: %w", r.stopped(len(results.Suites)), context.Cause(ctx)))
	}
	return results, errors.Join(errs...)
}

// stopped says what was stopped after so many suites were begun, and which were not.
func (r *runner) stopped(begun int) string {
	var text string
	var left []string
	for i, s := range r.suites {
		switch {
		case i == begun-1:
			text = "suite " + s.Name + " was stopped"
		case i >= begun:
			left = append(left, s.Name)
		}
	}
	if len(left) == 0 {
		return text
	}
	return strings.TrimPrefix(text+"; not begun: "+strings.Join(left, ", "), "; ")
}

type runner struct {
	Options
	suites []Spec
	known  *progress.Secrets
}

func newRunner(o Options) (*runner, error) {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.GatewayPort = cmp.Or(o.GatewayPort, GatewayPort)
	if o.Sink == nil {
		o.Sink = progress.Discard
	}
	suites, err := withNames(o.Suites)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.ArtifactsDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the results: %w", err)
	}
	if o.PrivateDir == "" {
		if o.PrivateDir, err = os.MkdirTemp("", "hive-test-suite-"); err != nil {
			return nil, fmt.Errorf("making a directory for the AWS profiles: %w", err)
		}
	}
	if o.PrivateDir, err = filepath.Abs(o.PrivateDir); err != nil {
		return nil, err
	}
	r := &runner{Options: o, suites: suites, known: &progress.Secrets{}}
	r.known.Learn(o.Credentials.SecretKey)
	r.known.Learn(o.Secrets...)
	r.learn(r.added())
	for _, s := range suites {
		r.learn(r.owning(s).added())
	}
	r.Sink = progress.Redact(o.Sink, r.known)
	return r, nil
}

// learn makes the values of variables known that look like secrets.
func (r *runner) learn(variables map[string]string) {
	for name, value := range variables {
		if SecretName(name) {
			r.known.Learn(value)
		}
	}
}

// owning is a runner with what a suite has of its own, which is not the next one's.
func (r *runner) owning(s Spec) *runner {
	of := *r
	of.Dir = cmp.Or(s.Dir, r.Dir)
	of.SuiteEnv = slices.Concat(r.SuiteEnv, s.Env)
	return &of
}

func (r *runner) run(ctx context.Context, s Spec) (SuiteResult, error) {
	start := time.Now()
	sink := progress.With(r.Sink, progress.Event{Step: s.Name})
	begin := progress.Event{Kind: progress.StepStart, Suite: s.Name, Message: "suite " + s.Name, Asked: s.Asked}
	if !s.isBuiltin() {
		begin.Command = s.Command
	}
	sink.Emit(begin)
	record := &recorder{suite: s.Name, sink: sink, mask: r.known.Mask}
	result := SuiteResult{Name: s.Name}
	lacks, err := r.lacks(ctx, s)
	switch {
	case err != nil:
		err = fmt.Errorf("finding out whether the cluster has what it needs: %w", err)
	case lacks != "":
		result.Lacks = lacks
		for i, c := range r.lackingCases(s, lacks) {
			record.add(i, "", c)
		}
	default:
		var last ended
		last, err = r.attempts(ctx, s, record)
		result.ExitCode, result.Signal = last.code, last.signal
		result.Lacks = last.lacks
	}
	result.Cases = record.cases()
	result.Seconds = time.Since(start).Seconds()
	sink.Emit(r.ending(ctx, result, err))
	if err != nil {
		err = fmt.Errorf("suite %s: %w", s.Name, err)
	}
	return result, err
}

// withoutNodes reports whether no suite needs a node.
func (o Options) withoutNodes() bool {
	return len(o.Suites) > 0 && !slices.ContainsFunc(o.Suites, func(s Spec) bool { return !s.Builtin })
}

func (r *runner) lacks(ctx context.Context, s Spec) (string, error) {
	if r.Lacks != nil && s.Needs != (Needs{}) {
		if lacks, err := r.Lacks(ctx, s.Needs); lacks != "" || err != nil {
			return lacks, err
		}
	}
	return r.builtinLacks(ctx, s)
}

// lacking is the only case of a suite for which the cluster has not what it needs.
func (r *runner) lacking(s Spec, what string) Case {
	if r.RequireAll {
		return Case{Name: s.Name, Status: progress.Failed, Error: "not run: " + what, whole: true}
	}
	return Case{Name: s.Name, Status: progress.Skipped, Reason: what}
}

// ending is the event that ends a suite.
func (r *runner) ending(ctx context.Context, result SuiteResult, err error) progress.Event {
	end := progress.Event{
		Kind: progress.StepEnd, Suite: result.Name, Status: progress.Passed, Seconds: result.Seconds,
		Message: "suite " + result.Name, Name: result.firstFailed(),
	}
	switch {
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		end.Status, end.Error, end.Problem = endStatus(ctx), cause.Error(), progress.ProblemOf(cause)
	case result.Failed() || err != nil:
		end.Status, end.Error = progress.Failed, summary(result)
	case result.flaky() > 0 && !r.AllowFlaky:
		end.Status, end.Error = progress.Failed, progress.Count(result.flaky(), "case")+" flaky"
	}
	return end
}

// firstFailed returns the name of the first case that failed, as the results list them.
func (s SuiteResult) firstFailed() string {
	if i := slices.IndexFunc(s.Cases, Case.Failed); i >= 0 {
		return s.Cases[i].Name
	}
	return ""
}

// summary says how many cases failed; where the command itself is the only one, it is that one's error, which was told.
func summary(s SuiteResult) string {
	if len(s.Cases) == 1 && s.Cases[0].Name == s.Name && s.Cases[0].Error != "" {
		return s.Cases[0].Error
	}
	failed := 0
	for _, c := range s.Cases {
		if c.Failed() {
			failed++
		}
	}
	return fmt.Sprintf("%d of %s failed", failed, progress.Count(len(s.Cases), "case"))
}
