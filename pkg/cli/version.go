package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"hive-test/pkg/provision/tofu"
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
		Args:  cobra.NoArgs,
	}
	load := a.settings(cmd, "tofu_bin")
	download := cmd.Flags().Bool("download", false, "with -v: download OpenTofu where neither it nor terraform is there")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "hive-test %s %s/%s %s\n", programVersion(), runtime.GOOS, runtime.GOARCH, runtime.Version())
		if !settings.Verbose {
			return nil
		}
		search := a.tofuSearch(settings, nil)
		if *download {
			search = a.tofuOrDownload(settings, nil)
		}
		binary, err := tofu.Find(ctx, search)
		if err != nil {
			return codeError{ExitConfig, err}
		}
		fmt.Fprintf(a.Stdout, "%s %s at %s\n", binary.Flavor, binary.Version, binary.Path)
		for _, attempt := range binary.Tried {
			fmt.Fprintf(a.Stdout, "  %s\n", attempt)
		}
		return nil
	})
	return cmd
}
