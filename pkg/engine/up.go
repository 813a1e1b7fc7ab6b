package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
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
	var hive Hive
	var configure string
	outcome, err := e.do(ctx, "up", request.Request, func(s *session) error {
		err := s.provision(
			ctx, request.Allow, nil, func(r *lifecycle.Job) []phase.Entry { return lifecycle.UpOnly(r, s.keep()) },
		)
		if hive = hiveOf(s.Record); s.running != nil {
			hive, configure = afterUp(hive, s.running)
		}
		return err
	})
	outcome.Hive, outcome.Configure = hive, configure
	return outcome, err
}

// afterUp returns what an up has left of hive, and the command that comes next; empty: none.
func afterUp(hive Hive, job *lifecycle.Job) (left Hive, configure string) {
	switch {
	case hive != HiveFormed:
		return hive, job.ConfigureCommand()
	case len(job.Booted) > 0:
		return HiveStopped, lifecycle.StartCommand(job.Record.Name)
	}
	return hive, ""
}

// hiveOf is what a record tells of the hive on its cluster; nil: there is none.
func hiveOf(r *cluster.Record) Hive {
	if r == nil {
		return HiveUnformed
	}
	_, formed := r.Formed()
	switch {
	case !formed:
		return HiveUnformed
	case r.OtherMembers():
		return HiveOthers
	case r.Phases[cluster.PhaseConfigure].Status == cluster.PhaseDone:
		return HiveFormed
	}
	return HiveUnformed
}

// DryRun returns what Up would change. Nothing is locked and nothing is written: neither here nor on a hypervisor.
func (e *Engine) DryRun(ctx context.Context, request UpRequest) (
	record *cluster.Record, reading lifecycle.Reading, outcome Outcome, err error,
) {
	outcome, err = e.do(ctx, "up", request.Request, func(s *session) (err error) {
		reading, err = s.dryRun(ctx, request.Allow)
		record = s.Record
		return err
	})
	return record, reading, outcome, err
}

