package engine

// cacheDir is where programs and providers are kept between runs.
func (e *Engine) cacheDir() string {
	if dir := a.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "hive-test")
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "hive-test")
	}
	return ""
}

// tofuSearch says where tofu or terraform is looked for.
func (e *Engine) tofuSearch(settings config.Settings, sink progress.Sink) tofu.FindOptions {
	options := tofu.FindOptions{Explicit: settings.TofuBin, Env: a.Environ, CacheDir: a.cacheDir(), Sink: sink}
	if self, err := os.Executable(); err == nil {
		options.Beside = filepath.Dir(self)
	}
	return options
}

// checkMirror fails early where the mirror that providers come from does not hold ours.
func (s *session) checkMirror(binary tofu.Binary) error {
	if mirror := s.record.Target.ProviderMirror; mirror != "" {
		if err := tofu.CheckMirror(mirror, binary.Flavor); err != nil {
			return Error{ExitConfig, err}
		}
	}
	return nil
}

// tofuOrDownload is tofuSearch that may download one where there is none.
func (e *Engine) tofuOrDownload(settings config.Settings, sink progress.Sink) tofu.FindOptions {
	options := a.tofuSearch(settings, sink)
	options.Downloaders = tofu.DefaultDownloaders()
	return options
}

// tofuOfCluster looks for what made the cluster, whatever PATH is now, unless the user names another or it is gone.
func (s *session) tofuOfCluster() tofu.FindOptions {
	search := s.tofuOrDownload(s.settings, s.sink)
	if _, err := os.Stat(s.record.Target.TofuBinary); search.Explicit == "" && err == nil {
		search.Explicit = s.record.Target.TofuBinary
	}
	return search
}

// checkTofu fails early, before anything is made, where there is no tofu to make it with.
func (s *session) checkTofu(ctx context.Context) error {
	if s.record.Spec.Deployer == cluster.DeployerExisting {
		return nil
	}
	binary, err := tofu.Find(ctx, s.tofuOfCluster())
	if err != nil {
		return Error{ExitConfig, err}
	}
	s.record.Target.TofuBinary = binary.Path
	return s.checkMirror(binary)
}

// provisioner is what makes and removes the cluster's machines.
func (s *session) provisioner() provision.Provisioner {
	if s.record.Spec.Deployer == cluster.DeployerExisting {
		return existing{}
	}
	target := s.record.Target
	if !s.needsHypervisorSSH() {
		target.HypervisorSSHUser, target.HypervisorSSHKeyPath = "", ""
	}
	if key := target.HypervisorSSHKeyPath; key != "" && s.settings.SSH.AgentSocket != "" && !remote.OwnKey(key) {
		target.HypervisorSSHKeyPath = "" // the provider asks for no passphrase: the agent has it
	}
	return tofu.New(tofu.Options{
		Find: s.tofuOfCluster(), Env: s.tofuEnviron(), ProviderMirror: target.ProviderMirror, CacheDir: s.cacheDir(),
		OwnerID: s.record.Owner.ID, Endpoint: proxmox.BaseURL(target.Endpoint), Token: s.token(), CAFile: s.providerCA(), Insecure: target.Insecure,
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

// providerCA is the file of certificates that the provider trusts. It knows no fingerprints: where one is pinned, it is given
// the certificate itself, after the fingerprint was compared.
func (s *session) providerCA() string {
	target := s.record.Target
	if target.Fingerprint == "" || target.Insecure {
		return target.CAFile
	}
	ctx, cancel := context.WithTimeout(context.Background(), certificateTime)
	defer cancel()
	pem, err := proxmox.PinnedCertificate(ctx, target.Endpoint, target.Fingerprint)
	path := filepath.Join(s.cacheDir(), "certificates", cluster.Hash(target.Fingerprint)+".pem")
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
func (s *session) lockDir() string { return cmp.Or(s.settings.LockDir, s.locks) }

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
