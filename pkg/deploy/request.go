package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
)

// Request says what is to exist. The same request may be made again: what exists and is unchanged stays untouched.
type Request struct {
	// Dir is the cluster's own directory (clusters/NAME). State and variables are kept there and nowhere else.
	Dir   string
	Name  cluster.Name
	Owner cluster.Owner
	Spec  cluster.Spec
	// Nodes carry the placement that was reserved for them.
	Nodes cluster.Nodes
	// Target is where the machines live.
	Target cluster.Target
	// SSHPublicKey may log in to the nodes as Spec.SSHUser, in authorized_keys form.
	SSHPublicKey string
	// Leaving are the names of nodes that an earlier request made and that this one leaves out on purpose: what belongs
	// to them may be deleted.
	Leaving []string
	// Refresh says that some of the VMs are known to be gone: Down looks at each before it removes what is recorded.
	Refresh bool
	// Allow is what else a plan may do to what exists.
	Allow Allowed
	// Judge, if set, is called with each plan that was read, before anything else looks at it. Its error stops Up.
	Judge func(p Plan) error
	// Check, if set, is called after a plan was read and before it is applied, unless it changes nothing. Its error
	// stops Up. This is the last moment to see that the ids of what will be created are free.
	Check func(ctx context.Context, p Plan) error
}

// Admit returns why a plan is not to be applied; nil: it may be.
func (r Request) Admit(ctx context.Context, p Plan) error {
	if r.Judge != nil {
		if err := r.Judge(p); err != nil {
			return err
		}
	}
	if refused := r.Refused(p); len(refused) > 0 {
		return &RefusedError{Changes: refused}
	}
	if len(p.Changes) == 0 || r.Check == nil {
		return nil
	}
	return r.Check(ctx, p)
}

// Allowed is what a plan may do to VMs that exist, besides changing them while they run. The zero value allows nothing.
type Allowed struct {
	// Replace allows that what exists is deleted or made anew: what is on its disks is lost.
	Replace bool
	// Restart allows changes that take effect with a restart only.
	Restart bool
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

// ErrUnusable means that what a call needs of r.Dir cannot be used, be it that it is damaged or that nothing can be
// written there. Nothing was done.
var ErrUnusable = errors.New("the files that tofu works with cannot be used")

// ErrKilled means that a call did not stop when its context ended and was ended by force: what it had asked for may
// still be done.
var ErrKilled = errors.New("killed at work")

// Recorded is what the files of a deployer tell of a cluster: whose its VMs are and where, as far as it is known.
type Recorded struct {
	Name      cluster.Name
	OwnerID   string
	Endpoint  string // of the Proxmox VE; empty if it is not told
	Pool      string
	CloudInit string
	// Hypervisors have name, Datastore and SnippetStore only; nodes have no addresses.
	Hypervisors []placement.Hypervisor
	Nodes       cluster.Nodes
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
	// Missing are the names of the nodes whose VM was not made to the end, in order.
	Missing []string
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
	text := f.Step + " failed: " + strings.Join(parts, "; ")
	named := func(node string) bool {
		return slices.ContainsFunc(f.Problems, func(p Problem) bool { return slices.Contains(p.Nodes, node) })
	}
	if others := slices.DeleteFunc(slices.Clone(f.Missing), named); len(others) > 0 {
		text += "; not made either: " + strings.Join(others, ", ")
	}
	return text
}

// Unwrap returns the error of the child process.
func (f *Failure) Unwrap() error { return f.Err }

// Code returns the kind of problem.
func (f *Failure) Code() string { return "deploy-failed" }

// NodeNames returns the nodes of the problems, then those whose VM was not made.
func (f *Failure) NodeNames() []string {
	var names []string
	for _, p := range f.Problems {
		names = append(names, p.Nodes...)
	}
	return append(names, f.Missing...)
}

// LogPath returns the file with the whole output.
func (f *Failure) LogPath() string { return f.Log }

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