func (s *session) dryRun(ctx context.Context, allow deploy.Allowed) (lifecycle.Reading, error) {
	if err := s.ready(ctx, nil); err != nil {
		return lifecycle.Reading{}, err
	}
	deployer, err := s.Deployer()
	if err != nil {
		return lifecycle.Reading{}, err
	}
	ctx, cancel := within(ctx, s.Settings.Timeouts.Up, "--timeout-up")
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
func (s *session) provision(
	ctx context.Context, allow deploy.Allowed, check func() error, list func(*lifecycle.Job) []phase.Entry,
) error {
	if problems := placement.ValidateSpec(s.Settings.Spec()); len(problems) > 0 {
		return usage(errors.Join(problems...))
	}
	return s.makeOf(ctx, allow, func(ctx context.Context) error {
		if err := s.adoptOrCreate(ctx); err != nil || check == nil {
			return err
		}
		return check()
	}, list)
}

// makeOf runs phases that make the machines of the record that find finds.
func (s *session) makeOf(
	ctx context.Context, allow deploy.Allowed, find func(context.Context) error, list func(*lifecycle.Job) []phase.Entry,
) error {
	if err := s.checkPlan(); err != nil {
		return err
	}
	root := ctx
	ctx, cancel := s.limited(ctx)
	defer cancel()
	if err := s.hold(ctx); err != nil {
		return err
	}
	release, err := s.holdAddresses(ctx, s.Settings.HostsFile != "") // before it is looked at who has the hosts
	if err != nil {
		return err
	}
	defer func() { release() }()
	if err := find(ctx); err != nil {
		return err
	}
	if err := s.protectFromChange(allow.Replace); err != nil {
		return err
	}
	deployer, err := s.Deployer()
	if err != nil {
		return err
	}
	if s.Makes() {
		if release, err = s.holdAddresses(ctx, s.Record.Spec.Network.Static()); err != nil {
			return err
		}
	}
	if err := s.prepare(ctx, deployer); err != nil {
		return s.cutShort(ctx, err)
	}
	if err := s.begin(); err != nil {
		return err
	}
	if s.Record.Spec.Network.Static() || !s.Makes() {
		if err := s.Store.Save(s.Record); err != nil {
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
	warnings, err := lifecycle.Prepare(ctx, deployer, s.Record, s.before)
	for _, w := range warnings {
		progress.Warn(s.Sink, w.Detail, w.Fix)
	}
	for i := range s.Record.Nodes {
		if s.Record.Nodes[i].SSHPort == 0 {
			s.Record.Nodes[i].SSHPort = cmp.Or(s.Record.Nodes[0].SSHPort, s.NodeSSHPort())
		}
	}
	if err != nil {
		return err
	}
	return s.CheckTools(ctx)
}

// adoptOrCreate takes the record of the cluster if there is one, changed in memory to what is asked for, or makes a new
// one in memory.
func (s *session) adoptOrCreate(ctx context.Context) error {
	if err := s.contradictions(); err != nil {
		return err
	}
	err := s.load()
	if err == nil {
		if err := s.notBuilding(); err != nil {
			return err
		}
		if err := s.sameAsAsked(ctx); err != nil {
			return err
		}
		if err := s.connect(ctx); err != nil {
			return err
		}
		s.Record.KeepFormation(false)
		s.before = s.Record.Clone()
		if err := errors.Join(s.change(), s.protectAsAsked()); err != nil {
			return err
		}
		return s.unusedByChange()
	}
	if !errors.Is(err, state.ErrNotFound) {
		return err
	}
	s.Record = s.newRecord()
	if err := s.protectAsAsked(); err != nil {
		return err
	}
	if s.Settings.HostsFile == "" {
		if err := s.meaningless(s.Settings.Sim); err != nil {
			return err
		}
	}
	if err := s.create(ctx); err != nil {
		return err
	}
	if !s.Makes() {
		return s.meaningless(false)
	}
	return s.unusedImage()
}

// create fills in a record that is new, in memory only.
func (s *session) create(ctx context.Context) error {
	if s.Settings.HostsFile != "" {
		return s.createExisting(ctx)
	}
	if err := s.CheckDeployer(); err != nil {
		return err
	}
	s.jumpAsAsked()
	s.Record.Owner.Expires = expiryAfter(s.started, s.lifetime())
	if err := s.userKey(); err != nil {
		return err
	}
	if err := s.ResolveNew(ctx); err != nil {
		return s.cutShort(ctx, err)
	}
	err := s.findTemplate(ctx)
	if s.Record.Spec.Clone == cluster.CloneAuto { // it is not known that they can be linked
		s.Record.Spec.Clone = ""
	}
	return s.cutShort(ctx, err)
}

// newRecord is the record of a cluster that does not exist.
func (s *session) newRecord() *cluster.Record {
	return &cluster.Record{
		Schema: cluster.RecordSchema, Name: s.Name, Owner: newOwner(s.started), Spec: s.Settings.Spec(),
		SSHKeyPath: s.Store.Path(s.Name, lifecycle.KeyFile), State: s.StateBackend(),
	}
}

// userKey takes the user's own key pair for the nodes if one is named.
func (s *session) userKey() error {
	path := s.Settings.SSHPrivateKeyPath
	if path == "" {
		return nil
	}
	key, public := config.Absolute(path), config.Absolute(s.Settings.SSHPublicKeyPath)
	for _, file := range []string{key, public} {
		if _, err := os.ReadFile(file); err != nil {
			return Error{ExitConfig, progress.WithHint(fmt.Errorf("the SSH key for the nodes cannot be read: %w", err),
				"ssh_private_key_path names a private key, ssh_public_key_path its public half (else the same path with .pub); without them each cluster gets a key of its own")}
		}
	}
	s.Record.SSHKeyPath, s.Record.SSHPublicKeyPath = key, public
	return nil
}
