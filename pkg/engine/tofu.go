package engine

import (
	"context"
	"os"
	"path/filepath"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
)

// Tofu finds the OpenTofu or Terraform that clusters are made with. Where neither is there, it downloads OpenTofu if
// download says so.
func (e *Engine) Tofu(ctx context.Context, settings config.Settings, download bool) (opentofu.Binary, error) {
	search := e.tofuSearch(settings, nil)
	if download {
		search = e.tofuOrDownload(settings, nil)
	}
	binary, err := opentofu.Find(ctx, search)
	if err != nil {
		return binary, Error{ExitConfig, err}
	}
	return binary, nil
}

// tofuSearch says where tofu or terraform is looked for.
func (e *Engine) tofuSearch(settings config.Settings, sink progress.Sink) opentofu.FindOptions {
	options := opentofu.FindOptions{Explicit: settings.TofuBin, Env: e.Environ, CacheDir: e.CacheDir, Sink: sink}
	if self, err := os.Executable(); err == nil {
		options.Beside = filepath.Dir(self)
	}
	return options
}

// tofuOrDownload is tofuSearch that may download one where there is none.
func (e *Engine) tofuOrDownload(settings config.Settings, sink progress.Sink) opentofu.FindOptions {
	options := e.tofuSearch(settings, sink)
	options.Downloaders = opentofu.DefaultDownloaders()
	return options
}

// tofuOfCluster looks for what made the cluster, whatever PATH is now, unless the user names another or it is gone.
func (s *session) tofuOfCluster() opentofu.FindOptions {
	search := s.tofuOrDownload(s.settings, s.sink)
	if _, err := os.Stat(s.record.Target.TofuBinary); search.Explicit == "" && err == nil {
		search.Explicit = s.record.Target.TofuBinary
	}
	return search
}

// checkTofu fails early, before anything is made, where there is no tofu to make it with.
func (s *session) checkTofu(ctx context.Context) error {
	if s.record.Spec.Deployer != cluster.DeployerProxmox {
		return nil
	}
	binary, err := opentofu.Find(ctx, s.tofuOfCluster())
	if err != nil {
		return Error{ExitConfig, err}
	}
	s.record.Target.TofuBinary = binary.Path
	return s.checkMirror(binary)
}

// checkMirror fails early where the mirror that providers come from does not hold ours.
func (s *session) checkMirror(binary opentofu.Binary) error {
	if mirror := s.record.Target.ProviderMirror; mirror != "" {
		if err := opentofu.CheckMirror(mirror, binary.Flavor); err != nil {
			return Error{ExitConfig, err}
		}
	}
	return nil
}
