package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/existing"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/deploy/proxmox/provision"
	"hive-test/pkg/deploy/simhosts"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/scratch"
	"hive-test/pkg/state"
)

// connect makes the simulator run if the cluster lives there, and takes over how it is reached.
func (s *session) connect(ctx context.Context) error {
	if !s.record.Target.Simulated {
		return nil
	}
	id := s.record.Target.SimulatorID
	if id == "" && len(s.record.Phases) > 0 { // made before simulators had ids
		id = anySimulator
	}
	sim, err := startSimulator(ctx, s.Environ, s.store.Root(), s.settings.SimHosts, id, s.sink)
	if errors.Is(err, errOtherSimulator) {
		return s.otherSimulator()
	}
	if err != nil {
		return s.timeoutError(ctx, err)
	}
	s.sim = &sim
	s.Secrets.Learn(TokenSecrets(sim.Token)...)
	s.simulatedTarget()
	return nil
}

// otherSimulator refuses a cluster whose simulator is not that of its clusters directory: what another one does not
// know of proves nothing of the cluster's VMs.
func (s *session) otherSimulator() error {
	dir := remote.Quote(s.store.Dir(s.name))
	if len(s.record.Nodes) == 0 { // nothing but an owner id
		return Error{ExitConfig, progress.WithHint(fmt.Errorf("%s has no simulator that could have the VMs of cluster %q: nothing was changed", s.store.Root(), s.name),
			"name the clusters directory that has with --clusters-dir")}
	}
	hint := "if this is a copy, use the cluster where it was made, and remove the copy: rm -r " + dir +
		"\nif that simulator was removed, its VMs went with it: rm -r " + dir
	if made, _, found := strings.Cut(s.record.Target.CAFile, "/.sim/"); found && made != s.store.Root() {
		hint = fmt.Sprintf("it was used in %s last: hive-test %s %s --clusters-dir %s\n%s", made, s.verb, s.name, remote.Quote(made), hint)
	}
	return Error{ExitConfig, progress.WithHint(
		fmt.Errorf("the VMs of cluster %q are on another simulator than that of %s: nothing was changed", s.name, s.store.Root()), hint)}
}

// TokenSecrets are an API token and its secret part.
func TokenSecrets(token string) []string {
	_, secret, _ := strings.Cut(token, "=")
	return []string{token, secret}
}

// token is the API token: the simulator's for a simulated cluster, else the user's.
func (s *session) token() string {
	if s.sim != nil {
		return s.sim.Token
	}
	return s.settings.Proxmox.Token.Reveal()
}

// deployer is what makes, removes and describes the cluster's machines. This is the one place that chooses it.
func (s *session) deployer() (deploy.Capable, error) {
	if s.record.Spec.Deployer == cluster.DeployerExisting {
		return deploy.Of(existing.Hosts{}), nil
	}
	fleet, err := s.proxmoxFleet()
	if err != nil {
		return deploy.Capable{}, err
	}
	if s.record.Spec.Deployer == cluster.DeployerSimHosts && !s.salvaged {
		return deploy.Of(simhosts.Deployer{Fleet: fleet, Upload: s.uploadToHypervisor}), nil
	}
	return deploy.Of(proxmox.Deployer{Fleet: fleet, Provisioner: sync.OnceValue(s.provisioner)}), nil
}

// proxmoxFleet is how a cluster's VMs are seen on Proxmox VE.
func (s *session) proxmoxFleet() (*proxmox.Fleet, error) {
	target := s.record.Target
	client, err := api.New(api.Options{
		Endpoint: target.Endpoint, Token: s.token(), CAFile: target.CAFile, Fingerprint: target.Fingerprint, Insecure: target.Insecure,
		Log: s.debug.log, Warn: func(text string) { s.sink.Emit(progress.Event{Kind: progress.Warning, Message: text}) },
	})
	if err != nil {
		return nil, Error{ExitConfig, err}
	}
	idRange := api.DefaultIDRange()
	if s.settings.Proxmox.VMIDRange != "" {
		if idRange, err = api.ParseIDRange(s.settings.Proxmox.VMIDRange); err != nil {
			return nil, Error{ExitConfig, err}
		}
	}
	locks, err := s.lockDir()
	if err != nil {
		return nil, Error{ExitConfig, fmt.Errorf("the locks on VM ids: %w", err)}
	}
	return proxmox.New(proxmox.Options{
		Client: client, IDRange: idRange, IDBase: s.settings.Proxmox.VMIDBase, Parallelism: s.settings.Parallelism,
		LockDir: locks, ClaimLasts: s.claimLasts(), Checks: s.upChecks(), Taken: s.otherAddresses,
	}), nil
}

