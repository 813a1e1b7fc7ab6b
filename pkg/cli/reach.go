package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
)

func (a *app) sshCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh NAME [N] [-- CMD]",
		Short: "a shell, or one command, on one node (1 unless N is given)",
		Example: `  hive-test ssh dev1
  hive-test ssh dev1 2 -- journalctl -n 50`,
		Args: cobra.ArbitraryArgs,
	}
	load := a.settings(cmd, "ssh.proxy_jump")
	raw := rawFlag(cmd)
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		before, command := split(cmd, args)
		if err := named(2)(cmd, before); err != nil {
			return err
		}
		index := 1
		if len(before) == 2 {
			if index, err = strconv.Atoi(before[1]); err != nil {
				return usage(fmt.Errorf("node %q is not a number", before[1]))
			}
		}
		return a.ssh(ctx, before[0], index, command, *raw, settings)
	})
	return cmd
}

func rawFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("raw", false, "pass on what nodes print as it is, escape sequences and commands for a CI job included")
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

func (a *app) ssh(ctx context.Context, name string, index int, command []string, raw bool, settings config.Settings) error {
	return a.work(settings, func(e *engine.Engine) error {
		file, isFile := a.Stdin.(*os.File)
		stdout, stderr, flush := a.sessionOutput(raw)
		exit, err := e.Shell(ctx, engine.ShellRequest{
			Request: a.request(name, settings), Node: index, Command: command, Stdin: a.Stdin, Stdout: stdout, Stderr: stderr,
			TTY: isFile && len(command) == 0 && term.IsTerminal(int(file.Fd())),
		})
		err = errors.Join(err, flush())
		if err == nil && exit != 0 {
			err = engine.Error{Code: engine.ExitCode(exit)}
		}
		return err
	})
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

func (a *app) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec NAME -- CMD",
		Short: "one command on all nodes at once",
		Long: `exec runs one command on all nodes at once. Several arguments are passed as they are, each quoted; a single one is a line
for the shell. The exit code is that of the first node where it is not 0.

Of what goes to a terminal, or into the log of a CI job that reads commands there, escape sequences and such commands are
taken out; --raw leaves them. 4 MiB of each stream of a node are kept; where it was more, that is an error.`,
		Example: `  hive-test exec dev1 -- hostname
  hive-test exec dev1 --nodes 1,3 -o json -- 'df -h / | tail -1'`,
		Args: cobra.ArbitraryArgs,
	}
	load := a.settings(cmd, "ssh.proxy_jump")
	which := nodesFlag(cmd, "nodes", "only these nodes, like 1,3 (default all)")
	raw := rawFlag(cmd)
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if err := checkFormat(settings.Output, "table", "wide", "json", "yaml"); err != nil {
			return err
		}
		before, command := split(cmd, args)
		if err := named(1)(cmd, before); err != nil {
			return err
		}
		if len(command) == 0 {
			return usage(errors.New("exec needs a command after --, like: hive-test exec NAME -- hostname"))
		}
		return a.exec(ctx, before[0], *which, command, *raw, settings)
	})
	return cmd
}

// execJSON is the shape of `exec -o json`.
type execJSON struct {
	Schema int                 `json:"schema"`
	Nodes  []engine.NodeResult `json:"nodes"`
}

func (a *app) exec(ctx context.Context, name, which string, command []string, raw bool, settings config.Settings) error {
	return a.work(settings, func(e *engine.Engine) error {
		results, failure := e.Exec(ctx, engine.ExecRequest{Request: a.request(name, settings), Nodes: which, Command: command})
		if results == nil {
			return failure
		}
		document := execJSON{outputSchema, results}
		structured, err := printAs(a.Stdout, settings.Output, document)
		if !structured {
			err = a.printExec(document, raw)
		}
		return errors.Join(failure, err)
	})
}

// printExec writes every line of output with its node before it; raw: as the node has sent it, whoever reads it.
func (a *app) printExec(document execJSON, raw bool) error {
	var failure error
	for _, n := range document.Nodes {
		for _, stream := range []struct {
			to   io.Writer
			text string
		}{{a.Stdout, n.Stdout}, {a.Stderr, n.Stderr}} {
			text := stream.text
			if !raw {
				text = a.shown(stream.to, text)
			}
			_, err := io.WriteString(stream.to, withNode(n.Name, text))
			failure = errors.Join(failure, err)
		}
		if n.ExitCode != 0 && n.Error == "" {
			fmt.Fprintf(a.Stderr, "%s: exit code %d %s\n", n.Name, n.ExitCode, n.Signal)
		}
	}
	return failure
}
