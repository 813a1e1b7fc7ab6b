// Package provision makes and removes a cluster's VMs on Proxmox VE with the module of tofu/, which OpenTofu or
// Terraform runs.
package provision

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
	module "hive-test/tofu"
)

// Options are what stays the same for all clusters.
type Options struct {
	// Tofu is how OpenTofu is run. What follows from the module and from Proxmox VE is filled in here.
	Tofu opentofu.Options
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
	// socket is SSHAgent, or that of SSH_AUTH_SOCK in Tofu.Env.
	SSHUser, SSHPrivateKeyPath, SSHAgent string
}

// Provisioner makes and removes VMs. It is safe for concurrent use on different clusters.
type Provisioner struct {
	options Options
}

// New returns a Provisioner. It touches nothing.
func New(o Options) *Provisioner {
	if o.Tofu.Sink == nil {
		o.Tofu.Sink = progress.Discard
	}
	return &Provisioner{options: o}
}

// provider is what the module pins.
func provider() opentofu.Provider {
	return opentofu.Provider{Source: module.ProviderSource, Version: module.ProviderVersion}
}

// CheckMirror returns an *opentofu.MirrorError if a mirror does not hold the provider for programs of this flavor.
func CheckMirror(mirror, flavor string) error { return provider().CheckMirror(mirror, flavor) }

// runner is what runs the module, with a CA that is asked for when it does.
func (p *Provisioner) runner(ca func(context.Context) string) *opentofu.Runner {
	o := p.options.Tofu
	o.Module, o.Provider, o.NodeOf, o.StateOf, o.Explain = module.Files, provider(), nodeOf, stateOf, p.failure
	o.Observed = seen
	o.Environment = func(ctx context.Context, dir string) (opentofu.Environment, error) {
		return p.environment(dir, ca(ctx))
	}
	return opentofu.New(o)
}

// begin makes ready what runs the module in a cluster's directory.
func (p *Provisioner) begin(ctx context.Context, dir string) (*opentofu.Runner, *opentofu.Run, error) {
	p.warnOfKeychain()
	tofu := p.runner(p.ca)
	run, err := tofu.Begin(ctx, dir)
	return tofu, run, err
}

func (p *Provisioner) warnOfKeychain() {
	if p.options.CAFile != "" && !p.options.Insecure && runtime.GOOS == "darwin" {
		p.options.Tofu.Sink.Emit(progress.Event{
			Time: time.Now().UTC(), Kind: progress.Warning,
			Message: "on macOS the provider trusts the keychain only",
			Hint:    "add the CA to the keychain: " + p.options.CAFile,
		})
	}
}

// Plan returns what Up would do. Nothing is written below the cluster's directory.
func (p *Provisioner) Plan(ctx context.Context, request deploy.Request) (deploy.Plan, error) {
	made, err := opentofu.ReadState(opentofu.StatePath(request.Dir))
	if err != nil {
		return deploy.Plan{}, contract(err)
	}
	v, err := newVariables(request, p.options.Endpoint)
	if err != nil {
		return deploy.Plan{}, err
	}
	p.warnOfKeychain()
	plan, err := p.runner(p.ca).Preview(ctx, request.Dir, v)
	return planOf(plan, made), contract(err)
}

// PlanText shows the plan that the last Up has left, without asking anybody for a certificate.
func (p *Provisioner) PlanText(ctx context.Context, request deploy.Request) (string, error) {
	text, err := p.runner(func(context.Context) string { return p.options.CAFile }).Show(ctx, request.Dir)
	return text, contract(err)
}

// Ready makes a cluster's directory ready for OpenTofu, writes a state that an earlier run could not write to its backend, and returns
// the directory that OpenTofu works in.
func (p *Provisioner) Ready(ctx context.Context, dir string) (string, error) {
	_, run, err := p.begin(ctx, dir)
	if err != nil {
		return "", contract(err)
	}
	run.Close()
	return run.Dir(), nil
}

// Validate returns what OpenTofu, with the provider that is installed, finds wrong with the module in a cluster's directory.
func (p *Provisioner) Validate(ctx context.Context, dir string) ([]deploy.Problem, error) {
	_, run, err := p.begin(ctx, dir)
	if err != nil {
		return nil, contract(err)
	}
	defer run.Close()
	found, err := run.Validate(ctx)
	return problems(found), contract(err)
}

// Unformatted returns the files of the module in a cluster's directory that are not written as OpenTofu formats them.
func (p *Provisioner) Unformatted(ctx context.Context, dir string) ([]string, error) {
	_, run, err := p.begin(ctx, dir)
	if err != nil {
		return nil, contract(err)
	}
	defer run.Close()
	files, err := run.Unformatted(ctx)
	return files, contract(err)
}

// Up makes the VMs exist as asked for.
func (p *Provisioner) Up(ctx context.Context, request deploy.Request) (deploy.Result, error) {
	opentofu.EndOrphans(ctx, p.options.Tofu.OwnerID, p.options.Tofu.Sink)
	tofu, run, err := p.begin(ctx, request.Dir)
	if err != nil {
		return deploy.Result{}, contract(err)
	}
	defer run.Close()
	result := deploy.Result{Seconds: run.Seconds}
	lists := map[deploy.Action]*[]string{
		deploy.Create: &result.Created, deploy.Update: &result.Updated, deploy.Delete: &result.Deleted,
	}
	// What a try could not complete is planned and applied again, after everything was looked at anew.
	err = tofu.Retry(ctx, passing, func() error {
		done, err := p.up(ctx, run, request)
		for _, c := range done {
			if list := lists[deploy.Action(c.Action)]; c.Type == vmType && list != nil {
				*list = deploy.SortNodes(append(*list, nodeOf(c.Address)))
			}
		}
		return err
	})
	_, result.Changed = run.Seconds["apply"] // it was begun
	return result, contract(complete(err, request))
}

