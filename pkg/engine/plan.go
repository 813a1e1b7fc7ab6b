package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/state"
)

// planSchema is the version of the shape of a saved plan.
const planSchema = 1

// SavedPlan is what Up would do to a cluster, as it was planned. Apply does that and nothing else. It holds no secrets.
type SavedPlan struct {
	Schema  int          `json:"schema"`
	Version string       `json:"version"` // of the hive-test that has planned it
	Cluster cluster.Name `json:"cluster"`
	Planned time.Time    `json:"planned"`
	// Basis is a hash of the cluster as it was; empty: there was none.
	Basis string         `json:"basis,omitempty"`
	Allow deploy.Allowed `json:"allow"`
	// Record is the cluster as it is to be, with the VM ids that were chosen.
	Record  *cluster.Record `json:"record"`
	Changes []deploy.Change `json:"changes"`
}

// PlanRequest is what Plan is asked for.
type PlanRequest struct {
	UpRequest
	Out string // the file that gets the plan; empty: that of the cluster, where Apply looks for it
}

// Plan returns what Up would change, and saves it for Apply. Nothing is locked, and nothing else is written: neither here nor on a
// hypervisor.
func (e *Engine) Plan(ctx context.Context, request PlanRequest) (
	record *cluster.Record, reading lifecycle.Reading, path string, outcome Outcome, err error,
) {
	outcome, err = e.do(ctx, "up", request.Request, func(s *session) (err error) {
		if path, err = s.planPath(request.Out); err != nil {
			return err
		}
		ofHosts := usage(progress.WithHint(
			fmt.Errorf("cluster %q is of hosts that are there: of them nothing is planned", s.Name),
			"up makes a cluster of them, and up --dry-run tells what that would do",
		))
		if s.Settings.HostsFile != "" {
			return ofHosts
		}
		if reading, err = s.dryRun(ctx, request.Allow); err != nil {
			return err
		}
		if record = s.Record; !s.Makes() {
			return ofHosts
		}
		return s.savePlan(path, request.Allow, reading.Plan)
	})
	return record, reading, path, outcome, err
}

// planPath is the file of a plan: the one that is named, else that of the cluster.
func (s *session) planPath(named string) (string, error) {
	if named == "" {
		return s.Store.PlanPath(s.Name), nil
	}
	path := config.Absolute(named)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "", usage(fmt.Errorf("the plan cannot be written to %s: it is a directory", named))
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return "", usage(fmt.Errorf("the plan cannot be written: %w", err))
	}
	return path, nil
}

func (s *session) savePlan(path string, allow deploy.Allowed, plan deploy.Plan) error {
	basis, err := s.basis()
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(SavedPlan{
		Schema: planSchema, Version: s.Version, Cluster: s.Name, Planned: s.started, Basis: basis, Allow: allow, Record: s.Record,
		Changes: append([]deploy.Change{}, plan.Changes...),
	}, "", "  ")
	if err != nil {
		return err
	}
	if path == s.Store.PlanPath(s.Name) {
		return s.Store.SavePlan(s.Name, raw)
	}
	if err := renameio.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		return Error{ExitConfig, fmt.Errorf("writing the plan: %w", err)}
	}
	return nil
}

// basis is a hash of the cluster as it is recorded; empty: it does not exist.
func (s *session) basis() (string, error) {
	record, err := s.Store.Load(s.Name)
	if errors.Is(err, state.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", s.explainRecord(err)
	}
	return wantedOf(record), nil
}

// wantedOf is a hash of what a record wants to exist.
func wantedOf(r *cluster.Record) string { return cluster.Hash(r.Owner, lifecycle.UpInputs(r)) }

// Apply does what Plan has saved, and nothing else: where the cluster, or what would be done, is not as it was planned, nothing is
// done. Path is the file of the plan; empty: that of the cluster.
func (e *Engine) Apply(ctx context.Context, request Request, path string) (Outcome, error) {
	var configure string
	hive := HiveUnformed
	outcome, err := e.do(ctx, "apply", request, func(s *session) error {
		if path == "" {
			path = s.Store.PlanPath(s.Name)
		}
		plan, err := readPlan(path, s.Name)
		if err == nil {
			err = plan.check()
		}
		if err != nil {
			return err
		}
		err = s.makeOf(ctx, plan.Allow, func(ctx context.Context) error { return s.adoptPlan(ctx, plan) }, func(r *lifecycle.Job) []phase.Entry {
			r.Judge = plan.judge
			return lifecycle.UpOnly(r, s.keep())
		})
		if hive = hiveOf(s.Record); s.running != nil {
			hive, configure = afterUp(hive, s.running)
		}
		if err == nil && path == s.Store.PlanPath(s.Name) {
			err = os.Remove(path)
		}
		return err
	})
	outcome.Hive, outcome.Configure = hive, configure
	return outcome, err
}

// provisions reports whether this run makes or changes VMs and nothing else.
func (s *session) provisions() bool { return s.verb == string(cluster.PhaseUp) || s.verb == "apply" }

