package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
)

// UpRequest is what Up is asked for.
type UpRequest struct {
	Request
	Allow deploy.Allowed // what a plan may do to VMs that exist
}

// Up makes the VMs of a cluster, or changes them to what is asked for: they exist, their addresses are known, the
// inventory is written.
func (e *Engine) Up(ctx context.Context, request UpRequest) (Outcome, error) {
	return e.do(ctx, "up", request.Request, func(s *session) error {
		return s.provision(ctx, request.Allow, nil, func(r *lifecycle.Job) []phase.Entry { return lifecycle.UpOnly(r, s.keep()) })
	})
}

// DryRun returns what Up would change. Nothing is locked and nothing is written: neither here nor on a hypervisor.
func (e *Engine) DryRun(ctx context.Context, request UpRequest) (record *cluster.Record, reading lifecycle.Reading, outcome Outcome, err error) {
	outcome, err = e.do(ctx, "up", request.Request, func(s *session) (err error) {
		reading, err = s.dryRun(ctx, request.Allow)
		record = s.record
		return err
	})
	return record, reading, outcome, err
}

func (s *session) dryRun(ctx context.Context, allow deploy.Allowed) (lifecycle.Reading, error) {
	if problems := s.settings.Spec().Validate(); len(problems) > 0 {
		return lifecycle.Reading{}, usage(errors.Join(problems...))
	}
	if holder, life := s.store.Holder(s.name); life == state.Alive || life == state.Elsewhere {
		return lifecycle.Reading{}, &state.LockedError{Name: s.name, Holder: holder, Life: life}
	}
	if err := s.adoptOrCreate(ctx); err != nil {
		return lifecycle.Reading{}, err
	}
	deployer, err := s.deployer()
	if err != nil {
		return lifecycle.Reading{}, err
	}
	if err := s.prepare(ctx, deployer); err != nil {
		return lifecycle.Reading{}, err
	}
	ctx, cancel := within(ctx, s.settings.Timeouts.Up, "--timeout-up")
	defer cancel()
	job := s.job(ctx, deployer)
	job.Before, job.Allow = s.before, allow
	reading, err := lifecycle.DryRun(ctx, job)
	if err != nil {
		return reading, Error{ExitUp, err}
	}
	return reading, nil
}

