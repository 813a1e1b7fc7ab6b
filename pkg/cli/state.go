package cli

import "github.com/spf13/cobra"

// stateCommand is `hive-test state`, the verbs about the states of OpenTofu and Terraform.
func (a *app) stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "states of OpenTofu and Terraform that a team shares",
		Long: `state serves states to the HTTP backend of OpenTofu and Terraform, for teams that have no other place to share them. Every
version is kept, with who wrote it and when.`,
		Example: `  hive-test state serve --storage ./states --users ./users`,
	}
	cmd.AddCommand(a.stateServeCommand())
	return cmd
}
