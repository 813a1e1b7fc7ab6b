package cli

import (
	"context"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
)

// stateCommand is `hive-test state`, the verbs about the states of OpenTofu and Terraform.
func (a *app) stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "the states of clusters, as OpenTofu keeps them, and a server where a team shares them",
		Long: `state reads and writes what OpenTofu knows of a cluster's VMs, wherever that is kept: in the cluster's directory or in a backend.
What is read is shown without encryption, and sensitive values are not. No verb here changes a VM.

state serve serves states to the HTTP backend of OpenTofu and Terraform, for teams that have no other place to share them. Every
version is kept, with who wrote it and when: state history, diff and rollback work on those.`,
		Example: `  hive-test state list dev1
  hive-test state migrate dev1 --to local
  hive-test state serve --storage ./states --users ./users`,
	}
	cmd.AddCommand(
		a.stateListCommand(), a.stateShowCommand(), a.stateOutputCommand(), a.statePullCommand(), a.statePushCommand(),
		a.stateUnlockCommand(), a.stateMigrateCommand(), a.stateHistoryCommand(), a.stateDiffCommand(), a.stateRollbackCommand(),
		a.stateCheckCommand(stateInit()), a.stateCheckCommand(stateValidate()), a.stateCheckCommand(stateFormat()),
		a.stateServeCommand(),
	)
	return cmd
}

// onState makes do run with the settings of a verb of state.
func (a *app) onState(cmd *cobra.Command, do func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error) *cobra.Command {
	load := a.settingsOf(cmd, "state")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error { return do(ctx, e, args, settings) })
	})
	return cmd
}

// yesFlag is the flag that answers the question of a verb.
func yesFlag(cmd *cobra.Command, what string) *bool {
	return cmd.Flags().Bool("yes", false, what+" without asking")
}
