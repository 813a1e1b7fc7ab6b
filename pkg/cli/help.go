package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

// exitCodesTopic is `hive-test help exit-codes`.
func exitCodesTopic() *cobra.Command {
	text := "Exit codes are an interface: scripts may rely on them.\n\n"
	for _, row := range engine.ExitCodes() {
		text += fmt.Sprintf("  %-4s %s\n", strconv.Itoa(int(row.Code)), row.Meaning)
	}
	return topic(
		"exit-codes", "what each exit code means",
		text+"\nfull returns the first failing phase's code; a leak is always printed, and is the code when nothing failed before it.\n",
	)
}

// settingsTopic is `hive-test help settings`.
func settingsTopic() *cobra.Command {
	cmd := topic("settings", "every setting there is, and how it is set", "")
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), settingsText()) })
	return cmd
}

// settingsText tells of every setting, in the groups that flags have in help.
func settingsText() string {
	var out strings.Builder
	out.WriteString(wrapText("A setting is taken from its flag, else the environment, else the file, else its default. " +
		"Of the file, the environment that --env chooses comes before the rest. `hive-test config show` prints all and " +
		"where each comes from, --given those that are given, -o json for programs."))
	for _, group := range config.Groups() {
		out.WriteString("\n" + string(group) + ":\n")
		for _, s := range config.Table() {
			if s.Group == group {
				writeSetting(&out, s)
			}
		}
	}
	return out.String()
}

// writeSetting tells what a setting is, where it is set beside its key in the file, and which verbs use it.
func writeSetting(out *strings.Builder, s config.Setting) {
	meaning, ways, verbs := s.Meaning(), s.Env, strings.Fields(s.Verbs)
	if usual := s.DefaultText(); usual != "" {
		meaning += " (default " + usual + ")"
	}
	if s.Flag != "" {
		ways = append([]string{"--" + s.Flag}, ways...)
	}
	if s.Global() {
		verbs = []string{"every verb"}
	}
	writeRow(out, "  "+s.Key, flagColumn, meaning)
	writeRow(out, "", flagColumn, strings.Join(ways, ", "))
	writeRow(out, "", flagColumn, "used by "+strings.Join(verbs, ", "))
}

// The groups of commands in the program's help.
const (
	verbGroup  = "verbs"
	topicGroup = "topics"
)

// completionExample installs completion, a line for each shell; README has the same.
const completionExample = `  source <(hive-test completion bash)                        # in ~/.bashrc
  source <(hive-test completion zsh)                         # in ~/.zshrc
  hive-test completion fish | source                         # in config.fish
  hive-test completion powershell | Out-String | Invoke-Expression  # in $PROFILE`

// helpCommand is `hive-test help VERB`.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]",
		Short: "what a verb does and its flags, or a topic",
		Example: `  hive-test help configure
  hive-test help settings`,
		RunE: func(cmd *cobra.Command, args []string) error {
			asked, unknown, err := cmd.Root().Find(args)
			if err != nil {
				return usage(err)
			}
			if len(unknown) > 0 && asked.HasParent() && !asked.HasSubCommands() {
				return usage(progress.WithHint(
					fmt.Errorf("help takes one verb, not %q", strings.Join(args, " ")),
					"`hive-test help "+asked.Name()+"`",
				))
			}
			if len(unknown) > 0 {
				return unknownVerb(asked, unknown[0])
			}
			asked.InitDefaultHelpFlag() // it would be in the text of VERB --help
			return asked.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (
			[]cobra.Completion, cobra.ShellCompDirective,
		) {
			var names []cobra.Completion
			if asked, unknown, err := cmd.Root().Find(args); err == nil && len(unknown) == 0 {
				for _, c := range asked.Commands() {
					if !c.Hidden {
						names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// suggestFor tells what other programs call these verbs.
func suggestFor(root *cobra.Command) {
	words := map[string][]string{
		"up":     {"create", "start", "make"},
		"down":   {"destroy", "delete", "remove", "rm", "stop"},
		"status": {"list", "ls", "get", "show", "ps"},
		"exec":   {"run"},
		"ssh":    {"shell", "login"},
		"cp":     {"copy", "scp"},
		"reap":   {"clean", "cleanup", "prune", "gc"},
		"doctor": {"check", "preflight"},
		"runs":   {"history"},
	}
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = words[cmd.Name()]
	}
}

// topic is a command that only has a help text.
func topic(name, short, text string) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Long: text, GroupID: topicGroup,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), wrapText(cmd.Long)) })
	return cmd
}
