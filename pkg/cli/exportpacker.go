package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
	"hive-test/pkg/template"
)

func (a *app) templateExportPackerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export-packer DIR",
		Short: "write files from which Packer makes a template by itself",
		Long: `export-packer writes what template build --builder packer would have Packer do into a directory, for those who run Packer
themselves: the VM is cloned from another one (-only=proxmox-clone.layer), or installed from Ubuntu's ISO (-only=proxmox-iso.layer). What
the settings know stands in hive-test.auto.pkrvars.json; user and password, or token, come from the environment (PROXMOX_USERNAME,
PROXMOX_PASSWORD, PROXMOX_TOKEN). Nothing is asked of Proxmox VE.`,
		Example: `  hive-test template export-packer ./packer --layer base
  cd packer && packer init .
  packer build -only=proxmox-clone.layer -var clone_vm=ubuntu-cloud .
  hive-test template verify base && hive-test template promote base`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return usage(progress.WithHint(errors.New("template export-packer needs a directory"), usageLine(cmd)))
		},
	}
	layer := cmd.Flags().String("layer", template.Base, "layer that is made")
	syntax := cmd.Flags().String("syntax", engine.PackerSyntaxes()[0], "syntax of the files: plugin, as Packer has it since 1.7, or 1.6")
	load := a.settingsOf(cmd, "template")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if !slices.Contains(engine.PackerSyntaxes(), *syntax) {
			return usage(fmt.Errorf("there is no syntax %q: use %s", *syntax, strings.Join(engine.PackerSyntaxes(), " or ")))
		}
		return a.work(settings, func(e *engine.Engine) error {
			identity, err := e.ExportPacker(ctx, engine.ExportPackerRequest{
				Request: a.request(*layer, settings), Dir: args[0], Syntax: *syntax,
			})
			return a.printTemplateDone(settings, "written", identity, err)
		})
	})
	return cmd
}
