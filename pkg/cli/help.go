package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
)

// exitCodesTopic is `hive-test help exit-codes`.
func exitCodesTopic() *cobra.Command {
	text := "Exit codes are an interface: scripts may rely on them.\n\n"
	for _, row := range exitCodes() {
		text += fmt.Sprintf("  %-4s %s\n", strconv.Itoa(int(row.Code)), row.Meaning)
	}
	return topic("exit-codes", "what each exit code means", text+"\nfull returns the first failing phase's code; a leak is always printed, and is the code when nothing failed before it.\n")
}

// settingsTopic is `hive-test help settings`.
func settingsTopic() *cobra.Command {
	cmd := topic("settings", "every setting: flag, environment variable, key of the file, default", "")
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		out := cmd.OutOrStdout()
		fmt.Fprintln(out, "A setting is taken from its flag, else the environment, else the file, else its default.")
		fmt.Fprintln(out)
		_ = config.WriteTable(out) // stdout that cannot be written to leaves nobody to tell
	})
	return cmd
}

// topic is a command that only has a help text.
func topic(name, short, text string) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Long: text}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), cmd.Long) })
	return cmd
}
