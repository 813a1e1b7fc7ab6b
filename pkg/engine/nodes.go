package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// recorded opens a cluster that exists.
func (e *Engine) recorded(ctx context.Context, verb string, request Request) (*session, error) {
	s, err := e.open(ctx, verb, request)
	if err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openForRead is recorded for a cluster that is to be looked at. A simulated one's simulator is made to run first:
// without it, the addresses could be anybody's.
func (e *Engine) openForRead(ctx context.Context, verb string, request Request) (*session, error) {
	s, err := e.recorded(ctx, verb, request)
	if err != nil {
		return nil, err
	}
	if verb == "status" || verb == "drift" { // others reach nodes, which takes no time for what has hardly ever changed
		if err := errors.Join(s.catchUp(ctx), s.load()); err != nil {
			s.close()
			return nil, err
		}
	}
	if err := s.connect(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// reach opens a cluster whose nodes are to be reached.
func (e *Engine) reach(ctx context.Context, verb string, request Request) (*session, *lifecycle.Job, error) {
	s, err := e.openForRead(ctx, verb, request)
	if err != nil {
		return nil, nil, err
	}
	deployer, err := s.Deployer()
	if err != nil { // no token is needed to reach nodes: without one, they are where the record says
		s.warnOfToken()
		deployer = target.AsRecorded()
	}
	return s, s.looking(deployer), nil
}

// warnOfToken says that the file of the API token cannot be read, where that is so, though things go on without it.
func (s *session) warnOfToken() {
	if err := s.Settings.Proxmox.TokenErr; err != nil {
		progress.Warn(s.Sink, err.Error()+"; nodes are taken to be where they were", progress.HintOf(err))
	}
}

// reached are nodes of a cluster, connected to where they are now. One that cannot be reached has its error in its
// place.
type reached struct {
	*session
	group     remote.Group
	unreached []error
	off       []bool // whose machines are off, where that was asked
	job       *lifecycle.Job
}

// onNodes lets do work on nodes of a cluster that exists: those that pick chooses.
func (e *Engine) onNodes(ctx context.Context, verb string, request Request, pick func(cluster.Nodes) (
	cluster.Nodes, error,
),
	do func(context.Context, reached) error,
) (err error) {
	s, r, err := e.reach(ctx, verb, request)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := s.limited(ctx)
	defer cancel()
	nodes, err := pick(s.Record.Nodes)
	if err != nil {
		return err
	}
	if err := s.checkAddresses(nodes); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	group, unreached, err := s.connected(ctx, r, nodes)
	if err != nil {
		return err
	}
	return do(ctx, reached{s, group, unreached, make([]bool, len(group)), r})
}

// checkAddresses is an error if the address of one of the nodes is not known: it is still to be made.
func (s *session) checkAddresses(nodes cluster.Nodes) error {
	var unknown []string
	for _, node := range nodes {
		if !node.Management.IsValid() {
			unknown = append(unknown, node.Name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	what := "the address of " + strings.Join(unknown, ", ") + " is not known"
	if len(unknown) > 1 {
		what = "the addresses of " + strings.Join(unknown, ", ") + " are not known"
	}
	if holder, life := s.Store.Holder(s.Name); life == state.Alive || life == state.Elsewhere {
		return fmt.Errorf("%s yet: cluster %q is locked by %s", what, s.Name, holder)
	}
	return fmt.Errorf("%s: run `hive-test up %s` first", what, s.Name)
}

// listed picks what a list like 1,3 names, as --nodes does; empty: all.
func listed(which string) func(cluster.Nodes) (cluster.Nodes, error) {
	return func(nodes cluster.Nodes) (cluster.Nodes, error) { return choose(nodes, "--nodes "+which, which) }
}

// choose returns the nodes that a list like 1,3 names, by numbers or names. An error begins with said, which tells where
// the list stands.
func choose(nodes cluster.Nodes, said, which string) (cluster.Nodes, error) {
	if which == "" {
		return nodes, nil
	}
	var chosen cluster.Nodes
	for part := range strings.SplitSeq(which, ",") {
		part = strings.TrimSpace(part)
		node, found := nodes.Named(part)
		if !found {
			return nil, usage(fmt.Errorf("%s: %w", said, noNode(nodes, part)))
		}
		if !slices.Contains(chosen, node) {
			chosen = append(chosen, node)
		}
	}
	return chosen, nil
}

// one picks the node of that number or name.
func one(word string) func(cluster.Nodes) (cluster.Nodes, error) {
	return func(nodes cluster.Nodes) (cluster.Nodes, error) {
		node, found := nodes.Named(word)
		if !found {
			return nil, usage(noNode(nodes, word))
		}
		return cluster.Nodes{node}, nil
	}
}

// noNode is the error of a word that is neither number nor name of a node.
func noNode(nodes cluster.Nodes, word string) error { return NoNodeError{word, len(nodes)} }

// NoNodeError is a word that names no node of a cluster, which has so many.
type NoNodeError struct {
	Word  string
	Nodes int
}

func (e NoNodeError) Error() string {
	return fmt.Sprintf("there is no node %q: the cluster has %s", e.Word, progress.Count(e.Nodes, "node"))
}

// connected connects to the nodes that are chosen, where they are now. One that cannot be reached has its error in its
// place.
func (s *session) connected(
	ctx context.Context, r *lifecycle.Job, chosen cluster.Nodes,
) (remote.Group, []error, error) {
	var indexes []int
	for _, node := range chosen {
		indexes = append(indexes, node.Index)
	}
	group, failures, err := lifecycle.Reach(ctx, r, indexes...)
	if err != nil {
		return nil, nil, Error{ExitConfig, err}
	}
	for i, failure := range failures {
		hint := fmt.Sprintf("hive-test status %s asks its hypervisor whether it runs, and where it is", s.Name)
		failures[i] = progress.WithHint(failure, cmp.Or(r.MendingCommand(failure), hint))
	}
	return group, failures, nil
}