// readPlan reads a plan that was saved of the cluster of that name.
func readPlan(path string, name cluster.Name) (SavedPlan, error) {
	var plan SavedPlan
	again := fmt.Sprintf("hive-test plan %s makes one", name)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return plan, usage(progress.WithHint(fmt.Errorf("there is no plan of cluster %q: %s does not exist", name, path), again))
	}
	if err != nil {
		return plan, Error{ExitConfig, fmt.Errorf("reading the plan: %w", err)}
	}
	problem := ""
	switch err := json.Unmarshal(raw, &plan); {
	case err != nil:
		problem = err.Error()
	case plan.Schema > planSchema:
		problem = fmt.Sprintf("hive-test %s has written it, which is newer than this one", plan.Version)
	case plan.Schema != planSchema || plan.Record == nil || len(plan.Record.Nodes) == 0:
		problem = "it lacks what a plan has"
	case plan.Cluster != plan.Record.Name:
		problem = fmt.Sprintf("its record is that of cluster %q", plan.Record.Name)
	}
	if problem != "" {
		return plan, Error{ExitConfig, progress.WithHint(fmt.Errorf("%s is no plan that can be applied: %s", path, problem), again)}
	}
	if plan.Cluster != name {
		return plan, usage(progress.WithHint(
			fmt.Errorf("%s is a plan of cluster %q, not of %q", path, plan.Cluster, name), fmt.Sprintf("hive-test apply %s --plan %s applies it", plan.Cluster, remote.Quote(path)),
		))
	}
	return plan, nil
}

// StalePlanError says that something is not as it was planned any more. Nothing was done.
type StalePlanError struct {
	Cluster cluster.Name
	Planned time.Time
	Why     string
	Next    string // the command that comes next
}

// Error says what is other than planned.
func (e *StalePlanError) Error() string {
	return fmt.Sprintf("the plan of cluster %q, made at %s, is stale: %s; nothing was changed",
		e.Cluster, e.Planned.Local().Format(time.DateTime), e.Why)
}

// Code returns the kind of problem.
func (e *StalePlanError) Code() string { return "stale-plan" }

// Hint says how to go on.
func (e *StalePlanError) Hint() string { return e.Next }

// check fails where the plan would be refused, as it was when it was made.
func (p SavedPlan) check() error {
	request := deploy.Request{Allow: p.Allow, Leaving: p.Record.Leaving().Names()}
	refused := request.Refused(deploy.Plan{Changes: p.Changes})
	if len(refused) == 0 {
		return nil
	}
	flags := []string{}
	for _, c := range refused {
		if flag := request.Needs(c); !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	return Error{ExitUp, progress.WithHint(&deploy.RefusedError{Changes: refused},
		fmt.Sprintf("undo what differs; or hive-test plan %s %s plans that", p.Cluster, strings.Join(flags, " ")))}
}

func (p SavedPlan) stale(why string) *StalePlanError {
	return &StalePlanError{
		Cluster: p.Cluster, Planned: p.Planned, Why: why, Next: fmt.Sprintf("hive-test plan %s makes another", p.Cluster),
	}
}

// adoptPlan takes the record of the cluster, changed in memory to what was planned, or that of the plan for one that is new.
func (s *session) adoptPlan(ctx context.Context, plan SavedPlan) error {
	err := s.load()
	switch {
	case err == nil:
		err = s.adoptChange(plan)
	case errors.Is(err, state.ErrNotFound):
		err = s.adoptNew(plan)
	}
	if err != nil {
		return err
	}
	return s.connect(ctx)
}

// adoptChange changes the cluster that is there.
func (s *session) adoptChange(plan SavedPlan) error {
	switch wantedOf(s.Record) {
	case plan.Basis:
	case wantedOf(plan.Record):
		stale := plan.stale("it was applied already")
		stale.Next = fmt.Sprintf("hive-test up %s makes what is missing", s.Name)
		return Error{ExitUp, stale}
	default:
		return Error{ExitUp, plan.stale("the cluster was changed since")}
	}
	s.before = s.Record.Clone()
	s.Record.Owner, s.Record.Spec = plan.Record.Owner, plan.Record.Spec
	s.Record.Nodes = append(s.Record.Nodes, plan.Record.Nodes[min(len(s.Record.Nodes), len(plan.Record.Nodes)):]...)
	s.Record.KeepFormation(false)
	return nil
}

// adoptNew takes the cluster that was planned, which is new.
func (s *session) adoptNew(plan SavedPlan) error {
	if plan.Basis != "" {
		return Error{ExitUp, plan.stale("the cluster is gone since")}
	}
	if expires := plan.Record.Owner.Expires; !expires.IsZero() && !expires.After(s.started) {
		return Error{ExitUp, plan.stale("the cluster would have expired at " + expires.Local().Format(time.DateTime))}
	}
	s.Record = plan.Record.Clone()
	if own := s.Store.Path(s.Name, lifecycle.KeyFile); s.Record.SSHPublicKeyPath == "" && filepath.Base(s.Record.SSHKeyPath) == lifecycle.KeyFile {
		s.Record.SSHKeyPath = own // the plan may be of another clusters directory
	}
	return nil
}

// judge fails where what would be done is not what was planned.
func (p SavedPlan) judge(now deploy.Plan) error {
	planned, asked := map[string]string{}, map[string]string{}
	for _, c := range p.Changes {
		planned[c.Address] = c.String()
	}
	for _, c := range now.Changes {
		asked[c.Address] = c.String()
	}
	for _, c := range now.Changes {
		if was, known := planned[c.Address]; !known {
			return p.stale("it would also " + c.String())
		} else if was != c.String() {
			return p.stale("it would " + c.String() + " now")
		}
	}
	for _, c := range p.Changes {
		if _, there := asked[c.Address]; !there {
			return p.stale("there is no need any more to " + c.String())
		}
	}
	return nil
}
