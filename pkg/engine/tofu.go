package engine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/deploy/proxmox/provision"
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
		if err := provision.CheckMirror(mirror, binary.Flavor); err != nil {
			return Error{ExitConfig, err}
		}
	}
	return nil
}

// tofuCheck looks for tofu and for the provider in a mirror. It reads the record, and changes nothing.
func (s *session) tofuCheck(download bool) api.Check {
	return func(ctx context.Context) []api.Finding {
		search := s.tofuOfCluster()
		if !download {
			search.Downloaders = nil
		}
		f := api.Finding{ID: "tofu", Title: "OpenTofu or Terraform is there"}
		binary, err := opentofu.Find(ctx, search)
		switch {
		case err != nil && search.Explicit != "":
			f.Status, f.Detail, f.Fix = api.Fail, err.Error(), "unset tofu_bin, or name a program that works; "+progress.HintOf(err)
		case err != nil && !download:
			f.Status, f.Detail, f.Fix = api.Warn, err.Error(), "up downloads OpenTofu; or "+progress.HintOf(err)
		case err != nil:
			f.Status, f.Detail, f.Fix = api.Fail, err.Error(), progress.HintOf(err)
		default:
			f.Status, f.Detail = api.Pass, fmt.Sprintf("%s %s at %s", binary.Flavor, binary.Version, binary.Path)
		}
		return append([]api.Finding{f}, s.mirrorFinding(cmp.Or(binary.Flavor, opentofu.OpenTofu))...)
	}
}

// mirrorFinding looks whether the mirror that providers come from holds ours.
func (s *session) mirrorFinding(flavor string) []api.Finding {
	f := api.Finding{ID: "provider", Title: "provider can be installed", Status: api.Pass}
	mirror := s.record.Target.ProviderMirror
	if mirror == "" {
		f.Status, f.Detail = api.Skip, "it comes from the registry"
		return []api.Finding{f}
	}
	f.Detail = "from " + mirror
	if err := provision.CheckMirror(mirror, flavor); err != nil {
		f.Status, f.Detail = api.Fail, err.Error()
		f.Fix = cmp.Or(progress.HintOf(err), "set provider_mirror to the directory of a mirror that holds it, or set provider to registry")
	}
	return []api.Finding{f}
}

// endOrphans ends what runs that died have left at work on an owner's cluster, on this machine.
func endOrphans(ctx context.Context, ownerID string, sink progress.Sink) {
	opentofu.EndOrphans(ctx, ownerID, sink)
}

// salvage reads from a cluster's directory what OpenTofu has left there: whose its VMs are and where.
func salvage(dir string) (deploy.Recorded, error) { return provision.Salvage(dir) }
