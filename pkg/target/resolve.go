package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/deploy/proxmox/provision"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// Connect makes the simulator run if the cluster lives there, takes over how it is reached, and takes how Proxmox VE is
// reached, and where the provider comes from, as the user says now, if that is said.
func (t *Target) Connect(ctx context.Context) error {
	if err := t.CheckEndpoint(); err != nil {
		return err
	}
	if err := t.connectSimulator(ctx); err != nil {
		return err
	}
	if t.sim == nil && t.Makes() {
		t.readToken(ctx)
	}
	t.reachAsNow()
	if !t.Settings.Given("provider") && !t.Settings.Given("provider_mirror") {
		return nil
	}
	usual := ""
	if t.sim != nil {
		usual = t.sim.ProviderMirror
	}
	placement.ChangeTarget(&t.Record.Target, func(target *placement.Target) {
		target.ProviderMirror = t.providerMirror(usual)
	})
	return nil
}

// CheckEndpoint refuses another Proxmox VE than that of the cluster: VMs that are not there prove nothing.
func (t *Target) CheckEndpoint() error {
	asked, recorded := t.Settings.Proxmox.Endpoint, t.place().Endpoint
	if !t.Settings.Explicit("proxmox.endpoint") || recorded == "" || api.BaseURL(asked) == api.BaseURL(recorded) {
		return nil
	}
	return usageError(progress.WithHint(
		fmt.Errorf("the VMs of cluster %q are at %s, and not looked for at %s", t.Name, recorded, asked),
		"leave --proxmox-endpoint out; if it has another address now, write that into cluster.json of "+
			remote.Quote(t.Store.Dir(t.Name)),
	))
}

// reachAsNow takes how the cluster's Proxmox VE is reached from the settings that were given now, if they are about that
// one: its certificate, and the keys of its hypervisors, may be others by now.
func (t *Target) reachAsNow() {
	p := t.Settings.Proxmox
	given := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return t.Settings.Given("proxmox." + key) })
	}
	explicit := slices.ContainsFunc([]string{
		"ca_file", "fingerprint", "insecure", "ssh_username", "ssh_private_key_path",
	}, func(key string) bool { return t.Settings.Explicit("proxmox." + key) })
	placement.ChangeTarget(&t.Record.Target, func(target *placement.Target) {
		other := p.Endpoint != "" && api.BaseURL(p.Endpoint) != api.BaseURL(target.Endpoint)
		if t.Record.Target.Simulated || other && !explicit {
			return
		}
		if given("ca_file", "fingerprint", "insecure") {
			target.CAFile, target.Fingerprint, target.Insecure = p.CAFile, p.Fingerprint, p.Insecure
		}
		if given("ssh_username") {
			target.HypervisorSSHUser = p.SSHUsername
		}
		if given("ssh_private_key_path") {
			target.HypervisorSSHKeyPath = p.SSHPrivateKeyPath
		}
	})
}

// readToken reads the API token where the settings only refer to it: as late as here, for not everything needs one.
func (t *Target) readToken(ctx context.Context) {
	t.Settings = t.Settings.WithToken(ctx)
	t.Program.Secrets.Learn(TokenSecrets(t.Settings.Proxmox.Token.Reveal())...)
}

func (t *Target) connectSimulator(ctx context.Context) error {
	if !t.Record.Target.Simulated {
		return nil
	}
	id := t.Record.Target.SimulatorID
	if id == "" && len(t.Record.Phases) > 0 { // made before simulators had ids
		id = anySimulator
	}
	sim, err := startSimulator(ctx, t.Program.Environ, t.Store.Root(), t.Settings.SimHosts, id, t.Sink)
	if errors.Is(err, errOtherSimulator) {
		return t.otherSimulator()
	}
	if err != nil {
		return err
	}
	t.sim = &sim
	t.Program.Secrets.Learn(TokenSecrets(sim.Token)...)
	t.simulatedTarget()
	return nil
}

