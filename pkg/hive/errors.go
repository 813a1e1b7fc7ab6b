package hive

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// ErrNoProgram means that no hive was named to be installed, and none is on nodes.
var ErrNoProgram = errors.New("no hive was named, and there is none")

// NodeFailure is what went wrong on one node. Log is the end of the log that tells why, without secrets.
type NodeFailure struct {
	Node string
	Err  error
	Log  string
}

// StepError means that a step of configuring has failed. Nodes are in node order; they are empty where no single node
// is to blame (Err then says what).
type StepError struct {
	Step  string
	Title string
	Nodes []NodeFailure
	Err   error
	hint  string
}

// Error names the step, every failing node, and shows the end of each one's log.
func (e *StepError) Error() string {
	var text strings.Builder
	text.WriteString(e.Summary())
	if len(e.Nodes) > 0 {
		text.WriteString(" on " + strings.Join(e.NodeNames(), ", "))
	}
	for _, r := range e.Reasons() {
		text.WriteString("\n  " + r.String())
		for _, line := range r.Lines {
			text.WriteString("\n    | " + line)
		}
	}
	return text.String()
}

func (e *StepError) Code() string { return "step-failed" }

func (e *StepError) Summary() string {
	if e.Err != nil {
		return e.Title + " failed: " + e.Err.Error()
	}
	return e.Title + " failed"
}

func (e *StepError) Reasons() []progress.Reason {
	reasons := make([]progress.Reason, len(e.Nodes))
	for i, node := range e.Nodes {
		reasons[i] = progress.Reason{Node: node.Node, Cause: reason(node), Lines: tail(node.Log, shownLines)}
	}
	return reasons
}

// shownLines is how much of a log an error shows; the run's evidence has the rest.
const shownLines = 12

func (e *StepError) NodeNames() []string {
	names := make([]string, len(e.Nodes))
	for i, node := range e.Nodes {
		names[i] = node.Node
	}
	return names
}

func (e *StepError) Hint() string { return e.hint }

func (e *StepError) Unwrap() []error {
	errs := make([]error, 0, len(e.Nodes)+1)
	for _, node := range e.Nodes {
		errs = append(errs, node.Err)
	}
	return append(errs, e.Err)
}

// reason is a node's error without what the message says anyway: its name, and the last lines that the log repeats.
func reason(f NodeFailure) string {
	if exit, ok := errors.AsType[*remote.ExitError](f.Err); ok && f.Log != "" {
		text := fmt.Sprintf("%s exited with %d", exit.Command, exit.Result.ExitCode)
		if said := lastWords(exit); said != "" && !strings.Contains(f.Log, said) {
			text += ": " + said // what is shown is another log
		}
		return text
	}
	type unnamed interface {
		error
		Unnamed() string
	}
	if named, ok := errors.AsType[unnamed](f.Err); ok && named.Error() == f.Err.Error() {
		return named.Unnamed()
	}
	return f.Err.Error()
}

// advice is what node scripts themselves have said at their end of what to do, if all that failed say the same; empty:
// nothing.
func (e *StepError) advice() string {
	var all []string
	for _, failure := range e.Nodes {
		if exit, ok := errors.AsType[*remote.ExitError](failure.Err); ok { // others failed because of another node
			_, use, _ := strings.Cut(lastWords(exit), ": use ")
			all = append(all, use)
		}
	}
	if all = slices.Compact(all); len(all) != 1 || all[0] == "" {
		return ""
	}
	return "use " + all[0]
}

// lastWords is the last line that a script has written to its standard error, without secrets.
func lastWords(exit *remote.ExitError) string {
	return strings.Join(tail(redacted(string(exit.Result.Stderr)), 1), "")
}

// tail returns the last n lines of text that are not blank.
func tail(text string, n int) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-n):]
}

// hint is what may help where a step has failed and nothing better is known.
func (o Options) hint(step string) string {
	if step == StepInstall && o.Repo == "" && o.SourceDir == "" {
		return "" // a build is what fails for reasons that are known
	}
	return map[string]string{
		StepCloudInit: "look at /var/log/cloud-init-output.log on the node (hive-test ssh NAME N)",
		StepOS:        "packages that the image or template has already need no network",
		StepInstall:   "a build needs the source's own tools, and a network for its modules, where it is built",
		StepStop:      "end what holds the port on the node, then configure again",
		StepInit:      "configure again: what was left half done is stopped first; --force forms the cluster anew and drops its data",
		StepJoin:      "configure again: what was left half done is stopped first; all nodes must reach node 1 on port 4432",
		StepStart:     "the services' logs are in the run's evidence, and on the node in ~/hive/logs or the journal",
		StepHealth:    "the services' logs are in the run's evidence, and on the node in ~/hive/logs or the journal; allow more time if the nodes were still starting",
	}[step]
}
