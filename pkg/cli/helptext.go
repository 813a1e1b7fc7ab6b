package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hive-test/pkg/config"
)

// Help is written for a terminal of this width: what flags do begins at a column of its own, below the flag where that
// is too long.
const (
	helpWidth  = 80
	flagColumn = 30
	verbColumn = 14
)

// printHelp writes what a command is, and how it is called.
func printHelp(cmd *cobra.Command, _ []string) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprint(cmd.OutOrStdout(), wrapText(text), "\n") // the writer keeps an error
	_ = printUsage(cmd)
}

// printUsage writes how a command is called.
func printUsage(cmd *cobra.Command) error {
	var out strings.Builder
	out.WriteString("Usage:\n")
	if !cmd.HasAvailableSubCommands() || cmd.Annotations[documents] != "" {
		out.WriteString("  " + cmd.UseLine() + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		out.WriteString("  " + cmd.CommandPath() + " [command]\n")
	}
	if cmd.Example != "" {
		out.WriteString("\nExamples:\n" + strings.TrimRight(cmd.Example, "\n") + "\n")
	}
	for _, group := range cmd.Groups() {
		writeCommands(&out, group.Title, cmd, func(c *cobra.Command) bool { return c.GroupID == group.ID })
	}
	if len(cmd.Groups()) == 0 {
		writeCommands(&out, "Commands:", cmd, func(*cobra.Command) bool { return true })
	}
	writeFlags(&out, "Flags", cmd, "")
	for _, group := range config.Groups() {
		writeFlags(&out, string(group), cmd, string(group))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "\n\"%s [command] --help\" tells more of a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStdout(), out.String())
	return err
}

// inOrder leaves flags in the order in which they were added, for help: what is used most is first.
func inOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags, cmd.PersistentFlags().SortFlags = false, false
	for _, sub := range cmd.Commands() {
		inOrder(sub)
	}
}

func writeCommands(out *strings.Builder, title string, cmd *cobra.Command, chosen func(*cobra.Command) bool) {
	var rows strings.Builder
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && chosen(c) {
			writeRow(&rows, "  "+c.Name(), verbColumn, c.Short)
		}
	}
	if rows.Len() > 0 {
		out.WriteString("\n" + title + "\n" + rows.String())
	}
}

// writeFlags writes the flags of a group, in the order in which they were added; the empty group is that of the
// command's own.
func writeFlags(out *strings.Builder, title string, cmd *cobra.Command, group string) {
	var rows strings.Builder
	write := func(f *pflag.Flag) {
		if !f.Hidden && config.GroupOf(f) == group {
			name := "      --" + f.Name
			if f.Shorthand != "" {
				name = "  -" + f.Shorthand + ", --" + f.Name
			}
			if value := config.FlagValue(f); value != "" {
				name += " " + value
			}
			writeRow(&rows, name, flagColumn, flagWords(f))
		}
	}
	for _, flags := range []*pflag.FlagSet{cmd.LocalNonPersistentFlags(), cmd.PersistentFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(write)
	}
	if rows.Len() > 0 {
		out.WriteString("\n" + title + ":\n" + rows.String())
	}
}

// flagWords are what a flag does, and what it is where it is not given.
func flagWords(f *pflag.Flag) string {
	words := f.Usage
	if !config.OfSetting(f) { // these name their value by backquotes in the text
		_, words = pflag.UnquoteUsage(f)
	}
	switch value := strings.Trim(f.DefValue, "[]"); value {
	case "", "0", "0s", "false":
		return words
	default:
		return words + " (default " + value + ")"
	}
}

// writeRow writes a name, and from a column on what it is.
func writeRow(out *strings.Builder, name string, column int, words string) {
	lines := wrapWords(words, helpWidth-column)
	if len(name)+2 > column {
		out.WriteString(name + "\n")
		name = ""
	}
	for _, line := range lines {
		fmt.Fprintf(out, "%-*s%s\n", column, name, line)
		name = ""
	}
}

// wrapText fits paragraphs into the width of help. Lines that begin with a blank stay as they are.
func wrapText(text string) string {
	var out, paragraph strings.Builder
	flush := func() {
		for _, line := range wrapWords(paragraph.String(), helpWidth) {
			out.WriteString(line + "\n")
		}
		paragraph.Reset()
	}
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		switch {
		case strings.TrimSpace(line) == "", line[0] == ' ', line[0] == '\t':
			flush()
			out.WriteString(line)
		default:
			paragraph.WriteString(line)
		}
	}
	flush()
	return out.String()
}

// wrapWords fits text into lines of a width; a word that is longer has one for itself.
func wrapWords(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