// otherSimulator refuses a cluster whose simulator is not that of its clusters directory: what another one does not
// know of proves nothing of the cluster's VMs.
func (t *Target) otherSimulator() error {
	dir := remote.Quote(t.Store.Dir(t.Name))
	if len(t.Record.Nodes) == 0 { // nothing but an owner id
		return configError(progress.WithHint(fmt.Errorf(
			"%s has no simulator that could have the VMs of cluster %q: nothing was changed", t.Store.Root(), t.Name,
		),
			"name the clusters directory that has with --clusters-dir"))
	}
	hint := "if this is a copy, use the cluster where it was made, and remove the copy: rm -r " + dir +
		"\nif that simulator was removed, its VMs went with it: rm -r " + dir
	if made, _, found := strings.Cut(t.place().CAFile, "/.sim/"); found && made != t.Store.Root() {
		hint = fmt.Sprintf(
			"it was used in %s last: hive-test %s %s --clusters-dir %s\n%s", made, t.Verb, t.Name, remote.Quote(made),
			hint,
		)
	}
	return configError(progress.WithHint(
		fmt.Errorf("the VMs of cluster %q are on another simulator than that of %s: nothing was changed", t.Name, t.Store.Root()), hint))
}

// simulatedTarget fills in where the simulator is now: it may have been started again, on another port, since the
// record was written. Where the user's real Proxmox VE is does not matter here.
func (t *Target) simulatedTarget() {
	t.Record.Target.SimulatorID = t.sim.ID
	avoided := placement.Avoided(placement.Hypervisors(t.Record.Spec))
	hosts, _ := placement.Avoid(t.sim.Hypervisors, avoided) // one that it has no more is not missed
	hosts = placement.WithTemplates(hosts, placement.Hypervisors(t.Record.Spec))
	t.Record.Spec.Hosts = placement.Hosts(hosts)
	if source := &t.Record.Source; !source.Named() || source.Binary != "" && !present(source.Binary) {
		source.Binary = t.sim.HiveBinary
	}
	placement.ChangeTarget(&t.Record.Target, func(target *placement.Target) {
		target.Endpoint, target.CAFile = t.sim.Endpoint, t.sim.CAFile
		target.HypervisorSSHUser, target.HypervisorSSHKeyPath = t.sim.SSHUser, t.sim.SSHPrivateKey
		if target.ProviderMirror != "" && !present(target.ProviderMirror) {
			target.ProviderMirror = t.sim.ProviderMirror
		}
	})
}

// providerMirror is where the provider comes from: the registry, a mirror that the user named, or else the given one.
func (t *Target) providerMirror(otherwise string) string {
	switch {
	case t.Settings.Provider == "registry":
		return ""
	case t.Settings.ProviderMirror != "":
		return config.Absolute(t.Settings.ProviderMirror)
	case t.Settings.Provider != "" && t.Settings.Provider != "auto":
		return config.Absolute(t.Settings.Provider)
	}
	return otherwise
}

// Resolve takes for a cluster that is new where its machines will be: a simulator, which is started, or what the
// settings say. The settings that are missing for it are findings.
func (t *Target) Resolve(ctx context.Context) (missing []deploy.Finding, err error) {
	p := t.Settings.Proxmox
	if t.Settings.Sim {
		t.Record.Target = simulatedIn(p.Pool)
		if err := t.Connect(ctx); err != nil {
			return nil, err
		}
		placement.ChangeTarget(&t.Record.Target, func(target *placement.Target) {
			target.ProviderMirror = t.providerMirror(t.sim.ProviderMirror)
		})
		return nil, t.Avoid()
	}
	t.fillTarget()
	t.readToken(ctx)
	if missing = t.missingSettings(); len(missing) > 0 {
		return missing, nil
	}
	return nil, t.Avoid()
}

