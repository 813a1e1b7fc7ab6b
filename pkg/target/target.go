package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/existing"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/deploy/proxmox/provision"
	"hive-test/pkg/deploy/simhosts"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/scratch"
	"hive-test/pkg/state"
)

// Program is what targets get from the program that they work for.
type Program struct {
	// Environ is the environment of the simulator and of programs that look for others, TofuEnviron that of OpenTofu.
	Environ, TofuEnviron []string
	CacheDir             string // keeps programs and providers between runs; empty: nothing is kept
	LockDir              string // where runs keep each other from the same VM ids, unless a setting names another
	NoLockDir            error  // why there is no LockDir; nil with none: one among the temporary files
	Secrets              *progress.Secrets
}

// Target is the way to the machines of one cluster, for one run. What it returns may be used concurrently, the target
// itself may not.
type Target struct {
	Program  Program
	Verb     string // of the run, for advice
	Settings config.Settings
	Store    *state.Store
	Name     cluster.Name
	// Record is the cluster's. Whoever reads or makes it sets it before anything else is asked.
	Record *cluster.Record
	// Recovered says that the record was put together to destroy the cluster, and is not written back.
	Recovered bool
	Sink      progress.Sink
	Log       *slog.Logger
	// File returns the path of a file of the run's directory; empty where the run keeps nothing.
	File func(name string) string
	// Backend is where the cluster's state is, whatever is recorded or set; nil: see StateBackend.
	Backend *cluster.StateBackend
	// Checks are further checks of what it takes to make the cluster.
	Checks []func(context.Context) []deploy.Finding

	clients []*api.Client // that were opened

	sim *simulator // nil: the cluster is not simulated, or Connect was not called
}

// kind is what is fixed about a deployer, whatever the cluster.
type kind struct {
	makes         bool // its machines are made and removed by it; else they were there before, and stay
	tofu          bool // by OpenTofu
	simulatorOnly bool
	open          func(*Target) (deploy.Capable, error)
}

// kindOf chooses the deployer of a record. This is the one place that does.
func kindOf(r *cluster.Record) kind {
	switch r.Spec.Deployer {
	case deploy.Existing:
		return kind{open: func(*Target) (deploy.Capable, error) { return AsRecorded(), nil }}
	case deploy.SimHosts:
		return kind{makes: true, simulatorOnly: true, open: (*Target).openSimHosts}
	case deploy.Proxmox:
		return kind{makes: true, tofu: true, open: (*Target).openProxmox}
	}
	// records of such are refused when they are read
	return kind{makes: true, open: func(*Target) (deploy.Capable, error) {
		return deploy.Capable{}, configError(fmt.Errorf("there is no deployer %q", r.Spec.Deployer))
	}}
}

// Makes reports whether the machines of a cluster are made and removed by its deployer. Else they were there before,
// and stay.
func Makes(r *cluster.Record) bool { return kindOf(r).makes }

// Makes reports whether the cluster's machines are made and removed by its deployer.
func (t *Target) Makes() bool { return Makes(t.Record) }

// Deployer opens what makes, removes and describes the cluster's machines.
func (t *Target) Deployer() (deploy.Capable, error) { return kindOf(t.Record).open(t) }

// AsRecorded is a deployer that takes machines to be where the record says, and asks nobody.
func AsRecorded() deploy.Capable { return deploy.Of(existing.Hosts{}) }

// AsPlanned is AsRecorded that also tells what was planned.
func (t *Target) AsPlanned() deploy.Capable {
	return deploy.Of(plannedOnce{provisioner: t.provisioner})
}

func (t *Target) openSimHosts() (deploy.Capable, error) {
	if t.Recovered {
		return t.openProxmox()
	}
	fleet, err := t.proxmoxFleet()
	if err != nil {
		return deploy.Capable{}, err
	}
	return deploy.Of(simhosts.Deployer{Fleet: fleet, Upload: t.uploadToHypervisor}), nil
}

func (t *Target) openProxmox() (deploy.Capable, error) {
	fleet, err := t.proxmoxFleet()
	if err != nil {
		return deploy.Capable{}, err
	}
	return deploy.Of(proxmox.Deployer{Fleet: fleet, Provisioner: sync.OnceValue(t.provisioner)}), nil
}

// TokenSecrets are an API token and its secret part.
func TokenSecrets(token string) []string {
	_, secret, _ := strings.Cut(token, "=")
	return []string{token, secret}
}

// token is the API token: the simulator's for a simulated cluster, else the user's.
func (t *Target) token() string {
	if t.sim != nil {
		return t.sim.Token
	}
	return t.Settings.Proxmox.Token.Reveal()
}

// Close ends connections that nobody uses any more. What was opened can be used on.
func (t *Target) Close() {
	for _, client := range t.clients {
		client.Close()
	}
}

// proxmoxFleet is how a cluster's VMs are seen on Proxmox VE.
func (t *Target) proxmoxFleet() (*proxmox.Fleet, error) {
	if err := t.Settings.Proxmox.TokenErr; err != nil && t.sim == nil {
		return nil, configError(err)
	}
	target := t.place()
	client, err := api.New(api.Options{
		Endpoint: target.Endpoint, Token: t.token(), CAFile: target.CAFile, Fingerprint: target.Fingerprint,
		Insecure: target.Insecure,
		Log:      t.Log, Warn: func(text string) { progress.Warn(t.Sink, text, "") },
	})
	if err != nil {
		return nil, configError(err)
	}
	t.clients = append(t.clients, client)
	idRange := api.DefaultIDRange()
	if t.Settings.Proxmox.VMIDRange != "" {
		if idRange, err = api.ParseIDRange(t.Settings.Proxmox.VMIDRange); err != nil {
			return nil, configError(err)
		}
	}
	locks, err := t.lockDir()
	if err != nil {
		return nil, configError(fmt.Errorf("the locks on VM ids: %w", err))
	}
	return proxmox.New(proxmox.Options{
		Client: client, IDRange: idRange, IDBase: t.Settings.Proxmox.VMIDBase, Parallelism: t.Settings.Parallelism,
		LockDir: locks, ClaimLasts: t.claimLasts(), Checks: t.upChecks(), Taken: t.otherAddresses,
	}), nil
}

