package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/suite"
)

// Suites are what test is asked to run, and how it judges.
type Suites struct {
	Specs      []suite.Spec
	Run, Skip  string // regular expressions that choose cases; empty: all
	Quarantine []suite.Quarantine
	AllowFlaky bool
	RequireAll bool
	// Builtins makes the suites that are no commands, besides smoke, for a cluster that is reached in that way.
	Builtins func(Access) map[string]suite.Builtin
}

// Access is how the EC2 API of a cluster is reached.
type Access struct {
	URL         string
	Credentials suite.Credentials
	Dial        func(ctx context.Context, network, addr string) (net.Conn, error) // nil: directly
}

// builtins are those of a cluster; none where nobody has some.
func (s Suites) builtins(a Access) map[string]suite.Builtin {
	if s.Builtins == nil {
		return nil
	}
	return s.Builtins(a)
}

// choice is what chooses cases, as flags.
func (s Suites) choice() string {
	var flags []string
	for _, flag := range []struct{ name, value string }{{"--run", s.Run}, {"--skip", s.Skip}} {
		if flag.value != "" {
			flags = append(flags, flag.name+" "+remote.Quote(flag.value))
		}
	}
	return strings.Join(flags, " ")
}

// ability is something that a node may have, and what shows that it has.
type ability struct {
	name, script string
}

// What suites can need. Both are as hive itself uses them.
func kvm() ability { return ability{"KVM", "test -r /dev/kvm -a -w /dev/kvm"} }

func ovn() ability {
	return ability{
		"OVN (the bridge br-int of Open vSwitch)",
		`PATH=$PATH:/usr/sbin:/sbin; admin=; [ "$(id -u)" = 0 ] || admin="sudo -n"; $admin ovs-vsctl br-exists br-int`,
	}
}

// lacks returns what of a suite's needs the cluster has not; empty: nothing.
func (l *lossMonitor) lacks(ctx context.Context, needs suite.Needs) (string, error) {
	l.mu.Lock()
	all, err := l.chosen(nil)
	l.mu.Unlock()
	if err != nil {
		return "", err
	}
	var missing []string
	if len(all) < needs.Nodes {
		missing = append(missing, fmt.Sprintf("it needs %s, and the cluster has %d", progress.Count(needs.Nodes, "node"), len(all)))
	}
	for _, wanted := range []struct {
		ability
		needed bool
	}{{kvm(), needs.KVM}, {ovn(), needs.OVN}} {
		if !wanted.needed {
			continue
		}
		without, err := nodesWithout(ctx, all, wanted.ability)
		if err != nil {
			return "", err
		}
		if len(without) > 0 {
			missing = append(missing, fmt.Sprintf("it needs %s, which is not there on %s", wanted.name, strings.Join(without, ", ")))
		}
	}
	return strings.Join(missing, "; "), nil
}

// nodesWithout asks all nodes at once, and returns the names of those that lack an ability.
func nodesWithout(ctx context.Context, group remote.Group, wanted ability) ([]string, error) {
	lacking, failures := make([]bool, len(group)), make([]error, len(group))
	var asked sync.WaitGroup
	for i, host := range group {
		asked.Go(func() {
			_, err := host.Run(ctx, remote.Command{Argv: []string{"sh", "-c", wanted.script}, Timeout: statusTime})
			if _, exited := errors.AsType[*remote.ExitError](err); exited {
				lacking[i] = true
			} else if err != nil {
				failures[i] = fmt.Errorf("asking %s for %s: %w", host.Name(), wanted.name, err)
			}
		})
	}
	asked.Wait()
	var names []string
	for i, host := range group {
		if lacking[i] {
			names = append(names, host.Name())
		}
	}
	return names, errors.Join(failures...)
}
