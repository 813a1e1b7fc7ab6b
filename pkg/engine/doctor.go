package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// doctorLimit is when doctor stops asking where --timeout does not say so. Before, at doctorGoal, it says what it waits
// for.
const (
	doctorLimit = 2 * time.Minute
	doctorGoal  = 5 * time.Second
)

// Checkup is what Doctor has found.
type Checkup struct {
	OK       bool // nothing failed
	Findings []deploy.Finding
}

// Doctor checks everything that is known to make Up fail, and changes nothing: for a cluster that exists or will be
// made by that name; for any where the request names none.
func (e *Engine) Doctor(ctx context.Context, request Request) (Checkup, error) {
	if request.Settings.HostsFile != "" {
		return Checkup{},
			usage(errors.New("doctor looks at Proxmox VE: whether the hosts of a hosts file can be used, up finds out"))
	}
	s, err := e.open(ctx, "doctor", request.named("doctor"))
	if err != nil {
		return Checkup{}, err
	}
	defer s.close()
	findings, err := s.examine(ctx, request.Name != "")
	if err != nil {
		return Checkup{}, err
	}
	for i := range findings {
		findings[i].Fix = e.Advise(findings[i].Fix)
	}
	checkup := Checkup{OK: len(deploy.Failed(findings)) == 0, Findings: findings}
	// there is room for another cluster; that one is there says nothing of it
	if checkup.OK && len(deploy.Unmade(findings)) == 0 && len(s.Record.Nodes) == 0 {
		s.RememberHealth()
	}
	return checkup, nil
}

// beginnings are the ways to begin where nothing is configured.
const beginnings = `to try it without a Proxmox VE: hive-test full demo --sim
with a Proxmox VE of your own: hive-test init, which writes ` + config.FileName + `
on hosts that are there already: hive-test up lab --hosts-file hosts.yaml`

// unconfigured reports whether nothing says yet where clusters are to be made.
func unconfigured(settings config.Settings) bool {
	return settings.File == "" && !settings.Sim && settings.Proxmox.Endpoint == "" &&
		settings.Proxmox.Token.Empty() && len(settings.Proxmox.Hypervisors) == 0
}

// examine makes all checks that the settings, or the cluster that exists, call for.
func (s *session) examine(ctx context.Context, named bool) ([]deploy.Finding, error) {
	limit := cmp.Or(s.Settings.Timeout, doctorLimit)
	limited, cancel := context.WithTimeoutCause(
		ctx, limit, fmt.Errorf("%w (%s)", deploy.ErrTimeUp, progress.FormatLimit(limit)),
	)
	defer cancel()
	findings, err := s.subject(limited, named)
	if err != nil {
		return nil, err
	}
	if !s.Makes() {
		return nil, usage(fmt.Errorf("cluster %q is made of hosts that were there: doctor looks at Proxmox VE", s.Name))
	}
	if _, begun := s.Record.Phases[cluster.PhaseUp]; begun {
		s.Checks = append(s.Checks, s.checkVMs)
	}
	late := time.AfterFunc(doctorGoal, func() {
		progress.Infof(
			s.Sink,
			"Proxmox VE or a hypervisor is slow: each answer may take %s (--proxmox-call-timeout), all of it %s",
			progress.FormatLimit(s.Settings.Proxmox.CallTimeout), progress.FormatLimit(limit),
		)
	})
	defer late.Stop()
	return s.Examine(limited, named, findings), context.Cause(ctx)
}

// checkVMs looks whether the VMs of a cluster that exists run. Those that cannot be asked are told of elsewhere.
func (s *session) checkVMs(ctx context.Context) []deploy.Finding {
	deployer, err := s.Deployer()
	if err != nil {
		return nil
	}
	f := deploy.Finding{ID: "cluster-vms", Title: "the VMs of cluster " + s.Name.String() + " run", Status: deploy.Pass}
	var dead []string
	running := 0
	powers := deployer.Power(ctx, s.Record)
	for i, power := range powers {
		if power.Power == "running" {
			running++
		} else if why := power.Dead(); why != "" {
			dead = append(dead, s.Record.Nodes[i].Name+": "+why)
		}
	}
	f.Detail = fmt.Sprintf("%d of %d", running, len(s.Record.Nodes))
	_, life := s.Store.Holder(s.Name)
	switch {
	case len(dead) > 0 && (life == state.Alive || life == state.Elsewhere):
		f.Status, f.Detail = deploy.Skip, "another run is at work on it"
	case len(dead) > 0:
		f.Status, f.Detail, f.Fix = deploy.Warn, strings.Join(dead, ", "), "hive-test up "+s.Name.String()
	}
	return append([]deploy.Finding{f}, s.locked(powers, life)...)
}

// locked are the VMs that Proxmox VE lets nobody change, where no run of ours is at work that may have asked for it:
// a task that was cut off leaves its lock.
func (s *session) locked(powers []deploy.Power, life state.Life) []deploy.Finding {
	var locks, unlock []string
	for i, power := range powers {
		if power.Lock == "" {
			continue
		}
		node := s.Record.Nodes[i]
		vmid := placement.Of(node).VMID
		locks = append(locks, fmt.Sprintf("%s: VM %d is locked (%s)", node.Name, vmid, power.Lock))
		unlock = append(unlock, fmt.Sprintf("on %s: qm unlock %d", power.Host, vmid))
	}
	if len(locks) == 0 || life == state.Alive || life == state.Elsewhere {
		return nil
	}
	return []deploy.Finding{{
		ID: "cluster-locks", Title: "the VMs of cluster " + s.Name.String() + " can be changed", Status: deploy.Warn,
		Detail: strings.Join(locks, ", "),
		Fix: "wait for what holds the lock; if nothing does any more, " + strings.Join(unlock, "; ") +
			"; what was being made or deleted is to be deleted again then, as by hive-test snapshot list " + s.Name.String(),
	}}
}

// subject finds out what is to be looked at: the cluster of that name if there is one, or what up would make. Flags that
// up refuses are refused, in the same words.
func (s *session) subject(ctx context.Context, named bool) ([]deploy.Finding, error) {
	if err := s.contradictions(); err != nil {
		return nil, err
	}
	if named {
		err := s.load()
		if err == nil {
			if err := s.refusedByUp(ctx); err != nil {
				return nil, err
			}
			err := s.connect(ctx)
			return s.MissingToken(), err
		}
		if !errors.Is(err, state.ErrNotFound) {
			return nil, err
		}
	}
	if unconfigured(s.Settings) {
		for line := range strings.SplitSeq(beginnings, "\n") {
			progress.Infof(s.Sink, "%s", line)
		}
	}
	s.Record = s.newRecord()
	if path := s.Settings.SSHPrivateKeyPath; path != "" {
		s.Record.SSHKeyPath = config.Absolute(path)
	}
	missing, err := s.Resolve(ctx)
	return missing, s.cutShort(ctx, err)
}

// refusedByUp returns what up refuses to ask of the cluster that exists. What it could be changed to is not looked at.
func (s *session) refusedByUp(ctx context.Context) error {
	if !s.Makes() { // of which the caller tells
		return nil
	}
	if err := s.sameAsAsked(ctx); err != nil {
		return err
	}
	made := s.Record
	defer func() { s.Record = made }()
	s.Record = made.Clone()
	if err := s.change(); err != nil {
		return err
	}
	return s.unusedByChange()
}

// RoleScript is the shell commands by which an administrator of a Proxmox VE of that major version gives the token of
// the settings, or one to be made, the rights that hive-test needs.
func RoleScript(major int, settings config.Settings) string {
	return target.RoleScript(major, settings)
}
