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
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// Smoke is the name of the built-in suite.
const Smoke = "smoke"

// GatewayPort is where every node answers AWS calls.
const GatewayPort = 9999

// Defaults of Options.
const (
	DefaultRequestTimeout = 15 * time.Second
	DefaultGrace          = 10 * time.Second
)

// Options say what is run against which cluster.
type Options struct {
	// Suites are Smoke and external command lines for bash, run one after another in this order; none: Smoke.
	Suites []string
	// Nodes are the cluster's nodes in index order, with their management addresses.
	Nodes       cluster.Nodes
	Credentials Credentials
	// Now tells, before each suite, where the nodes are by then, and the Environment that belongs to it. Nil: where
	// they were.
	Now func() (cluster.Nodes, map[string]string)
	// Health tells what is known of all nodes now, for smoke. Nil: the health and peers cases are left out.
	Health func(context.Context) []NodeHealth
	// ArtifactsDir is a directory of this run. Each suite gets one of its own below it, emptied first.
	ArtifactsDir string
	// On tells, before each external suite, the node that it is to be run on. Nil: this machine.
	On func(context.Context) (*Node, error)
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
	Name     string  `json:"name"`
	Cases    []Case  `json:"cases"`
	ExitCode int     `json:"exit_code"`
	Signal   string  `json:"signal,omitempty"`
	Seconds  float64 `json:"seconds"`
}

// Case is one test case.
type Case struct {
	Name    string          `json:"name"`
	Status  progress.Status `json:"status"`
	Seconds float64         `json:"seconds"`
	Error   string          `json:"error,omitempty"`
	Output  string          `json:"output,omitempty"` // the end of what it printed, if it did not pass
}

// Failed says whether the case ran and did not pass.
func (c Case) Failed() bool { return c.Status.Bad() }

// Failed says whether a case or a command failed.
func (s SuiteResult) Failed() bool {
	return s.ExitCode != 0 || s.Signal != "" || slices.ContainsFunc(s.Cases, Case.Failed)
}

// Failed says whether any suite failed, or no case was run at all: a skipped case is not run.
func (r Results) Failed() bool {
	run := func(c Case) bool { return c.Status != progress.Skipped }
	return slices.ContainsFunc(r.Suites, SuiteResult.Failed) ||
		!slices.ContainsFunc(r.Suites, func(s SuiteResult) bool { return slices.ContainsFunc(s.Cases, run) })
}

// Run runs all suites, also after one has failed, and returns what they did. Failing tests are no error: see
// Results.Failed. The error is that of ctx, after which no further suite is begun, or says that a suite could not be
// run for reasons of this machine. The results until then come with it.
func Run(ctx context.Context, o Options) (Results, error) {
	if len(o.Nodes) == 0 {
		return Results{}, errors.New("there are no nodes to test")
	}
	r, err := newRunner(o)
	if err != nil {
		return Results{}, err
	}
	defer func() { _ = os.RemoveAll(r.PrivateDir) }()
	var results Results
	var errs []error
	for _, s := range r.suites {
		if ctx.Err() != nil {
			break
		}
		if r.Now != nil {
			r.Nodes, r.Environment = r.Now()
		}
		result, err := r.run(ctx, s)
		results.Suites = append(results.Suites, result)
		errs = append(errs, err)
	}
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
			text = "suite " + s.name + " was stopped"
		case i >= begun:
			left = append(left, s.name)
		}
	}
	if len(left) == 0 {
		return text
	}
	return strings.TrimPrefix(text+"; not begun: "+strings.Join(left, ", "), "; ")
}

// plan is a suite to be run.
type plan struct {
	name, command string // no command: the built-in suite
}

type runner struct {
	Options
	suites []plan
	known  progress.Secrets
}

func newRunner(o Options) (*runner, error) {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.GatewayPort = cmp.Or(o.GatewayPort, GatewayPort)
	if o.Sink == nil {
		o.Sink = progress.Discard
	}
	suites, err := plans(o.Suites)
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
	r := &runner{Options: o, suites: suites}
	r.known.Learn(o.Credentials.SecretKey)
	r.known.Learn(o.Secrets...)
	for name, value := range r.added() {
		if secretName.MatchString(name) {
			r.known.Learn(value)
		}
	}
	r.Sink = progress.Redact(o.Sink, &r.known)
	return r, nil
}

// plans names the suites: each name is one path element, and no two are alike.
func plans(suites []string) ([]plan, error) {
	if len(suites) == 0 {
		suites = []string{Smoke}
	}
	taken := map[string]bool{}
	all := make([]plan, len(suites))
	for i, s := range suites {
		if strings.TrimSpace(s) == "" {
			return nil, errors.New("a suite is empty: give smoke or a command line")
		}
		p := plan{name: Smoke}
		if s != Smoke {
			p = plan{name: commandName(s), command: s}
		}
		base := p.name
		for n := 2; taken[p.name]; n++ {
			p.name = base + "-" + strconv.Itoa(n)
		}
		taken[p.name] = true
		all[i] = p
	}
	return all, nil
}

func (r *runner) run(ctx context.Context, p plan) (SuiteResult, error) {
	start := time.Now()
	sink := progress.With(r.Sink, progress.Event{Step: p.name})
	sink.Emit(progress.Event{
		Kind: progress.StepStart, Suite: p.name, Message: "suite " + p.name, Command: p.command,
	})
	record := &recorder{suite: p.name, sink: sink, mask: r.known.Mask}
	result := SuiteResult{Name: p.name}
	var err error
	if p.command == "" {
		r.smoke(ctx, record)
	} else {
		result.ExitCode, result.Signal, err = r.external(ctx, p, record)
	}
	result.Cases = record.cases()
	result.Seconds = time.Since(start).Seconds()
	end := progress.Event{
		Kind: progress.StepEnd, Suite: p.name, Status: progress.Passed, Seconds: result.Seconds,
		Message: "suite " + p.name, Name: result.firstFailed(),
	}
	switch {
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		end.Status, end.Error, end.Problem = endStatus(ctx), cause.Error(), progress.ProblemOf(cause)
	case result.Failed() || err != nil:
		end.Status, end.Error = progress.Failed, summary(result)
	}
	sink.Emit(end)
	if err != nil {
		err = fmt.Errorf("suite %s: %w", p.name, err)
	}
	return result, err
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