// simulatedIn is a simulator that is not known yet, with the pool that VMs belong to.
func simulatedIn(pool string) cluster.Target {
	return cluster.Target{Simulated: true, Place: placement.Target{Pool: pool}.Document()}
}

// CheckDeployer refuses a deployer that cannot make machines where the settings say.
func (t *Target) CheckDeployer() error {
	if kindOf(t.Record).simulatorOnly && !t.Settings.Sim && !local(t.Settings.Proxmox.Endpoint) {
		return usageError(progress.WithHint(
			fmt.Errorf("deployer %s makes VMs of a simulator only, on this machine", t.Record.Spec.Deployer), "add --sim, or leave deployer out"))
	}
	return nil
}

// ResolveNew is Resolve for a cluster that is about to be made: all that is missing is one error.
func (t *Target) ResolveNew(ctx context.Context) error {
	missing, err := t.Resolve(ctx)
	if err == nil {
		err = t.incompleteError(missing, "`hive-test init` writes a config file; or try it without a Proxmox VE: add --sim")
	}
	if p := t.Settings.Proxmox; err == nil && p.Insecure && !t.Settings.Sim {
		progress.Warnf(t.Sink, "the certificate of %s is not verified (proxmox.insecure)", p.Endpoint)
	}
	return err
}

// avoidNone lifts what was avoided.
const avoidNone = "none"

// Avoid marks, in the record, the hypervisors that the settings avoid, and no others. It refuses names that none has,
// unless they are of what was made for other clusters, too.
func (t *Target) Avoid() error {
	names := t.Settings.AvoidHypervisors
	if slices.Equal(names, []string{avoidNone}) {
		names = nil
	}
	hosts, err := placement.Avoid(placement.Hypervisors(t.Record.Spec), names)
	if err != nil && (t.Settings.Explicit("avoid_hypervisors") || len(t.Record.Nodes) == 0) {
		return usageError(progress.WithHint(
			fmt.Errorf("avoid_hypervisors: %w", err), "--avoid-hypervisor none avoids none of them",
		))
	}
	t.Record.Spec.Hosts = placement.Hosts(hosts)
	return nil
}

// incompleteError is an error of the settings that are missing; nil where none are.
func (t *Target) incompleteError(missing []deploy.Finding, hint string) error {
	if tokenErr := t.Settings.Proxmox.TokenErr; len(missing) == 1 && tokenErr != nil && t.token() == "" {
		return configError(tokenErr) // which says what to do itself
	}
	var problems []error
	for _, m := range missing {
		problems = append(problems, errors.New(m.Detail))
	}
	if len(problems) == 0 {
		return nil
	}
	return configError(progress.WithHint(errors.Join(problems...), hint))
}

// missingSettings are the settings without which there is no Proxmox VE to make a cluster on.
func (t *Target) missingSettings() []deploy.Finding {
	findings := t.missingAccess()
	if len(t.Settings.Proxmox.Hypervisors) == 0 {
		findings = append(
			findings,
			incomplete(
				"no hypervisors: set proxmox.hypervisors, or TF_VAR_nodes", "set proxmox.hypervisors, or TF_VAR_nodes",
			),
		)
	}
	return findings
}

func incomplete(detail, fix string) deploy.Finding {
	return deploy.Finding{ID: "settings", Title: "settings are complete", Status: deploy.Fail, Detail: detail, Fix: fix}
}

// missingAccess are the settings without which there is no Proxmox VE to talk to.
func (t *Target) missingAccess() []deploy.Finding {
	p := t.Settings.Proxmox
	var findings []deploy.Finding
	missing := func(absent bool, detail, fix string) {
		if absent {
			findings = append(findings, incomplete(detail, fix))
		}
	}
	missing(p.Endpoint == "", "no Proxmox VE endpoint: set proxmox.endpoint, HIVE_TEST_PROXMOX_ENDPOINT or PROXMOX_VE_ENDPOINT, like https://pve1:8006",
		"set proxmox.endpoint to the API's address, like https://pve1:8006")
	return append(findings, t.MissingToken()...)
}

