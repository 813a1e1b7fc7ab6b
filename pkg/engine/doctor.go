package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"

	"github.com/google/renameio/v2"
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
		return Checkup{}, usage(errors.New("doctor looks at Proxmox VE: whether the hosts of a hosts file can be used, up finds out"))
	}
	s, err := e.open("doctor", request.named("doctor"))
	if err != nil {
		return Checkup{}, err
	}
	defer s.close()
	findings, err := s.examine(ctx, request.Name != "")
	if err != nil {
		return Checkup{}, err
	}
	checkup := Checkup{OK: len(deploy.Failed(findings)) == 0, Findings: findings}
	if checkup.OK && len(deploy.Unmade(findings)) == 0 && len(s.record.Nodes) == 0 { // there is room for another cluster; that one is there says nothing of it
		s.rememberHealth()
	}
	return checkup, nil
}

// examine makes all checks that the settings, or the cluster that exists, call for.
func (s *session) examine(ctx context.Context, named bool) ([]deploy.Finding, error) {
	findings, err := s.subject(ctx, named)
	if err != nil {
		return nil, err
	}
	if s.record.Spec.Deployer == cluster.DeployerExisting {
		return nil, usage(fmt.Errorf("cluster %q is made of hosts that were there: doctor looks at Proxmox VE", s.name))
	}
	for _, problem := range s.record.Spec.Validate() {
		findings = append(findings, deploy.Finding{ID: "settings", Title: "settings are complete", Status: deploy.Fail, Detail: problem.Error(), Fix: "change that setting; `hive-test help settings` lists them"})
	}
	limit := cmp.Or(s.settings.Timeout, doctorLimit)
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w (%s)", api.ErrTimeUp, progress.FormatLimit(limit)))
	defer cancel()
	late := time.AfterFunc(doctorGoal, func() {
		s.sink.Emit(progress.Event{Kind: progress.Info, Message: fmt.Sprintf("Proxmox VE or a hypervisor is slow: each answer may take %s (--proxmox-call-timeout), all of it %s",
			progress.FormatLimit(s.settings.Proxmox.CallTimeout), progress.FormatLimit(limit))})
	})
	defer late.Stop()
	f, problems := s.patient()
	findings = append(findings, problems...)
	if len(deploy.Failed(findings)) > 0 {
		f.Client = nil // it could only be used wrongly
	}
	request := s.record
	if !named {
		nameless := *s.record
		nameless.Name = ""
		request = &nameless
	}
	findings = append(findings, f.Findings(limited, request)...)
	return findings, context.Cause(ctx)
}

// subject finds out what is to be looked at: the cluster of that name if there is one, or what up would make.
func (s *session) subject(ctx context.Context, named bool) ([]deploy.Finding, error) {
	if named {
		err := s.load()
		if err == nil {
			return nil, s.connect(ctx)
		}
		if !errors.Is(err, state.ErrNotFound) {
			return nil, err
		}
	}
	s.record = &cluster.Record{Schema: cluster.RecordSchema, Name: s.name, Owner: newOwner(s.started), Spec: s.settings.Spec(), SSHKeyPath: s.store.Path(s.name, lifecycle.KeyFile)}
	if path := s.settings.SSHPrivateKeyPath; path != "" {
		s.record.SSHKeyPath = absolute(path)
	}
	if s.settings.Sim {
		s.record.Target = cluster.Target{Simulated: true, Pool: s.settings.Proxmox.Pool}
		if err := s.connect(ctx); err != nil {
			return nil, err
		}
		s.record.Target.ProviderMirror = s.providerMirror(s.sim.ProviderMirror)
		return nil, nil
	}
	s.fillTarget()
	return s.missingSettings(), nil
}

// missingSettings are the settings without which there is no Proxmox VE to make a cluster on.
func (s *session) missingSettings() []deploy.Finding {
	findings := s.missingAccess()
	if len(s.settings.Proxmox.Hypervisors) == 0 {
		findings = append(findings, incomplete("no hypervisors: set proxmox.hypervisors, or TF_VAR_nodes", "set proxmox.hypervisors, or TF_VAR_nodes"))
	}
	return findings
}

