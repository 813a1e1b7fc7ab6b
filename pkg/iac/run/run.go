// Package run lets Terraform's AWS provider make, change and delete the stacks of pkg/iac/stacks at an EC2 endpoint, through a
// proxy that keeps what it asks for, and says of each step what came of it.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/iac"
	"hive-test/pkg/iac/stacks"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/phase"
)

const (
	// findTime bounds the search for tofu, which may be a download, and initTime that for the provider.
	findTime = 2 * time.Minute
	initTime = 5 * time.Minute
	// stepTime bounds every other step: the provider itself waits for some states as long as that.
	stepTime = 15 * time.Minute
	// destroyTime bounds the destroy: what it has not deleted by then, calls of our own do.
	destroyTime = 10 * time.Minute
	// sweepTime bounds the deletion of what is left of a stack.
	sweepTime = 90 * time.Second
	// closeTime bounds the wait for calls that are being made when all is over.
	closeTime = 5 * time.Second
)

// CallsFile is the record of all calls, a line of JSON each, among the artifacts; tofu's log is beside it.
const (
	CallsFile = "calls.jsonl"
	logFile   = "tofu.log"
)

// Options say what is tried, and with what.
type Options struct {
	Endpoint iac.Endpoint
	// Tofu says where programs and providers come from, and who runs them: Find, Env, ProviderMirror, CacheDir. The rest is
	// set here.
	Tofu opentofu.Options
	// Artifacts is a directory for what is kept, and Private one for what is not. Both exist.
	Artifacts, Private string
}

// Teller is told of cases.
type Teller interface {
	// Wanted reports whether a case was asked for.
	Wanted(name string) bool
	// Try runs a case and reports whether it passed.
	Try(ctx context.Context, name string, test func(context.Context) error) bool
	// Skip tells of a case that is of no use after another has failed, Lack of one for which something is missing.
	Skip(name, why string)
	Lack(name, what string)
	Info(message string)
	Warn(message string)
}

// Steps of a stack, in order. The last two are done whatever came of those before them.
const (
	stepInit    = "init"
	stepPlan    = "plan"
	stepApply   = "apply"
	stepVerify  = "verify"
	stepNoDiff  = "no-diff"
	stepUpdate  = "update"
	stepAfter   = "no-diff-after-update"
	stepDestroy = "destroy"
	stepGone    = "gone"
)

// Cases returns the names of all cases, in the order in which they run.
func Cases() []string {
	var names []string
	for _, stack := range stacks.All() {
		for _, step := range []string{
			stepInit, stepPlan, stepApply, stepVerify, stepNoDiff, stepUpdate, stepAfter, stepDestroy, stepGone,
		} {
			names = append(names, stack.Name+"/"+step)
		}
	}
	return names
}

// provider is what stacks need. Whichever version there is does.
func provider() opentofu.Provider { return opentofu.Provider{Source: "hashicorp/aws"} }

// Lacks returns what is missing for stacks to be run with: a program, or the provider. Empty: nothing. It takes seconds where
// no network can be reached.
func (o Options) Lacks(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	binary, err := opentofu.Find(ctx, o.Tofu.Find)
	if missing, ok := errors.AsType[*opentofu.NotFoundError](err); ok {
		return "there is neither OpenTofu nor Terraform: " + missing.Hint(), nil
	}
	if err != nil {
		return "", err
	}
	const hint = "name a directory that holds hashicorp/aws: --provider-mirror or HIVE_TEST_PROVIDER_MIRROR"
	if mirror := o.Tofu.ProviderMirror; mirror != "" {
		err := provider().CheckMirror(mirror, binary.Flavor)
		if missing, ok := errors.AsType[*opentofu.MirrorError](err); ok {
			return fmt.Sprintf("there is no AWS provider: %v: %s", missing, hint), nil
		}
		return "", err
	}
	if opentofu.InstallationConfig(o.Tofu.Env, binary.Flavor) != "" {
		return "", nil // init will tell
	}
	if err := opentofu.RegistryOf(binary.Flavor).Check(ctx); err != nil {
		return fmt.Sprintf("there is no AWS provider: %v: %s", err, hint), nil
	}
	return "", nil
}

// Run runs what is wanted of all stacks, one after another, and deletes what they have made, also when ctx ends. The error
// is of this machine.
func Run(ctx context.Context, o Options, t Teller) error {
	record, err := newRecord(filepath.Join(o.Artifacts, CallsFile))
	if err != nil {
		return err
	}
	proxy, err := startProxy(o.Endpoint, record)
	if err != nil {
		return errors.Join(err, record.close())
	}
	suite := &suiteRun{Options: o, t: t, record: record, proxy: proxy, client: client{o.Endpoint}, name: "hive-test-iac-" + random(4)}
	for _, stack := range stacks.All() {
		if ctx.Err() != nil {
			break
		}
		if err = suite.stack(ctx, stack); err != nil {
			break
		}
	}
	closing, cancel := phase.After(ctx, closeTime, errors.New("calls did not end"))
	defer cancel()
	return errors.Join(err, proxy.close(closing), record.close())
}