// MissingToken is the finding that there is no API token; none where there is one.
func (t *Target) MissingToken() []deploy.Finding {
	if t.token() != "" {
		return nil
	}
	if err := t.Settings.Proxmox.TokenErr; err != nil {
		return []deploy.Finding{incomplete(err.Error(), progress.HintOf(err))}
	}
	return []deploy.Finding{incomplete(
		api.NoToken,
		"set PROXMOX_VE_API_TOKEN or proxmox.token_file; `hive-test doctor --print-role` prints how to make a token",
	)}
}

// fillTarget takes where the user's Proxmox VE is from the settings.
func (t *Target) fillTarget() {
	p := t.Settings.Proxmox
	t.Record.Spec.Hosts = placement.Hosts(p.Hypervisors)
	t.Record.Target = cluster.Target{Place: placement.Target{
		Endpoint: p.Endpoint, CAFile: p.CAFile, Fingerprint: p.Fingerprint, Insecure: p.Insecure, Pool: p.Pool,
		ProviderMirror: t.providerMirror(""), HypervisorSSHUser: p.SSHUsername,
		HypervisorSSHKeyPath: p.SSHPrivateKeyPath,
	}.Document()}
}

// Rebuild makes of what is left of a cluster's files, or of nothing but its name and owner id, a record that is good
// for finding and deleting its VMs only. It takes where the VMs are from what is recorded, and how that is reached from
// the settings. VMs that are gone elsewhere prove nothing: what is recorded yields to a flag only.
func (t *Target) Rebuild(from deploy.Recorded) error {
	t.Recovered = true
	t.Record.Spec = cluster.Spec{
		Deployer: deploy.Proxmox, NodeCount: len(from.Nodes), CloudInit: from.CloudInit,
		Hosts: placement.Hosts(from.Hypervisors),
	}
	if t.Settings.Sim {
		if from.Endpoint != "" && !local(from.Endpoint) {
			return usageError(fmt.Errorf("cluster %q is not a simulated one: its VMs are at %s", t.Name, from.Endpoint))
		}
		t.Record.Target = simulatedIn(from.Pool)
		t.Record.Target.SimulatorID = anySimulator
		return nil
	}
	t.fillTarget()
	t.Record.Spec.Hosts = placement.Hosts(from.Hypervisors)
	target := t.place()
	target.Pool = cmp.Or(target.Pool, from.Pool)
	if !t.Settings.Explicit("proxmox.endpoint") {
		target.Endpoint = cmp.Or(from.Endpoint, target.Endpoint)
	}
	t.Record.Target.Place = target.Document()
	var problems []error
	if target.Endpoint == "" {
		problems = append(
			problems,
			errors.New("where the VMs are is not recorded: set proxmox.endpoint, HIVE_TEST_PROXMOX_ENDPOINT or "+
				"PROXMOX_VE_ENDPOINT"),
		)
	}
	for _, missing := range t.MissingToken() {
		problems = append(problems, errors.New(missing.Detail))
	}
	if len(problems) > 0 {
		return configError(progress.WithHint(errors.Join(problems...), "or, if they are simulated, add --sim"))
	}
	return nil
}

// local tells whether an endpoint is of this machine, as a simulator's is.
func local(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return err == nil && address.IsLoopback()
}

// NodeSSHPort is the port of the nodes' SSH servers.
func (t *Target) NodeSSHPort() int {
	if t.sim != nil && t.sim.NodeSSHPort != 0 {
		return t.sim.NodeSSHPort
	}
	return t.Settings.NodeSSHPort
}

// Recover returns what the files in a cluster's directory that its record does not need tell of its VMs.
func Recover(dir string) (deploy.Recorded, error) { return provision.Recover(dir) }

// present reports whether a path exists.
func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
