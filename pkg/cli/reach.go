package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
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

// shellLine makes of a single argument that a shell would have to read (hive-test exec dev1 -- 'df -h | tail -1') what ssh
// makes of it: a line for the shell. Several arguments are a program and its arguments, as they are.
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

// onNodes lets do work on nodes of a cluster.
func (a *app) onNodes(ctx context.Context, verb, name string, settings config.Settings, pick func(cluster.Nodes) (cluster.Nodes, error), do func(context.Context, engine.Reached) error) error {
	return a.work(settings, func(e *engine.Engine, _ progress.Renderer) error {
		return e.OnNodes(ctx, engine.NodesRequest{Request: a.request(name, settings), Verb: verb, Pick: pick}, do)
	})
}

func (a *app) ssh(ctx context.Context, name string, index int, command []string, raw bool, settings config.Settings) error {
	pick := func(nodes cluster.Nodes) (cluster.Nodes, error) {
		node, ok := nodes.ByIndex(index)
		if !ok {
			return nil, usage(fmt.Errorf("cluster %q has no node %d: it has %d", name, index, len(nodes)))
		}
		return cluster.Nodes{node}, nil
	}
	return a.onNodes(ctx, "ssh", name, settings, pick, func(ctx context.Context, reached engine.Reached) error {
		group := reached.Group
		if err := errors.Join(reached.Unreached...); err != nil {
			return err
		}
		file, isFile := a.Stdin.(*os.File)
		tty := isFile && len(command) == 0 && term.IsTerminal(int(file.Fd()))
		stdout, stderr, flush := a.sessionOutput(raw)
		exit, err := group[0].Interactive(ctx, command, a.Stdin, stdout, stderr, tty)
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
	Schema int            `json:"schema"`
	Nodes  []execNodeJSON `json:"nodes"`
}

type execNodeJSON struct {
	Name     string  `json:"name"`
	ExitCode int     `json:"exit_code"`
	Signal   string  `json:"signal"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	Seconds  float64 `json:"seconds"`
	Error    string  `json:"error,omitempty"`
}

func (a *app) exec(ctx context.Context, name, which string, command []string, raw bool, settings config.Settings) error {
	return a.onNodes(ctx, "exec", name, settings, engine.Listed(which), func(ctx context.Context, reached engine.Reached) error {
		document, failure := execOn(ctx, reached.Group, reached.Unreached, command, settings.Timeout)
		structured, err := printAs(a.Stdout, settings.Output, document)
		if !structured {
			err = a.printExec(document, raw)
		}
		return errors.Join(failure, err)
	})
}

// execOn runs the command everywhere but where a node was not reached. A node that could not be reached is an error; one where
// the command failed gives the exit code. A limit of 0 is remote.DefaultTimeout.
func execOn(ctx context.Context, group remote.Group, unreached []error, command []string, limit time.Duration) (execJSON, error) {
	document := execJSON{Schema: outputSchema, Nodes: make([]execNodeJSON, len(group))}
	var unreachable []error
	code := engine.ExitOK
	results := make([]remote.Result, len(group))
	failures := slices.Clone(unreached)
	place := map[string]int{}
	for i, host := range group {
		place[host.Name()] = i
	}
	_ = group.Each(ctx, func(ctx context.Context, host *remote.Host) error { // each node's error is kept in its place
		i := place[host.Name()]
		if failures[i] != nil {
			return failures[i]
		}
		results[i], failures[i] = host.Run(ctx, remote.Command{Argv: command, Timeout: limit})
		return failures[i]
	})
	for i, host := range group {
		r := results[i]
		document.Nodes[i] = execNodeJSON{Name: host.Name(), ExitCode: r.ExitCode, Signal: r.Signal, Stdout: string(r.Stdout), Stderr: string(r.Stderr), Seconds: r.Duration.Seconds()}
		if r.Truncated {
			cut := fmt.Errorf("%s: it has printed more than the %d MiB that are kept: send it to a file there, and get that with cp", host.Name(), remote.DefaultKeep>>20)
			document.Nodes[i].Error, unreachable = cut.Error(), append(unreachable, cut)
			continue
		}
		if failures[i] == nil {
			continue
		}
		if exit, ok := errors.AsType[*remote.ExitError](failures[i]); ok {
			if code == engine.ExitOK {
				code = engine.ExitCode(max(exit.Result.ExitCode, 1))
			}
			continue
		}
		document.Nodes[i].ExitCode, document.Nodes[i].Error = -1, failures[i].Error()
		unreachable = append(unreachable, failures[i])
	}
	if len(unreachable) > 0 {
		return document, errors.Join(unreachable...)
	}
	if code != engine.ExitOK {
		return document, engine.Error{Code: code}
	}
	return document, nil
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