// provision is what up and full share: everything is checked before anything is made, by check (nil: nothing) too.
func (s *session) provision(ctx context.Context, allow deploy.Allowed, check func() error, list func(*lifecycle.Job) []phase.Entry) error {
	if err := checkPlan(s.settings); err != nil {
		return err
	}
	if problems := s.settings.Spec().Validate(); len(problems) > 0 {
		return usage(errors.Join(problems...))
	}
	root := ctx
	ctx, cancel := s.limited(ctx)
	defer cancel()
	if err := s.hold(ctx); err != nil {
		return err
	}
	if err := s.adoptOrCreate(ctx); err != nil {
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	deployer, err := s.deployer()
	if err != nil {
		return err
	}
	release, err := s.holdAddresses(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := s.prepare(ctx, deployer); err != nil {
		return s.timeoutError(ctx, err)
	}
	if err := s.begin(); err != nil {
		return err
	}
	if s.record.Spec.Network.Static() {
		if err := s.store.Save(s.record); err != nil {
			return err
		}
		release()
	}
	r := s.job(root, deployer)
	r.Before, r.Allow = s.before, allow
	return s.phases(ctx, r, list(r))
}

// prepare runs the preflight and says what it doubts.
func (s *session) prepare(ctx context.Context, deployer deploy.Capable) error {
	warnings, err := lifecycle.Prepare(ctx, deployer, s.record)
	for _, w := range warnings {
		s.sink.Emit(progress.Event{Kind: progress.Warning, Message: w.Detail, Hint: w.Fix})
	}
	for i := range s.record.Nodes {
		if s.record.Nodes[i].SSHPort == 0 {
			s.record.Nodes[i].SSHPort = s.nodeSSHPort()
		}
	}
	if err != nil {
		return err
	}
	return s.checkTofu(ctx)
}

// nodeSSHPort is the port of the nodes' SSH servers.
func (s *session) nodeSSHPort() int {
	if s.sim != nil && s.sim.NodeSSHPort != 0 {
		return s.sim.NodeSSHPort
	}
	return s.settings.NodeSSHPort
}

// adoptOrCreate takes the record of the cluster if there is one, changed in memory to what is asked for, or makes a new
// one in memory.
func (s *session) adoptOrCreate(ctx context.Context) error {
	err := s.load()
	if err == nil {
		if err := s.sameAsAsked(ctx); err != nil {
			return err
		}
		if err := s.connect(ctx); err != nil {
			return err
		}
		s.before = s.record.Clone()
		return s.change()
	}
	if !errors.Is(err, state.ErrNotFound) {
		return err
	}
	return s.create(ctx)
}

// sameAsAsked refuses an up that asks for what no cluster can be changed to.
func (s *session) sameAsAsked(ctx context.Context) error {
	var differences []string
	asked, made := s.settings.Spec(), s.record.Spec
	differs := func(key string, asked, made any) {
		if s.settings.Given(key) && asked != made {
			differences = append(differences, fmt.Sprintf("%s is %v, asked for %v", strings.ReplaceAll(key, "_", "-"), made, asked))
		}
	}
	differs("management_bridge", asked.ManagementBridge, made.ManagementBridge)
	differs("data_bridge", asked.DataBridge, made.DataBridge)
	differs("ssh_user", asked.SSHUser, made.SSHUser)
	differs("template", asked.Template, made.Template)
	differs("cloud_init", asked.CloudInit, cmp.Or(made.CloudInit, cluster.CloudInitSnippet))
	differs("network.addresses", asked.Network.Addresses, made.Network.Addresses)
	differs("network.data_addresses", asked.Network.DataAddresses, made.Network.DataAddresses)
	differs("network.gateway", asked.Network.Gateway, made.Network.Gateway)
	if key := s.settings.SSHPrivateKeyPath; s.settings.Given("ssh_private_key_path") && absolute(key) != s.record.SSHKeyPath {
		differences = append(differences, fmt.Sprintf("its SSH key is %s, asked for %s", s.record.SSHKeyPath, key))
	}
	if s.settings.Sim && !s.record.Target.Simulated {
		differences = append(differences, "it is not a simulated cluster")
	}
	if s.settings.HostsFile != "" && s.record.Spec.Deployer != cluster.DeployerExisting {
		differences = append(differences, "it was not made of existing hosts")
	} else if s.settings.HostsFile != "" {
		changes, err := s.compareHosts(ctx)
		if err != nil {
			return err
		}
		differences = append(differences, changes...)
	}
	if len(differences) == 0 {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %q already exists with different settings: %s", s.name, strings.Join(differences, "; ")),
		fmt.Sprintf("`hive-test down %s` first, or take another name", s.name)))
}

// create makes a record, in memory only.
func (s *session) create(ctx context.Context) error {
	s.record = &cluster.Record{Schema: cluster.RecordSchema, Name: s.name, Owner: newOwner(s.started), Spec: s.settings.Spec(), SSHKeyPath: s.store.Path(s.name, lifecycle.KeyFile)}
	if s.settings.HostsFile != "" {
		return s.createExisting(ctx)
	}
	if s.settings.Deployer == cluster.DeployerSimHosts && !s.settings.Sim && !local(s.settings.Proxmox.Endpoint) {
		return usage(progress.WithHint(errors.New("deployer simhosts makes VMs of a simulator only, on this machine"), "add --sim, or leave deployer out"))
	}
	s.jumpAsAsked()
	s.record.Owner.Expires = expiryAfter(s.started, s.lifetime())
	if err := s.userKey(); err != nil {
		return err
	}
	if s.settings.Sim {
		s.record.Target = cluster.Target{Simulated: true, Pool: s.settings.Proxmox.Pool}
		if err := s.connect(ctx); err != nil {
			return err
		}
		s.record.Target.ProviderMirror = s.providerMirror(s.sim.ProviderMirror)
		return nil
	}
	return s.realTarget()
}

// absolute is path from the root, as records keep it; where there is no working directory it stays as it is.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// userKey takes the user's own key pair for the nodes if one is named.
func (s *session) userKey() error {
	path := s.settings.SSHPrivateKeyPath
	if path == "" {
		return nil
	}
	key, public := absolute(path), absolute(s.settings.SSHPublicKeyPath)
	for _, file := range []string{key, public} {
		if _, err := os.ReadFile(file); err != nil {
			return Error{ExitConfig, progress.WithHint(fmt.Errorf("the SSH key for the nodes cannot be read: %w", err),
				"ssh_private_key_path names a private key, ssh_public_key_path its public half (else the same path with .pub); without them each cluster gets a key of its own")}
		}
	}
	s.record.SSHKeyPath, s.record.SSHPublicKeyPath = key, public
	return nil
}

// simulatedTarget fills in where the simulator is now: it may have been started again, on another port, since the
// record was written. Where the user's real Proxmox VE is does not matter here.
func (s *session) simulatedTarget() {
	target := &s.record.Target
	target.SimulatorID, target.Endpoint, target.CAFile = s.sim.ID, s.sim.Endpoint, s.sim.CAFile
	target.HypervisorSSHUser, target.HypervisorSSHKeyPath = s.sim.SSHUser, s.sim.SSHPrivateKey
	s.record.Spec.Hypervisors = s.sim.Hypervisors
	if _, err := os.Stat(s.record.Binary); err != nil {
		s.record.Binary = s.sim.HiveBinary
	}
	if _, err := os.Stat(target.ProviderMirror); target.ProviderMirror != "" && err != nil {
		target.ProviderMirror = s.sim.ProviderMirror
	}
}

// providerMirror is where the provider comes from: the registry, a mirror that the user named, or else the given one.
func (s *session) providerMirror(otherwise string) string {
	switch {
	case s.settings.Provider == "registry":
		return ""
	case s.settings.ProviderMirror != "":
		return absolute(s.settings.ProviderMirror)
	case s.settings.Provider != "" && s.settings.Provider != "auto":
		return absolute(s.settings.Provider)
	}
	return otherwise
}

// realTarget takes where the user's Proxmox VE is from the settings, and says all that is missing at once.
func (s *session) realTarget() error {
	var problems []error
	for _, missing := range s.missingSettings() {
		problems = append(problems, errors.New(missing.Detail))
	}
	if len(problems) > 0 {
		return Error{ExitConfig, progress.WithHint(errors.Join(problems...), "or try it without a Proxmox VE: add --sim")}
	}
	s.fillTarget()
	p := s.settings.Proxmox
	if p.Insecure {
		s.sink.Emit(progress.Event{Kind: progress.Warning, Message: "the certificate of " + p.Endpoint + " is not verified (proxmox.insecure)"})
	}
	return nil
}
