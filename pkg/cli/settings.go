package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
)

// settingsCommand is `hive-test settings`. Its help tells of every setting.
func (a *app) settingsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "the settings in force, and where each comes from; its help lists every setting there is",
		Example: `  hive-test settings
  hive-test settings --node-count 5
  hive-test settings --all -o json`,
		Args: cobra.NoArgs,
	}
	load := a.settings(cmd)
	config.OtherFlags(cmd.Flags(), cmd.Name())
	all := cmd.Flags().Bool("all", false, "those with their defaults, too")
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprint(cmd.OutOrStdout(), settingsText(), "\n") // the writer keeps an error
		_ = printUsage(cmd)
	})
	cmd.RunE = run(func(context.Context, *cobra.Command, []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		document := settingsOf(settings, *all)
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		return printSettings(a.page(a.Stdout, settings), document)
	})
	return cmd
}

// settingsJSON is the shape of `settings -o json`. Secrets are hidden.
type settingsJSON struct {
	Schema   int           `json:"schema"`
	Settings []settingJSON `json:"settings"`
}

// settingJSON is a setting in force. From is "flag --x", "environment X", "FILE:LINE" or "default".
type settingJSON struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// settingsOf returns the settings that were given anywhere, or all.
func settingsOf(settings config.Settings, all bool) settingsJSON {
	document := settingsJSON{Schema: outputSchema, Settings: []settingJSON{}}
	for _, v := range settings.Values() {
		if all || settings.Given(v.Key) {
			document.Settings = append(document.Settings, settingJSON{v.Key, v.Value, v.Source})
		}
	}
	return document
}

func printSettings(paper page, document settingsJSON) error {
	if len(document.Settings) == 0 {
		return paper.line("no setting is given: all have their defaults, which --all shows", "")
	}
	var rows [][]string
	for _, s := range document.Settings {
		rows = append(rows, []string{s.Key, dash(s.Value), s.From})
	}
	return paper.table([]column{{name: "SETTING"}, {name: "VALUE", least: 8}, {name: "FROM", least: 12}}, rows)
}
