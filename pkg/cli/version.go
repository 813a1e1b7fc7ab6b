package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
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
		"download", false, "download OpenTofu where neither it nor terraform is there, or exit 3",
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
		if settings.Verbose || *download {
			if err := a.findTofu(ctx, settings, *download, &document); err != nil {
				return err
			}
		}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		return document.print(a.Stdout)
	})
	return cmd
}

// findTofu tells in the document which tofu is used, or why none is.
func (a *app) findTofu(ctx context.Context, settings config.Settings, download bool, document *versionJSON) error {
	e, err := engine.Open(ctx, engine.Options{Environ: a.Environ, CacheDir: a.cacheDir()})
	if err != nil {
		return err
	}
	binary, err := e.Tofu(ctx, settings, download)
	if missing, ok := errors.AsType[*engine.NoTofuError](err); ok {
		document.Lacks = []lackJSON{{Name: "tofu", Reason: missing.Error()}}
		return nil
	}
	if err == nil {
		document.Tofu = &binary
	}
	return err
}

// versionJSON is the shape of `version -o json`.
type versionJSON struct {
	Schema  int                 `json:"schema"`
	Version string              `json:"version"`
	OS      string              `json:"os"`
	Arch    string              `json:"arch"`
	Go      string              `json:"go"`
	Tofu    *engine.TofuProgram `json:"tofu,omitempty"`
	Lacks   []lackJSON          `json:"lacks,omitempty"` // with -v: what is not there
}

// lackJSON is a program that is not there.
type lackJSON struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (v versionJSON) print(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "hive-test %s %s/%s %s\n", v.Version, v.OS, v.Arch, v.Go)
	for _, lack := range v.Lacks {
		fmt.Fprintf(&out, "%s: %s\n", lack.Name, oneLine(lack.Reason))
	}
	if v.Tofu != nil {
		fmt.Fprintf(&out, "%s %s at %s\n", v.Tofu.Flavor, v.Tofu.Version, v.Tofu.Path)
		for _, attempt := range v.Tofu.Tried {
			fmt.Fprintf(&out, "  %s\n", attempt)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