// otherAddresses are the addresses that other clusters of this clusters directory have, with who has each. A record
// that cannot be read is of no cluster that could be used.
func (s *session) otherAddresses() (map[netip.Addr]string, error) {
	names, err := s.store.List()
	if err != nil {
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	taken := map[netip.Addr]string{}
	for _, name := range names {
		r, err := s.store.Load(name)
		if newer, ok := errors.AsType[*state.NewerError](err); ok { // it may have addresses that are not known here
			return nil, newer
		}
		if err != nil || r.Owner.ID == s.record.Owner.ID {
			continue
		}
		for _, n := range r.Nodes {
			for _, a := range []netip.Addr{n.Management, n.Data, n.StaticManagement.Addr(), n.StaticData.Addr()} {
				if a.IsValid() {
					taken[a] = n.Name
				}
			}
		}
	}
	return taken, nil
}

// dial opens the way to the nodes of a record, with the cluster's own key and host keys.
func (s *session) dial(r *cluster.Record) (lifecycle.Remote, error) {
	return remote.NewDialer(remote.Config{
		User: r.Spec.SSHUser, KeyPath: r.SSHKeyPath, KnownHosts: s.store.Path(r.Name, "known_hosts"), Log: s.debug.log,
		ProxyJump: r.ProxyJump, AgentSocket: cmp.Or(r.SSHAgent, s.settings.SSH.AgentSocket),
	})
}

// noProvisioner makes and removes nothing: the API deletes as well.
type noProvisioner struct{ existing.Hosts }

// PlanText is empty: nothing is planned.
func (noProvisioner) PlanText(context.Context, deploy.Request) (string, error) { return "", nil }

// plannedOnce is all that can be told of a cluster's VMs where Proxmox VE cannot be asked: what was planned.
type plannedOnce struct {
	existing.Hosts
	provisioner func() proxmox.Provisioner
}

// PlanText returns the last plan for people.
func (p plannedOnce) PlanText(ctx context.Context, r deploy.Request) (string, error) {
	return p.provisioner().PlanText(ctx, r)
}

// provisioner is what makes and removes the cluster's machines.
func (s *session) provisioner() proxmox.Provisioner {
	if s.salvaged { // what tofu would need is not sure to be there
		return noProvisioner{}
	}
	target := s.record.Target
	if !s.needsHypervisorSSH() {
		target.HypervisorSSHUser, target.HypervisorSSHKeyPath = "", ""
	}
	if key := target.HypervisorSSHKeyPath; key != "" && s.settings.SSH.AgentSocket != "" && !remote.OwnKey(key) {
		target.HypervisorSSHKeyPath = "" // the provider asks for no passphrase: the agent has it
	}
	return provision.New(provision.Options{
		Tofu: opentofu.Options{
			Find: s.tofuOfCluster(), Env: s.TofuEnviron, ProviderMirror: target.ProviderMirror, CacheDir: s.CacheDir,
			OwnerID: s.record.Owner.ID, LogPath: s.runFile("tofu.log"), Sink: s.sink, Parallelism: s.settings.Parallelism,
		},
		Endpoint: api.BaseURL(target.Endpoint), Token: s.token(),
		CAFile: target.CAFile, FetchCA: s.fetchCA(), Insecure: target.Insecure,
		SSHUser: target.HypervisorSSHUser, SSHPrivateKeyPath: target.HypervisorSSHKeyPath, SSHAgent: s.settings.SSH.AgentSocket,
	})
}

// runFile is a file of the run's directory; empty where the run keeps nothing.
func (s *session) runFile(name string) string {
	if s.run.Dir == "" {
		return ""
	}
	return filepath.Join(s.run.Dir, name)
}

// needsHypervisorSSH tells whether making the cluster's VMs needs SSH to any hypervisor.
func (s *session) needsHypervisorSSH() bool {
	spec := s.record.Spec
	return slices.ContainsFunc(spec.Hypervisors, func(h cluster.Hypervisor) bool { return spec.NeedsHypervisorSSH(h.Name) })
}

// certificateTime bounds the look at the API's certificate.
const certificateTime = 10 * time.Second

// fetchCA returns what gets the file of certificates that the provider trusts; nil: it is the CA file. The provider
// knows no fingerprints: where one is pinned, it is given the certificate itself, after the fingerprint was compared.
func (s *session) fetchCA() func(context.Context) string {
	if target := s.record.Target; target.Fingerprint == "" || target.Insecure {
		return nil
	}
	var once sync.Mutex
	file := ""
	return func(ctx context.Context) string {
		once.Lock()
		defer once.Unlock()
		if file == "" {
			file = s.pinnedCA(ctx)
		}
		return file
	}
}

func (s *session) pinnedCA(ctx context.Context) string {
	target := s.record.Target
	ctx, cancel := context.WithTimeout(ctx, certificateTime)
	defer cancel()
	pem, err := api.PinnedCertificate(ctx, target.Endpoint, target.Fingerprint)
	path := filepath.Join(s.CacheDir, "certificates", cluster.Hash(target.Fingerprint)+".pem")
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), renameio.WriteFile(path, pem, 0o600))
	}
	if err != nil {
		s.sink.Emit(progress.Event{Kind: progress.Warning, Message: "cannot fetch the pinned certificate for the provider: " + err.Error()})
		return target.CAFile
	}
	return path
}

// lockDir is where runs on this machine keep each other from the same VM ids.
func (s *session) lockDir() (string, error) {
	if dir := cmp.Or(s.settings.LockDir, s.LockDir); dir != "" {
		return dir, nil
	}
	if s.NoLockDir != nil {
		return "", s.NoLockDir
	}
	base, err := scratch.Base(os.TempDir())
	return filepath.Join(base, "locks"), err
}

// claimMargin is more than a run takes beside its phase up, clocks that differ included.
const claimMargin = 15 * time.Minute

// claimLasts is how long a claim on VM ids of a run that vanished keeps others away.
func (s *session) claimLasts() time.Duration {
	if s.settings.Timeouts.Up <= 0 {
		return unlimitedPhase
	}
	return s.settings.Timeouts.Up + claimMargin
}
