package deploy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
)

// Attribute is one value of a resource that a plan changes, as text. Name is a path, like memory.dedicated.
type Attribute struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// String is the change of a value in words: memory 8192 -> 4096 MiB, or that a VM starts. What has no words of ours is
// named as the plan does.
func (a Attribute) String() string {
	name, unit := a.Name, ""
	switch a.Name {
	case "started":
		if a.After == "true" {
			return "starts"
		}
		return "stops"
	case "memory.dedicated":
		name, unit = "memory", " MiB"
	case "disk.size":
		name, unit = "disk", " GiB"
	case "cpu.cores":
		name = "CPU cores"
	case "description":
		if words := redescription(a.Before, a.After); words != "" {
			return words
		}
	}
	return fmt.Sprintf("%s %s -> %s%s", name, a.Before, a.After, unit)
}

// redescription is what changes of a description that says whose a VM is: its line is long, and what differs at its end.
// Empty: one of them is no such description.
func redescription(before, after string) string {
	name, owner, ok := cluster.ParseDescription(before)
	nextName, next, nextOK := cluster.ParseDescription(after)
	if !ok || !nextOK {
		return ""
	}
	var parts []string
	for _, part := range [][3]string{
		{"cluster", name.String(), nextName.String()},
		{"owner", owner.ID, next.ID},
		{"expires", orDash(owner.Expires), orDash(next.Expires)},
	} {
		if part[1] != part[2] {
			parts = append(parts, part[0]+" "+part[1]+" -> "+part[2])
		}
	}
	if strings.TrimSpace(cluster.Redescribe(before, nextName, next)) != strings.TrimSpace(after) {
		parts = append(parts, "the rest of the description")
	}
	return strings.Join(parts, ", ")
}

// orDash is a time as a description has it, or a dash.
func orDash(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Change is one resource that a plan touches.
type Change struct {
	Address string `json:"address"`
	// Node is the name of the node that the resource belongs to.
	Node   string `json:"node,omitempty"`
	Action Action `json:"action"`
	// VM says that the resource is the VM itself, not something it needs.
	VM bool `json:"vm"`
	// Vanished says that an earlier run made the VM and the hypervisors no longer show it. Either it was removed by
	// hand, or the token may not see it: creating it again would then overwrite a living VM of the same id.
	Vanished bool `json:"vanished,omitempty"`
	// Unfinished says that the resource is replaced because an earlier run could not complete it.
	Unfinished bool `json:"unfinished,omitempty"`
	// Reason is the planner's own word for why, such as cannot_update.
	Reason string `json:"reason,omitempty"`
	// Restarts says that the change takes effect with a restart of the VM only.
	Restarts bool `json:"restarts,omitempty"`
	// Attributes are what an update changes, and of a replacement what it is for.
	Attributes []Attribute `json:"attributes,omitempty"`
}

// String is the change as a person would tell it: "update ci-1-2 (memory 2048 -> 4096 MiB)".
func (c Change) String() string { return c.with(c.what()) }

// what is touched: a VM has the name of its node.
func (c Change) what() string {
	if !c.VM || c.Node == "" {
		return c.Address
	}
	return c.Node
}

// with is the change as that of everything that is named.
func (c Change) with(names string) string {
	text := string(c.Action) + " " + names
	if why := c.Why(); why != "" {
		text += " (" + why + ")"
	}
	return text
}

// Why is what changes, or why a VM is replaced, in words; empty: there is nothing to say.
func (c Change) Why() string {
	if c.Unfinished { // what its attributes become says nothing: all of it is made anew
		return "tainted: an earlier up could not finish it"
	}
	var why []string
	for _, a := range c.Attributes {
		why = append(why, a.String())
	}
	if len(why) == 0 && c.Reason != "" && !strings.HasPrefix(c.Reason, "delete_because_") {
		why = append(why, strings.ReplaceAll(c.Reason, "_", " "))
	}
	if c.Vanished {
		why = append(why, "it was made before and is not to be seen now")
	}
	if c.Restarts {
		why = append(why, "needs a restart")
	}
	return strings.Join(why, ", ")
}

// Boots reports whether a VM that stays is started by the change, or restarted.
func (c Change) Boots() bool {
	starts := func(a Attribute) bool { return a.Name == "started" && a.After == "true" }
	return c.VM && c.Action == Update && (c.Restarts || slices.ContainsFunc(c.Attributes, starts))
}

// destroys tells whether the change loses something that an earlier run completed. What a VM needs besides itself can
// be made anew: nothing is on it but what it was made of.
func (c Change) destroys() bool {
	return c.Action == Delete || c.Action == Replace && c.VM && !c.Unfinished
}

// Plan is what would be done, in the order of the nodes' numbers.
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

// Totals count VMs by what becomes of them. One that is replaced is destroyed and created.
type Totals struct {
	Create  int `json:"create"`
	Change  int `json:"change"`
	Destroy int `json:"destroy"`
}

// String is the count as Terraform writes it.
func (t Totals) String() string {
	return fmt.Sprintf("%d to create, %d to change, %d to destroy", t.Create, t.Change, t.Destroy)
}

// Totals counts the VMs that p touches. One that stays while what it needs is changed is changed.
func (p Plan) Totals() Totals {
	actions := map[string]Action{}
	for _, c := range p.Changes {
		name := cmp.Or(c.Node, c.Address)
		if c.VM {
			actions[name] = c.Action
		} else if _, known := actions[name]; !known {
			actions[name] = Update
		}
	}
	var t Totals
	for _, action := range actions {
		switch action {
		case Create:
			t.Create++
		case Delete:
			t.Destroy++
		case Replace:
			t.Create, t.Destroy = t.Create+1, t.Destroy+1
		default:
			t.Change++
		}
	}
	return t
}

// Needs returns the flag without which r does not allow the change c, or nothing.
func (r Request) Needs(c Change) string {
	switch {
	case c.destroys() && !r.Allow.Replace && !(c.Action == Delete && slices.Contains(r.Leaving, c.Node)):
		return AllowReplace
	case c.Restarts && !r.Allow.Restart:
		return AllowRestart
	}
	return ""
}

// Refused returns the changes of p that r does not allow.
func (r Request) Refused(p Plan) []Change {
	return slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return r.Needs(c) == "" })
}

