package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy/existing"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
	"hive-test/pkg/provision"
	"hive-test/pkg/provision/tofu"
	"hive-test/pkg/remote"
	"hive-test/pkg/scratch"

	"github.com/google/renameio/v2"
)

// lazyProvisioner is made when it is first needed: what it is told is known only when the run has begun.
type lazyProvisioner struct{ get func() provision.Provisioner }

func (s *session) lazily() lazyProvisioner { return lazyProvisioner{sync.OnceValue(s.provisioner)} }

func (l lazyProvisioner) Up(ctx context.Context, r provision.Request) (provision.Result, error) {
	return l.get().Up(ctx, r)
}

func (l lazyProvisioner) Plan(ctx context.Context, r provision.Request) (provision.Plan, error) {
	return l.get().Plan(ctx, r)
}

func (l lazyProvisioner) PlanText(ctx context.Context, r provision.Request) (string, error) {
	return l.get().PlanText(ctx, r)
}

func (l lazyProvisioner) Down(ctx context.Context, r provision.Request) error {
	return l.get().Down(ctx, r)
}

// noProvisioner makes and removes nothing: the API deletes as well.
type noProvisioner struct{ existing.Hosts }

func (noProvisioner) PlanText(context.Context, provision.Request) (string, error) { return "", nil }

// provisioner is what makes and removes the cluster's machines.
func (s *session) provisioner() provision.Provisioner {
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
	return tofu.New(tofu.Options{
		Find: s.tofuOfCluster(), Env: s.TofuEnviron, ProviderMirror: target.ProviderMirror, CacheDir: s.CacheDir,
		OwnerID: s.record.Owner.ID, Endpoint: api.BaseURL(target.Endpoint), Token: s.token(), CAFile: target.CAFile, FetchCA: s.fetchCA(), Insecure: target.Insecure,
		SSHUser: target.HypervisorSSHUser, SSHPrivateKeyPath: target.HypervisorSSHKeyPath, SSHAgent: s.settings.SSH.AgentSocket,
		LogPath: s.runFile("tofu.log"), Sink: s.sink, Parallelism: s.settings.Parallelism,
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

// fetchCA returns what gets the file of certificates that the provider trusts; nil: it is the CA file. The provider knows no fingerprints: where one is pinned, it is given
// the certificate itself, after the fingerprint was compared.
func (s *session) fetchCA() func(context.Context) string {
	if target := s.record.Target; target.Fingerprint == "" || target.Insecure {
		return nil
	}
	return s.pinnedCA
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
		s.sink.Emit(progress.Event{Kind: progress.Warning, Message: "the provider cannot be told which certificate to trust: " + err.Error()})
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

// hiveOptions are what configure installs: what the user named, or what came with the simulator.
func (s *session) hiveOptions() hive.Options {
	options := installed(s.settings)
	if options.Binary == "" && options.Tarball == "" && options.SourceDir == "" && options.Repo == "" {
		options.Binary = s.record.Binary
	}
	if s.settings.Given("packages") {
		s.record.Packages = options.Packages
	}
	options.Packages = s.record.Packages
	if s.settings.Given("hive.layout") {
		s.record.Layout = options.Layout
	}
	if s.record.Layout != "" {
		options.Layout = s.record.Layout
	}
	options.SkipCloudInit = s.record.Spec.Deployer == cluster.DeployerExisting
	options.OSEssentials = s.record.Spec.CloudInit == cluster.CloudInitNone
	return options
}

// installed is what the user has named to be installed, and how.
func installed(settings config.Settings) hive.Options {
	return hive.Options{
		Binary: settings.Binary, Tarball: settings.Tarball, SourceDir: settings.SourceDir, Build: settings.Build, Repo: settings.Repo, Ref: settings.Ref,
		ScriptsDir: settings.ScriptsDir, Layout: settings.Hive.Layout, InitFlags: settings.Hive.InitFlags, JoinFlags: settings.Hive.JoinFlags, HealthTimeout: settings.HealthTimeout,
		ProbeTimeout: settings.Hive.ProbeTimeout,
		Packages:     packages(settings),
	}
}

// packages are the names that the setting lists, with commas or blanks between them, too.
func packages(settings config.Settings) []string {
	return strings.FieldsFunc(strings.Join(settings.Packages, ","), func(r rune) bool { return r == ',' || r == ' ' })
}