func incomplete(detail, fix string) deploy.Finding {
	return deploy.Finding{ID: "settings", Title: "settings are complete", Status: deploy.Fail, Detail: detail, Fix: fix}
}

// missingAccess are the settings without which there is no Proxmox VE to talk to.
func (s *session) missingAccess() []deploy.Finding {
	p := s.settings.Proxmox
	var findings []deploy.Finding
	missing := func(absent bool, detail, fix string) {
		if absent {
			findings = append(findings, incomplete(detail, fix))
		}
	}
	missing(p.Endpoint == "", "no Proxmox VE endpoint: set proxmox.endpoint, HIVE_TEST_PROXMOX_ENDPOINT or PROXMOX_VE_ENDPOINT, like https://pve1:8006",
		"set proxmox.endpoint to the API's address, like https://pve1:8006")
	missing(p.Token.Reveal() == "", "no API token: set PROXMOX_VE_API_TOKEN, like user@realm!name=secret",
		"set PROXMOX_VE_API_TOKEN; `hive-test doctor --print-role` prints how to make a token")
	return findings
}

// fillTarget takes where the user's Proxmox VE is from the settings.
func (s *session) fillTarget() {
	p := s.settings.Proxmox
	s.record.Spec.Hypervisors = p.Hypervisors
	s.record.Target = cluster.Target{
		Endpoint: p.Endpoint, CAFile: p.CAFile, Fingerprint: p.Fingerprint, Insecure: p.Insecure, Pool: p.Pool,
		ProviderMirror: s.providerMirror(""), HypervisorSSHUser: p.SSHUsername, HypervisorSSHKeyPath: p.SSHPrivateKeyPath,
	}
}

// patient is the fleet for findings: what is wrong with the way to Proxmox VE is a finding, too.
func (s *session) patient() (*proxmox.Fleet, []deploy.Finding) {
	target := s.record.Target
	options := api.Options{Endpoint: target.Endpoint, Token: s.token(), CAFile: target.CAFile, Fingerprint: target.Fingerprint, Insecure: target.Insecure, Timeout: s.settings.Proxmox.CallTimeout}
	f := proxmox.New(proxmox.Options{IDBase: s.settings.Proxmox.VMIDBase, Checks: s.checks(false)})
	problems := options.Problems()
	if ids := s.settings.Proxmox.VMIDRange; ids != "" {
		var err error
		if f.IDRange, err = api.ParseIDRange(ids); err != nil {
			problems = append(problems, deploy.Finding{ID: "settings", Title: "settings are complete", Status: deploy.Fail, Detail: err.Error(), Fix: "set proxmox.vmid_range to 20000-29999"})
		}
	}
	f.Client, _ = api.New(options) // nil where it cannot be: problems say why
	return f, problems
}

// healthLasts is how long up relies on a doctor that found nothing.
const healthLasts = time.Minute

// healthFile is where a doctor that found nothing leaves word, by everything that it looked at; empty: nowhere.
func (s *session) healthFile() string {
	dir := s.CacheDir
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "doctor", cluster.Hash(s.record.Spec, s.record.Target.Endpoint, s.record.Target.Pool, s.token(), s.settings.Proxmox.CPUOvercommit, s.settings.TofuBin))
}

// rememberHealth is a convenience: where it cannot be written, up looks again.
func (s *session) rememberHealth() {
	file := s.healthFile()
	if file == "" || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	_ = renameio.WriteFile(file, nil, 0o600)
}

// healthy tells whether a doctor has found nothing within the last minute. It is asked once: what is made then may fill
// what was free before.
func (s *session) healthy() bool {
	file := s.healthFile()
	if file == "" {
		return false
	}
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	_ = os.Remove(file)
	age := time.Since(info.ModTime())
	return age >= 0 && age < healthLasts
}
