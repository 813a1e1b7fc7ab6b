package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hive-test/pkg/config"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/provision"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
)

// Tofu is an OpenTofu or Terraform.
type Tofu = opentofu.Binary

// FindTofu finds the OpenTofu or Terraform that clusters are made with. Where neither is there, it downloads OpenTofu
// if download says so.
func FindTofu(ctx context.Context, program Program, settings config.Settings, download bool) (Tofu, error) {
	search := tofuSearch(program, settings, nil)
	if !download {
		search.Downloaders = nil
	}
	binary, err := opentofu.Find(ctx, search)
	missing, isMissing := errors.AsType[*opentofu.NotFoundError](err)
	switch {
	case err == nil:
		return binary, nil
	case isMissing && download && settings.TofuBin == "":
		return binary, configError(missing.DownloadError())
	case isMissing && !download:
		return binary, &NoTofuError{missing}
	}
	return binary, configError(err)
}

// NoTofuError says that there is neither OpenTofu nor Terraform, where it was only asked.
type NoTofuError struct{ missing *opentofu.NotFoundError }

// Error is one line, with the remedy first.
func (e *NoTofuError) Error() string {
	var reasons []string
	for _, a := range e.missing.Tried {
		if a.Source != opentofu.SourceDownload {
			reasons = append(reasons, a.String())
		}
	}
	remedy := "install OpenTofu, or let up download it"
	if len(reasons) == 1 && e.missing.Tried[0].Source == opentofu.SourceExplicit {
		remedy = "unset tofu_bin, or name a program that works"
	}
	return fmt.Sprintf("not found: %s (%s)", remedy, strings.Join(reasons, "; "))
}

// tofuSearch says where tofu or terraform is looked for, and where one comes from if there is none.
func tofuSearch(program Program, settings config.Settings, sink progress.Sink) opentofu.FindOptions {
	options := opentofu.FindOptions{
		Explicit: settings.TofuBin, Env: program.Environ, CacheDir: program.CacheDir, Sink: sink,
		Downloaders: opentofu.DefaultDownloaders(),
	}
	if self, err := os.Executable(); err == nil {
		options.Beside = filepath.Dir(self)
	}
	return options
}

// tofuOfCluster looks for what made the cluster, whatever PATH is now, unless the user names another or it is gone.
func (t *Target) tofuOfCluster() opentofu.FindOptions {
	search := tofuSearch(t.Program, t.Settings, t.Sink)
	if _, err := os.Stat(t.place().TofuBinary); search.Explicit == "" && err == nil {
		search.Explicit = t.place().TofuBinary
	}
	return search
}

// CheckTools fails early, before anything is made, where a program is missing to make it with.
func (t *Target) CheckTools(ctx context.Context) error {
	if !kindOf(t.Record).tofu {
		return nil
	}
	binary, err := opentofu.Find(ctx, t.tofuOfCluster())
	if err != nil {
		return configError(err)
	}
	if _, err := t.credentials(config.CredentialsTofu, config.CredentialsState)(ctx); err != nil {
		return err
	}
	placement.ChangeTarget(&t.Record.Target, func(target *placement.Target) { target.TofuBinary = binary.Path })
	return t.checkMirror(binary)
}

// credentials returns what reads the variables that OpenTofu alone gets.
func (t *Target) credentials(owners ...string) func(context.Context) (opentofu.Environment, error) {
	return func(ctx context.Context) (opentofu.Environment, error) {
		variables, hidden, err := t.Settings.CredentialsOf(ctx, owners...)
		t.Program.Secrets.Learn(hidden...)
		if err != nil {
			err = configError(err)
		}
		return opentofu.Environment{Variables: variables, Secrets: hidden}, err
	}
}

// checkMirror fails early where the mirror that providers come from does not hold ours.
func (t *Target) checkMirror(binary opentofu.Binary) error {
	if mirror := t.place().ProviderMirror; mirror != "" {
		if err := provision.CheckMirror(mirror, binary.Flavor); err != nil {
			return configError(err)
		}
	}
	return nil
}

// TofuOptions say where OpenTofu and providers come from, for what others run with them.
type TofuOptions = opentofu.Options

// StackTofu says where OpenTofu and providers come from for stacks of others' than the cluster's VMs.
func (t *Target) StackTofu() TofuOptions {
	return TofuOptions{
		Find: t.tofuOfCluster(), Env: t.Program.TofuEnviron, ProviderMirror: t.providerMirror(t.place().ProviderMirror),
		CacheDir: t.Program.CacheDir,
	}
}
