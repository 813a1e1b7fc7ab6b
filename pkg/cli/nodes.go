package cli

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

func rawFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool(
		"raw", false, "pass on what nodes print as it is, escape sequences and commands for a CI job included",
	)
}

// shellLine makes of a single argument that a shell would have to read (hive-test exec dev1 -- 'df -h | tail -1') what
// ssh makes of it: a line for the shell. Several arguments are a program and its arguments, as they are.
func shellLine(command []string) []string {
	if len(command) == 1 && strings.ContainsAny(command[0], " \t\n;|&<>$`\"'*?(){}~") {
		return []string{"sh", "-c", command[0]}
	}
	return command
}

// split parts arguments at --.
func split(cmd *cobra.Command, args []string) (before, command []string) {
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		return args[:at], shellLine(args[at:])
	}
	return args, nil
}

// withDashes is named(most) for a verb that takes a command after --. Where that was forgotten, the hint is the line
// with it.
func withDashes(cmd *cobra.Command, before []string, most int) error {
	err := named(most)(cmd, before)
	if err == nil || len(before) <= most || cmd.ArgsLenAtDash() >= 0 {
		return err
	}
	own := 1
	if most == 2 && (strings.HasPrefix(before[1], before[0]+"-") || isNumber(before[1])) { // a node
		own = 2
	}
	return progress.WithHint(err, dashes(cmd, before, own))
}

func isNumber(word string) bool { return strings.Trim(word, "0123456789") == "" }

// dashes is the hint that a command stands after --, with the line, of which so many words are not of the command.
func dashes(cmd *cobra.Command, before []string, own int) string {
	line := cmd.CommandPath() + " " + remote.Quote(before[:own]...)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "clusters-dir" && f.Name != "config" { // as everywhere, inPlace adds these
			line += " --" + f.Name + "=" + remote.Quote(f.Value.String())
		}
	})
	return "a command stands after --: " + line + " -- " + remote.Quote(before[own:]...)
}

// nodeList is the value of a flag that names nodes. Not given, it means all; an empty one, as of a variable that is not set,
// would mean all by mistake.
type nodeList string

func (l *nodeList) String() string { return string(*l) }

func (l *nodeList) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("it names no node: leave it out for all nodes")
	}
	*l = nodeList(text)
	return nil
}

// Type is what help calls the value.
func (l *nodeList) Type() string { return "nodes" }

func nodesFlag(cmd *cobra.Command, name, usage string) *string {
	which := new(string)
	cmd.Flags().Var((*nodeList)(which), name, usage)
	return which
}

// sessionOutput is where the output of a session goes: as it is, but for the log of a job that reads commands.
func (a *app) sessionOutput(raw bool) (stdout, stderr io.Writer, flush func() error) {
	var writers []*shownLines
	through := func(w io.Writer) io.Writer {
		if raw || !a.commandsFrom(w) {
			return w
		}
		lines := &shownLines{to: w, show: func(text string) string { return a.shown(w, text) }}
		writers = append(writers, lines)
		return lines
	}
	return through(a.Stdout), through(a.Stderr), func() error {
		var failure error
		for _, lines := range writers {
			failure = errors.Join(failure, lines.flush())
		}
		return failure
	}
}