// noProvisioner makes and removes nothing: the API deletes as well.
type noProvisioner struct{ existing.Hosts }

// PlanText is empty: nothing is planned.
func (noProvisioner) PlanText(context.Context, deploy.Request) (string, error) { return "", nil }

// Refresh has nothing to compare.
func (noProvisioner) Refresh(context.Context, deploy.Request) (deploy.Refreshed, error) {
	return deploy.Refreshed{}, nil
}

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
func (t *Target) provisioner() proxmox.Provisioner {
	if t.Recovered { // what tofu would need is not sure to be there
		return noProvisioner{}
	}
	return t.provision()
}

// provision makes and removes the cluster's machines with OpenTofu.
func (t *Target) provision() *provision.Provisioner {
	target := t.place()
	if !t.needsHypervisorSSH() {
		target.HypervisorSSHUser, target.HypervisorSSHKeyPath = "", ""
	}
	if key := target.HypervisorSSHKeyPath; key != "" && t.Settings.SSH.AgentSocket != "" && !remote.OwnKey(key) {
		target.HypervisorSSHKeyPath = "" // the provider asks for no passphrase: the agent has it
	}
	return provision.New(provision.Options{
		Tofu: opentofu.Options{
			Find: t.tofuOfCluster(), Env: t.Program.TofuEnviron, ProviderMirror: target.ProviderMirror,
			CacheDir: t.Program.CacheDir, Backend: t.backend().Of(t.Name.String()),
			Credentials: t.credentials(config.CredentialsTofu, config.CredentialsState),
			OwnerID:     t.Record.Owner.ID, LogPath: t.File("tofu.log"), Sink: t.Sink, Parallelism: t.Settings.Parallelism,
		},
		Endpoint: api.BaseURL(target.Endpoint), Token: t.token(),
		CAFile: target.CAFile, FetchCA: t.fetchCA(), Insecure: target.Insecure,
		SSHUser: target.HypervisorSSHUser, SSHPrivateKeyPath: target.HypervisorSSHKeyPath,
		SSHAgent: t.Settings.SSH.AgentSocket,
	})
}

// place returns where the cluster's VMs live and how that place is reached.
func (t *Target) place() placement.Target { return placement.TargetOf(t.Record.Target) }

// needsHypervisorSSH tells whether making the cluster's VMs needs SSH to any hypervisor.
func (t *Target) needsHypervisorSSH() bool {
	spec := t.Record.Spec
	return slices.ContainsFunc(
		placement.Hypervisors(spec),
		func(h placement.Hypervisor) bool { return placement.NeedsHypervisorSSH(spec, h.Name) },
	)
}

// certificateTime bounds the look at the API's certificate.
const certificateTime = 10 * time.Second

// fetchCA returns what gets the file of certificates that the provider trusts; nil: it is the CA file. The provider
// knows no fingerprints: where one is pinned, it is given the certificate itself, after the fingerprint was compared.
func (t *Target) fetchCA() func(context.Context) string {
	if target := t.place(); target.Fingerprint == "" || target.Insecure {
		return nil
	}
	var once sync.Mutex
	file := ""
	return func(ctx context.Context) string {
		once.Lock()
		defer once.Unlock()
		if file == "" {
			file = t.pinnedCA(ctx)
		}
		return file
	}
}

func (t *Target) pinnedCA(ctx context.Context) string {
	target := t.place()
	ctx, cancel := context.WithTimeout(ctx, certificateTime)
	defer cancel()
	pem, err := api.PinnedCertificate(ctx, target.Endpoint, target.Fingerprint)
	path := filepath.Join(t.Program.CacheDir, "certificates", cluster.Hash(target.Fingerprint)+".pem")
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), renameio.WriteFile(path, pem, 0o600))
	}
	if err != nil {
		progress.Warnf(t.Sink, "cannot fetch the pinned certificate for the provider: %v", err)
		return target.CAFile
	}
	return path
}

// lockDir is where runs on this machine keep each other from the same VM ids.
func (t *Target) lockDir() (string, error) {
	if dir := cmp.Or(t.Settings.LockDir, t.Program.LockDir); dir != "" {
		return dir, nil
	}
	if t.Program.NoLockDir != nil {
		return "", t.Program.NoLockDir
	}
	base, err := scratch.Base(os.TempDir())
	return filepath.Join(base, "locks"), err
}

// UnlimitedPhase stands for a phase without a limit.
const UnlimitedPhase = 24 * time.Hour

// claimMargin is more than a run takes beside its phase up, clocks that differ included.
const claimMargin = 15 * time.Minute

// claimLasts is how long a claim on VM ids of a run that vanished keeps others away.
func (t *Target) claimLasts() time.Duration {
	if t.Settings.Timeouts.Up <= 0 {
		return UnlimitedPhase
	}
	return t.Settings.Timeouts.Up + claimMargin
}
