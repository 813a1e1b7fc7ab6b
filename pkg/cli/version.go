package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"hive-test/pkg/engine"
)

// version is set by the linker; without it the build information tells.
var version string

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "the version; with -v also which tofu or terraform is used, and why",
		Example: `  hive-test version
  hive-test version -v -o json`,
		Args: cobra.NoArgs,
	}
	load := a.settings(cmd)
	download := cmd.Flags().Bool(
		"download", false, "with -v: download OpenTofu where neither it nor terraform is there",
	)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		document := versionJSON{
			Schema: outputSchema, Version: programVersion(), OS: runtime.GOOS, Arch: runtime.GOARCH,
			Go: runtime.Version(),
		}
		if settings.Verbose {
			e, err := engine.Open(ctx, engine.Options{Environ: a.Environ, CacheDir: a.cacheDir()})
			if err != nil {
				return err
			}
			binary, err := e.Tofu(ctx, settings, *download)
			if err != nil {
				return err
			}
			document.Tofu = &binary
		}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		document.print(a.Stdout)
		return nil
	})
	return cmd
}

// versionJSON is the shape of `version -o json`.
type versionJSON struct {
	Schema  int                 `json:"schema"`
	Version string              `json:"version"`
	OS      string              `json:"os"`
	Arch    string              `json:"arch"`
	Go      string              `json:"go"`
	Tofu    *engine.TofuProgram `json:"tofu,omitempty"`
}

func (v versionJSON) print(w io.Writer) {
	fmt.Fprintf(w, "hive-test %s %s/%s %s\n", v.Version, v.OS, v.Arch, v.Go)
	if v.Tofu == nil {
		return
	}
	fmt.Fprintf(w, "%s %s at %s\n", v.Tofu.Flavor, v.Tofu.Version, v.Tofu.Path)
	for _, attempt := range v.Tofu.Tried {
		fmt.Fprintf(w, "  %s\n", attempt)
	}
}