// up is one try: plan, judge, apply.
func (p *Provisioner) up(ctx context.Context, run *opentofu.Run, request deploy.Request) ([]opentofu.Change, error) {
	v, err := newVariables(request, p.options.Endpoint)
	if err != nil {
		return nil, err
	}
	made, err := opentofu.ReadState(opentofu.StatePath(request.Dir))
	if err != nil {
		return nil, err
	}
	next, err := run.Plan(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := request.Admit(ctx, planOf(next, made)); err != nil {
		return nil, err
	}
	return run.Apply(ctx, next)
}

// Down removes everything that the state holds.
func (p *Provisioner) Down(ctx context.Context, request deploy.Request) error {
	sink := p.options.Tofu.Sink
	opentofu.EndOrphans(ctx, p.options.Tofu.OwnerID, sink)
	state := opentofu.StatePath(request.Dir)
	made, err := opentofu.ReadState(state)
	// What is here of a state in a backend is a copy, and one that is empty may be locked by a run that was killed: destroying unlocks it.
	if remote := p.options.Tofu.Backend.Remote(); !remote && (err != nil || len(made) == 0) {
		return contract(err)
	}
	tofu, run, err := p.begin(ctx, request.Dir)
	if err != nil {
		return contract(err)
	}
	defer run.Close()
	v, err := p.lastVariables(request)
	if err != nil {
		return fmt.Errorf("%w: read what the cluster was made with: %w", deploy.ErrUnusable, err)
	}
	// Without a refresh, neither a dead guest agent nor a lost right to look can hold up the removal. But the provider
	// fails on a VM that is gone already; what is gone is found by a refresh, after which the rest can go.
	err = tofu.Retry(ctx, passing, func() error {
		err := run.Destroy(ctx, v, request.Refresh)
		if !request.Refresh && gone(err) {
			sink.Emit(progress.Event{
				Kind: progress.Info, Message: "some VMs are gone already: destroying what is left",
			})
			err = run.Destroy(ctx, v, true)
		}
		return err
	})
	if err != nil {
		return contract(err)
	}
	left, err := opentofu.ReadState(state)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("destroy ended well, yet the state still holds %d resources: repeat it", len(left))
	}
	return contract(err)
}

// gone reports whether a destroy failed on something that does not exist any more (PVE: "Configuration file ... does
// not exist", HTTP 500).
func gone(err error) bool {
	failure, ok := errors.AsType[*deploy.Failure](err)
	return ok && slices.ContainsFunc(failure.Problems, func(p deploy.Problem) bool {
		return strings.Contains(p.Summary, "does not exist")
	})
}

// lastVariables are those that the cluster was made with, with how Proxmox VE is reached today.
func (p *Provisioner) lastVariables(request deploy.Request) (variables, error) {
	v, err := readVariables(opentofu.VariablesPath(request.Dir))
	if err != nil { // what they were follows from the request, where that has nodes
		v, err = newVariables(request, p.options.Endpoint)
	}
	if p.options.Endpoint != "" {
		v.Endpoint = p.options.Endpoint
	}
	if len(placement.Hypervisors(request.Spec)) > 0 {
		v.Hypervisors = hypervisorVariables(placement.Hypervisors(request.Spec))
	}
	return v, err
}

// complete adds to a failure which nodes are not complete, and where those are that it is about.
func complete(err error, request deploy.Request) error {
	failure, ok := errors.AsType[*deploy.Failure](err)
	if !ok {
		return err
	}
	made, stateErr := opentofu.ReadState(opentofu.StatePath(request.Dir))
	if stateErr != nil {
		return errors.Join(err, stateErr)
	}
	for i := range failure.Problems {
		failure.Problems[i].Hint = placed(failure.Problems[i], request.Nodes)
	}
	for _, node := range request.Nodes {
		if !slices.ContainsFunc(made, func(r opentofu.Resource) bool {
			return r.Type == vmType && r.Key == node.Name && !r.Tainted
		}) {
			failure.Missing = append(failure.Missing, node.Name)
		}
	}
	return err
}

// placed is a problem's hint with the hypervisor's name in it, where all its nodes are on one.
func placed(p deploy.Problem, nodes cluster.Nodes) string {
	var hosts []string
	for _, node := range nodes {
		at := placement.Of(node)
		if slices.Contains(p.Nodes, node.Name) && !slices.Contains(hosts, at.Hypervisor) {
			hosts = append(hosts, at.Hypervisor)
		}
	}
	if len(hosts) != 1 {
		return p.Hint
	}
	return strings.ReplaceAll(p.Hint, "that hypervisor", hosts[0])
}

// contract makes errors of OpenTofu match those of deploy. Their text stays.
func contract(err error) error {
	switch {
	case errors.Is(err, opentofu.ErrUnusable):
		return alsoError{err, deploy.ErrUnusable}
	case errors.Is(err, opentofu.ErrKilled):
		return alsoError{err, deploy.ErrKilled}
	}
	return err
}

// alsoError is an error that matches another one besides.
type alsoError struct {
	error
	also error
}

// Unwrap returns both.
func (e alsoError) Unwrap() []error { return []error{e.error, e.also} }
