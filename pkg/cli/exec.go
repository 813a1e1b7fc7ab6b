package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"

	"github.com/spf13/cobra"
)

func (a *app) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec NAME -- CMD",
		Short: "one command on all nodes at once",
		Long: `exec runs one command on all nodes at once. Several arguments are passed as they are, each quoted; a single one is a line
for the shell. The exit code is that of the first node where it is not 0.

On a terminal, nodes that print the same are shown once, as dev1-[1-3]. Elsewhere each line has its own node before it, in the
order of the nodes. --group and --no-group choose; -o json has every node by itself.

Of what goes to a terminal, or into the log of a CI job that reads commands there, escape sequences and such commands are
taken out; --raw leaves them. 4 MiB of each stream of a node are kept; where it was more, that is an error.`,
		Example: `  hive-test exec dev1 -- hostname
  hive-test exec dev1 --nodes 1,3 -o json -- 'df -h / | tail -1'`,
		Args: cobra.ArbitraryArgs,
	}
	load := a.settings(cmd)
	which := nodesFlag(cmd, "nodes", "only these nodes, like 1,3 (default all)")
	raw := rawFlag(cmd)
	group := cmd.Flags().Bool("group", false, "show what several nodes print alike once (default on a terminal)")
	alone := cmd.Flags().Bool("no-group", false, "show what each node prints by itself (default elsewhere)")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if *group && (*alone || *raw) {
			return usage(errors.New("--group is neither for --no-group nor for --raw: use one of them"))
		}
		form := execForm{raw: *raw, group: *group || !*alone && !*raw && isTerminal(a.Stdout)}
		before, command := split(cmd, args)
		if err := withDashes(cmd, before, 1); err != nil {
			return err
		}
		if len(command) == 0 {
			return usage(errors.New("exec needs a command after --, like: hive-test exec NAME -- hostname"))
		}
		return a.exec(ctx, before[0], *which, command, form, settings)
	})
	return cmd
}

// execJSON is the shape of `exec -o json`.
type execJSON struct {
	Schema  int                 `json:"schema"`
	Cluster string              `json:"cluster"`
	Nodes   []engine.NodeResult `json:"nodes"`
}

func (a *app) exec(
	ctx context.Context, name, which string, command []string, form execForm, settings config.Settings,
) error {
	return a.work(settings, func(e *engine.Engine) error {
		results, failure := e.Exec(ctx, engine.ExecRequest{
			Request: a.request(name, settings), Nodes: which, Command: command,
		})
		if results == nil {
			return failure
		}
		document := execJSON{outputSchema, name, results}
		structured, err := printAs(a.Stdout, settings.Output, document)
		if !structured {
			err = a.printExec(document, form)
		}
		return errors.Join(failure, err)
	})
}

// execForm is how the output of nodes is shown.
type execForm struct {
	raw   bool // as the node has sent it, whoever reads it
	group bool // once for all nodes with the same
}

// printExec writes every line of output with its node, or those that print it, before it.
func (a *app) printExec(document execJSON, form execForm) error {
	if !form.group {
		var failure error
		for _, n := range document.Nodes {
			failure = errors.Join(failure, a.printResults(n.Name, n, form.raw))
		}
		return failure
	}
	var failure error
	for _, alike := range groupResults(document.Nodes) {
		names := make([]string, len(alike))
		for i, n := range alike {
			names[i] = n.Name
		}
		failure = errors.Join(failure, a.printResults(foldNames(names), alike[0], false))
	}
	return failure
}

// printResults writes the output of a node under a name.
func (a *app) printResults(name string, n engine.NodeResult, raw bool) error {
	var failure error
	for _, stream := range []struct {
		to   io.Writer
		text string
	}{{a.Stdout, n.Stdout}, {a.Stderr, n.Stderr}} {
		text := stream.text
		if !raw {
			text = a.shown(stream.to, text)
		}
		_, err := io.WriteString(stream.to, withNode(name, text))
		failure = errors.Join(failure, err)
	}
	if n.ExitCode != 0 && n.Error == "" {
		fmt.Fprintln(a.Stderr, strings.TrimSpace(fmt.Sprintf("%s: exit code %d %s", name, n.ExitCode, n.Signal)))
	}
	return failure
}

// groupResults returns the results with those together that are alike, in the order of the first of each.
func groupResults(results []engine.NodeResult) [][]engine.NodeResult {
	var groups [][]engine.NodeResult
	for _, n := range results {
		i := slices.IndexFunc(groups, func(group []engine.NodeResult) bool {
			first := group[0]
			first.Name, first.Seconds = n.Name, n.Seconds
			return first == n
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], n)
	}
	return groups
}

// foldNames writes names in short: dev1-[1-3,5]. Names that end with no number stand for themselves.
func foldNames(names []string) string {
	var folded, stems []string
	numbers := map[string][]int{}
	for _, name := range names {
		stem := strings.TrimRight(name, "0123456789")
		number, err := strconv.Atoi(name[len(stem):])
		if err != nil || stem+strconv.Itoa(number) != name {
			folded = append(folded, name)
			continue
		}
		if numbers[stem] == nil {
			stems = append(stems, stem)
		}
		numbers[stem] = append(numbers[stem], number)
	}
	for _, stem := range stems {
		text := foldNumbers(numbers[stem])
		if len(numbers[stem]) > 1 {
			text = "[" + text + "]"
		}
		folded = append(folded, stem+text)
	}
	return strings.Join(folded, ",")
}

// foldNumbers writes numbers in short: 1-3,5.
func foldNumbers(numbers []int) string {
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		if end > i {
			part += "-" + strconv.Itoa(numbers[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ",")
}
