// Package provision is what makes and removes the nodes of a cluster: requests in, results out. It holds plain types; the
// implementations are below it.
package provision

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
)

// Request says what is to exist. The same request may be made again: what exists and is unchanged stays untouched.
type Request struct {
	// Dir is the cluster's own directory (clusters/NAME). State and variables are kept there and nowhere else.
	Dir   string
	Name  cluster.Name
	Owner cluster.Owner
	Spec  cluster.Spec
	// Nodes carry the ids, MACs and hypervisors that were reserved for them.
	Nodes cluster.Nodes
	// Pool is the resource pool that the VMs belong to; empty means none.
	Pool string
	// SSHPublicKey may log in to the nodes as Spec.SSHUser, in authorized_keys form.
	SSHPublicKey string
	// Check, if set, is called after a plan was read and before it is applied, unless it changes nothing. Its error stops Up.
	// This is the last moment to see that the ids of what will be created are free.
	Check func(ctx context.Context, p Plan) error
}

// Result says what a call did. On an error it says what was done before it.
type Result struct {
	// Changed is false if everything already was as asked for.
	Changed bool
	// Created, Updated and Deleted are names of nodes in the order of their numbers.
	Created, Updated, Deleted []string
	// Seconds is the time spent inside child processes, by step ("init", "plan", "apply", "destroy").
	Seconds map[string]float64
}

// Provisioner makes and removes the VMs of a cluster. Calls for one cluster must not overlap; calls for different clusters
// may, in this process and in others. Both calls can be repeated after any failure.
type Provisioner interface {
	// Up makes everything exist as asked for and returns once all VMs are started; they may still be booting. It never
	// deletes or replaces a VM that was completely made: it returns a *RefusedError instead. On cancellation it waits for the
	// work in hand to be recorded, and the error matches context.Canceled.
	Up(ctx context.Context, r Request) (Result, error)
	// Plan returns what Up would do, and does nothing.
	Plan(ctx context.Context, r Request) (Plan, error)
	// Down removes everything that Up recorded in r.Dir, using what Up wrote there. It succeeds if nothing was recorded.
	// Only r.Dir is needed; r.Spec.Hypervisors, if set, replace how hypervisors were reached at the time.
	Down(ctx context.Context, r Request) error
}

// Action is what a plan does to one resource.
type Action string

// The actions.
const (
	Create  Action = "create"
	Update  Action = "update"
	Replace Action = "replace"
	Delete  Action = "delete"
)

// Change is one resource that a plan touches.
type Change struct {
	Address string `json:"address"`
	// Node is the name of the node that the resource belongs to.
	Node   string `json:"node,omitempty"`
	Action Action `json:"action"`
	// VM says that the resource is the VM itself, not something it needs.
	VM bool `json:"vm"`
	// Vanished says that an earlier run made the VM and the hypervisors no longer show it. Either it was removed by hand, or
	// the token may not see it: creating it again would then overwrite a living VM of the same id.
	Vanished bool `json:"vanished,omitempty"`
	// Unfinished says that the resource is replaced because an earlier run could not complete it.
	Unfinished bool `json:"unfinished,omitempty"`
	// Reason is the planner's own word for why, such as cannot_update.
	Reason string `json:"reason,omitempty"`
}

// Plan is what would be done, in the planner's order.
type Plan struct {
	Changes []Change `json:"changes"`
}

// Nodes returns the names of the nodes whose VM undergoes action, sorted.
func (p Plan) Nodes(action Action) []string {
	var names []string
	for _, c := range p.Changes {
		if c.VM && c.Action == action {
			names = append(names, c.Node)
		}
	}
	return SortNodes(names)
}

// Destructive returns the changes that would delete or replace something an earlier run completed.
func (p Plan) Destructive() []Change {
	var found []Change
	for _, c := range p.Changes {
		if c.Action == Delete || c.Action == Replace && !c.Unfinished {
			found = append(found, c)
		}
	}
	return found
}

// Vanished returns the names of the nodes that were made earlier and are not to be seen now, sorted.
func (p Plan) Vanished() []string {
	var names []string
	for _, c := range p.Changes {
		if c.Vanished {
			names = append(names, c.Node)
		}
	}
	return SortNodes(names)
}

// SortNodes sorts names of nodes of one cluster by their number, and drops repeated ones. It returns names.
func SortNodes(names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return slices.Compact(names)
}

// RefusedError says that a plan would delete or replace what exists, which only Down may do. Nothing was applied. A retry
// gives the same until the cause named in the changes is undone.
type RefusedError struct {
	Changes []Change
}

// Error lists what would be lost.
func (e *RefusedError) Error() string {
	var parts []string
	for _, c := range e.Changes {
		what := fmt.Sprintf("%s %s", c.Action, c.Address)
		if c.Reason != "" {
			what += " (" + strings.ReplaceAll(c.Reason, "_", " ") + ")"
		}
		parts = append(parts, what)
	}
	return "the plan would destroy what exists, and nothing was applied: " + strings.Join(parts, "; ")
}

// Hint says how to go on.
func (e *RefusedError) Hint() string {
	return "an image, datastore, snippet store, hypervisor or node count differs from what the cluster was made with: undo that, or remove the cluster with `hive-test down` and make it anew"
}

// Problem is one thing that went wrong, with the place and a remedy where they are known.
type Problem struct {
	Address string   `json:"address,omitempty"`
	Nodes   []string `json:"nodes,omitempty"`
	// Summary is one line; Detail is what the other side said, unshortened.
	Summary string `json:"summary"`
	Detail  string `json:"detail,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// Failure says that a step failed and why. What was done before it is recorded: Up and Down can be repeated.
type Failure struct {
	// Step is init, plan, apply or destroy.
	Step     string
	Problems []Problem
	// Log is the file that holds the whole output.
	Log string
	// Err is the error of the child process.
	Err error
}

// Error names the step, then each problem with its nodes.
func (f *Failure) Error() string {
	if len(f.Problems) == 0 {
		return fmt.Sprintf("%s failed: %v", f.Step, f.Err)
	}
	var parts []string
	for _, p := range f.Problems {
		text := p.Summary
		if len(p.Nodes) > 0 {
			text = strings.Join(p.Nodes, ", ") + ": " + text
		} else if p.Address != "" {
			text = p.Address + ": " + text
		}
		parts = append(parts, text)
	}
	return f.Step + " failed: " + strings.Join(parts, "; ")
}

// Unwrap returns the error of the child process.
func (f *Failure) Unwrap() error { return f.Err }

// Hint returns the remedies of the problems, each once, or where to read more.
func (f *Failure) Hint() string {
	var hints []string
	for _, p := range f.Problems {
		if p.Hint != "" && !slices.Contains(hints, p.Hint) {
			hints = append(hints, p.Hint)
		}
	}
	if len(hints) == 0 && f.Log != "" {
		return "the whole output is in " + f.Log
	}
	return strings.Join(hints, "; ")
}
