package cli

import (
	"context"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
)

// configCommand groups what is about the config file and the settings that come of it.
func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "the settings in force, and where each comes from",
		Long: `config shows what counts of flags, environment, config file and defaults. A setting is taken from its flag, else the environment,
else the file, else its default. In the file, environments are sets of values by name:

  node_count: 3
  environments:
    staging: {node_count: 5}
    prod: {protected: true, node_count: 5}

--env chooses one, or HIVE_TEST_ENVIRONMENT, or environment in the file. Its values come before the rest of the file.`,
		Example: `  hive-test config show
  hive-test config show --env prod --given`,
	}
	cmd.AddCommand(a.configShowCommand())
	return cmd
}

func (a *app) configShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "print every setting in force with where it comes from; secrets are hidden, references stay as they are",
		Example: `  hive-test config show
  hive-test config show --given --node-count 5
  hive-test config show --env prod -o json`,
		Args: cobra.NoArgs,
	}
	load := a.settingsOf(cmd, "config")
	config.OtherFlags(cmd.Flags(), "config")
	given := cmd.Flags().Bool("given", false, "leave out those that have their defaults")
	cmd.RunE = run(func(context.Context, *cobra.Command, []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		document := configOf(settings, *given)
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		return printConfig(a.page(a.Stdout, settings), document)
	})
	return cmd
}

// configJSON is the shape of `config show -o json`. Secrets are hidden.
type configJSON struct {
	Schema      int           `json:"schema"`
	Environment string        `json:"environment"` // that is chosen; empty: none
	Settings    []settingJSON `json:"settings"`
}

// settingJSON is a setting in force. From is "flag --x", "environment X", "FILE:LINE", "FILE:LINE, environments.NAME" or
// "default".
type settingJSON struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// configOf returns all settings, or those that were given anywhere.
func configOf(settings config.Settings, given bool) configJSON {
	document := configJSON{Schema: outputSchema, Environment: settings.Environment, Settings: []settingJSON{}}
	for _, s := range engine.EffectiveSettings(settings, given) {
		document.Settings = append(document.Settings, settingJSON{s.Key, s.Value, s.From})
	}
	return document
}

func printConfig(paper page, document configJSON) error {
	if len(document.Settings) == 0 {
		return paper.line("no setting is given: all have their defaults", "")
	}
	var rows [][]string
	for _, s := range document.Settings {
		rows = append(rows, []string{s.Key, dash(s.Value), s.From})
	}
	return paper.table([]column{{name: "SETTING"}, {name: "VALUE", least: 8}, {name: "FROM", least: 12}}, rows)
}