// The flags that allow what a plan is refused for.
const (
	AllowReplace = "--allow-replace"
	AllowRestart = "--allow-restart"
)

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

// Unfinished returns the names of the nodes whose VM is made anew because an earlier run could not complete it, sorted.
func (p Plan) Unfinished() []string {
	var names []string
	for _, c := range p.Changes {
		if c.VM && c.Unfinished {
			names = append(names, c.Node)
		}
	}
	return SortNodes(names)
}

// SortChanges puts changes into the order of their nodes' numbers, and of each node the VM first.
func SortChanges(changes []Change) {
	slices.SortStableFunc(changes, func(a, b Change) int {
		switch {
		case a.Node != b.Node:
			return byNumber(a.Node, b.Node)
		case a.VM != b.VM:
			return cmp.Compare(rank(a), rank(b))
		}
		return strings.Compare(a.Address, b.Address)
	})
}

func rank(c Change) int {
	if c.VM {
		return 0
	}
	return 1
}

func byNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) }

// SortNodes sorts names of nodes of one cluster by their number, and drops repeated ones. It returns names.
func SortNodes(names []string) []string {
	slices.SortFunc(names, byNumber)
	return slices.Compact(names)
}

// RefusedError says that a plan would do to what exists what nobody has allowed. Nothing was applied. A retry gives the
// same until the cause named in the changes is undone, or allowed.
type RefusedError struct {
	Changes []Change
}

// Error lists what would be done; what is the same for several nodes, once.
func (e *RefusedError) Error() string {
	var parts []string
	named := map[string][]string{}
	for _, c := range e.Changes {
		same := c.with("")
		if named[same] == nil {
			parts = append(parts, same)
		}
		named[same] = append(named[same], c.what())
	}
	for i, same := range parts {
		action, rest, _ := strings.Cut(same, " ")
		parts[i] = action + " " + strings.Join(named[same], ", ") + rest
	}
	return "the plan would destroy or restart what exists, and nothing was applied: " + strings.Join(parts, "; ")
}

// Code returns the kind of problem.
func (e *RefusedError) Code() string { return "refused" }

// NodeNames returns the nodes whose VMs would change.
func (e *RefusedError) NodeNames() []string {
	var names []string
	for _, c := range e.Changes {
		names = append(names, c.Node)
	}
	return names
}

// Hint says how to go on.
func (e *RefusedError) Hint() string {
	hints := []string{"undo what differs from how the cluster was made"}
	if slices.ContainsFunc(e.Changes, Change.destroys) {
		hints = append(hints, AllowReplace+" goes on, and loses what is on these disks")
	}
	if slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Restarts }) {
		hints = append(hints, AllowRestart+" goes on, and restarts these nodes one after the other")
	}
	return strings.Join(hints, "; or ")
}