// suiteRun is one run of all stacks.
type suiteRun struct {
	Options
	t      Teller
	record *record
	proxy  *proxy
	client client
	name   string // of this run, with which all names begin
	lock   []byte // the lock file of the first init: all stacks run the same provider
}

// stack runs what is wanted of one. The error is of this machine.
func (r *suiteRun) stack(ctx context.Context, stack stacks.Stack) error {
	s := &stackRun{suiteRun: r, stack: stack, name: r.name + "-" + stack.Name, dir: filepath.Join(r.Private, "stacks", stack.Name)}
	last := s.lastWanted()
	if last < 0 {
		return nil
	}
	if stack.NeedsImage {
		r.record.at(stack.Name, "choose")
		lacks, err := s.chooseImage(ctx)
		if err == nil && lacks != "" {
			s.lack(lacks)
			return nil
		} // an endpoint that cannot tell fails by the provider's own calls, which are the same
	}
	r.t.Info("stack " + stack.Name)
	if err := s.prepare(); err != nil {
		return err
	}
	defer s.close()
	s.run(ctx, last)
	return nil
}

// files writes the stack's files for tofu, and among the artifacts, where they can be looked at and run by hand.
func (s *stackRun) files() (module string, err error) {
	all, err := s.stack.Files()
	if err != nil {
		return "", err
	}
	kept := filepath.Join(s.Artifacts, "stacks", s.stack.Name)
	module = filepath.Join(s.dir, "module")
	if err := errors.Join(os.MkdirAll(kept, 0o700), os.MkdirAll(module, 0o700)); err != nil {
		return "", err
	}
	for name, content := range all {
		err = errors.Join(err, os.WriteFile(filepath.Join(kept, name), content, 0o600),
			os.WriteFile(filepath.Join(module, name), content, 0o600))
	}
	// Where the state is is ours to say, and not the user's concern.
	backend := []byte("terraform {\n  backend \"local\" {}\n}\n")
	return module, errors.Join(err, os.WriteFile(filepath.Join(module, "backend.tf"), backend, 0o600))
}

// prepare makes what runs tofu for the stack.
func (s *stackRun) prepare() error {
	module, err := s.files()
	if err != nil {
		return fmt.Errorf("writing the stack: %w", err)
	}
	tofu := filepath.Join(s.dir, "tofu")
	if err := os.MkdirAll(tofu, 0o700); err != nil {
		return err
	}
	if s.lock != nil {
		if err := os.WriteFile(filepath.Join(tofu, lockName), s.lock, 0o600); err != nil {
			return err
		}
	}
	o := s.Tofu
	o.Module, o.Provider, o.OwnerID = os.DirFS(module), provider(), s.suiteRun.name
	o.LogPath, o.Environment = filepath.Join(s.Artifacts, logFile), s.environment
	s.tofu = opentofu.New(o)
	return nil
}

// lockName is what the programs call their lock file.
const lockName = ".terraform.lock.hcl"

// environment is what tofu and the provider are told. The keys are good for the proxy alone.
func (s *stackRun) environment(context.Context, string) (opentofu.Environment, error) {
	key := s.proxy.key
	return opentofu.Environment{
		Variables: map[string]string{
			"AWS_ACCESS_KEY_ID": key.AccessKey, "AWS_SECRET_ACCESS_KEY": key.SecretKey, "AWS_REGION": key.Region,
			"AWS_EC2_METADATA_DISABLED": "true",
		},
		Secrets: []string{key.SecretKey},
	}, nil
}

// lack tells that something is missing for all wanted cases of the stack.
func (s *stackRun) lack(what string) {
	for _, name := range Cases() {
		if strings.HasPrefix(name, s.stack.Name+"/") && s.t.Wanted(name) {
			s.t.Lack(name, what)
		}
	}
}

// lastWanted is the last step but for those that are always done of which a case is wanted; -1: none of the stack is.
func (s *stackRun) lastWanted() int {
	last, apply := -1, -1
	for i, step := range s.steps() {
		if step.name == stepApply {
			apply = i
		}
		if s.t.Wanted(s.caseOf(step.name)) {
			last = i
		}
	}
	if last < 0 && slices.ContainsFunc([]string{stepDestroy, stepGone}, func(step string) bool { return s.t.Wanted(s.caseOf(step)) }) {
		last = apply
	}
	return last
}

func (s *stackRun) caseOf(step string) string { return s.stack.Name + "/" + step }
