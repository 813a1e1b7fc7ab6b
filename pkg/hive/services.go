package hive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/progress"
)

// ServiceState is how one service of a node does.
type ServiceState string

// The states of a service.
const (
	// ServiceUp runs, and accepts connections where it has a port.
	ServiceUp ServiceState = "up"
	// ServiceDead should run, and its process is gone. Nothing starts it again but `configure`.
	ServiceDead ServiceState = "dead"
	// ServiceSilent runs, and accepts no connections (yet), or hangs: `configure` from its step start ends one that does.
	ServiceSilent ServiceState = "silent"
	// ServiceOut was left out when hive was started: it cannot run on that node, or nobody needs it.
	ServiceOut ServiceState = "out"
)

// Service is one of hive's services on a node. Detail is where it accepts connections, or why it does not do well.
type Service struct {
	Name   string       `json:"name"`
	State  ServiceState `json:"state"`
	Detail string       `json:"detail,omitempty"`
}

// problem says what is wrong with the service, or nothing.
func (s Service) problem() string {
	if s.State == ServiceDead || s.State == ServiceSilent {
		return "its " + s.title() + " is " + string(s.State) + ": " + s.Detail
	}
	return ""
}

// title is what people call the service, with the name of its log.
func (s Service) title() string {
	switch s.Name {
	case "awsgw":
		return "gateway (awsgw)"
	case "hive", "spinifex":
		return "daemon (" + s.Name + ")"
	}
	return s.Name
}

// servicesLimit bounds asking one node for its services, in a session of its own.
const servicesLimit = 20 * time.Second

// askServices asks a node how its services do. A node whose hive was not started by this version's scripts has nothing
// to tell: nil.
func (c *Cluster) askServices(ctx context.Context, host Host) ([]Service, error) {
	result, err := c.script(ctx, host, "services.sh", servicesLimit, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("its services are not known: %w", err)
	}
	return parseServices(string(result.Stdout)), nil
}

func parseServices(text string) []Service {
	var services []Service
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimRight(line, "\r\n"), "\t", 3)
		if len(fields) == 3 { // a login shell may print lines of its own
			services = append(services, Service{fields[0], ServiceState(fields[1]), fields[2]})
		}
	}
	return services
}

// dead returns the names of services whose processes are gone.
func (n NodeHealth) dead() []string {
	return n.named(func(s Service) bool { return s.State == ServiceDead })
}

// allDeadText is told of a node none of whose services is left, as of one that was restarted, in place of each of them.
const allDeadText = "all its services are dead: their processes are gone"

// allDead reports whether all services that should run on the node have ended, of several.
func (n NodeHealth) allDead() bool {
	wanted := n.named(func(s Service) bool { return s.State != ServiceOut })
	return len(wanted) > 1 && len(n.dead()) == len(wanted)
}

// Ended says which services of the node have ended, and how it is known; empty: none has.
func (n NodeHealth) Ended() string {
	if n.allDead() {
		return allDeadText
	}
	var ended []string
	for _, service := range n.Services {
		if service.State == ServiceDead {
			ended = append(ended, service.problem())
		}
	}
	return strings.Join(ended, "; ")
}

// Startable reports whether starting hive again on the node mends what is known of it: a service has ended there, or
// runs and does not do its work.
func (n NodeHealth) Startable() bool {
	return slices.ContainsFunc(n.Services, func(s Service) bool { return s.problem() != "" })
}

// named are the names of the services of which that is true.
func (n NodeHealth) named(is func(Service) bool) []string {
	var names []string
	for _, service := range n.Services {
		if is(service) {
			names = append(names, service.Name)
		}
	}
	return names
}

// LeftOut says which services were left out, and why: one line for all nodes that lack the same ones for the same
// reasons.
func LeftOut(nodes []NodeHealth) []string {
	var order []string
	lacking := map[string][]string{}
	for _, node := range nodes {
		var out []string
		for _, service := range node.Services {
			if service.State == ServiceOut {
				out = append(out, service.Name+" ("+service.Detail+")")
			}
		}
		if key := strings.Join(out, ", "); key != "" {
			if lacking[key] == nil {
				order = append(order, key)
			}
			lacking[key] = append(lacking[key], node.Name)
		}
	}
	for i, key := range order {
		if on := lacking[key]; len(on) < len(nodes) {
			order[i] = "on " + strings.Join(on, ", ") + ": " + key
		}
		order[i] = "left out: " + order[i]
	}
	return order
}

// Limits of starting gateways. One that waits for the stores of other nodes gives up after 10 seconds and ends.
const (
	gatewayStarts = 6
	gatewayLimit  = 90 * time.Second
)

// Start starts hive on the nodes of the course: all services but the gateways on all nodes at once, then the gateway of
// node 1, and those of the others when that accepts connections. Gateways write the same records when a cluster is
// started for the first time: of two that do at once one ends. What runs already is left alone.
func (c *Cluster) Start(ctx context.Context) error {
	return c.step(ctx, StepStart, func(ctx context.Context) error {
		wanted := c.nodesOf(StepStart)
		outs := make([]NodeHealth, len(c.hosts))
		for i, host := range c.hosts {
			outs[i].Name = host.Name()
		}
		stages := []stage{
			{c.hosts[:1], c.setUpNetwork, "start"},
			{c.followers(), c.setUpNetwork, "start"},
			{c.hosts, func(ctx context.Context, host Host) (err error) {
				outs[slices.Index(c.hosts, host)].Services, err = c.startServices(ctx, host)
				return err
			}, "nats"},
			{c.hosts[:1], c.startGateway, "awsgw"},
			{c.followers(), c.startGateway, "awsgw"},
		}
		var failures nodeErrors
		for _, stage := range stages {
			hosts := filter(
				stage.hosts, func(h Host) bool { return slices.Contains(wanted, h) && !failures.of(h.Name()) },
			)
			err := each(ctx, hosts, stage.work)
			c.addLogs(ctx, err, func(Host) []string { return []string{stage.log} })
			if failed, ok := errors.AsType[nodeErrors](err); ok {
				failures = append(failures, failed...) // the other nodes go on: what they lack in the end is theirs
			} else if err != nil {
				return err
			}
			if ctx.Err() != nil {
				break
			}
		}
		outs = slices.DeleteFunc(outs, func(n NodeHealth) bool { return !slices.Contains(names(wanted), n.Name) })
		for _, line := range LeftOut(outs) {
			c.sink.Emit(progress.Event{Kind: progress.Note, Step: StepStart, Message: line})
		}
		return c.inOrder(failures)
	})
}

// of reports whether one of the failures is that node's.
func (e nodeErrors) of(node string) bool {
	return slices.ContainsFunc(e, func(f NodeFailure) bool { return f.Node == node })
}

// inOrder returns the failures in node order; nil where there is none.
func (c *Cluster) inOrder(failures nodeErrors) error {
	if len(failures) == 0 {
		return nil
	}
	order := names(c.hosts)
	slices.SortStableFunc(
		failures, func(a, b NodeFailure) int { return slices.Index(order, a.Node) - slices.Index(order, b.Node) },
	)
	return failures
}

// stage is work on some nodes at once, and the log that tells of it.
type stage struct {
	hosts []Host
	work  func(context.Context, Host) error
	log   string
}

// setUpNetwork runs hive's own script for OVN, where it came with hive and can work on the node.
func (c *Cluster) setUpNetwork(ctx context.Context, host Host) error {
	result, err := c.script(ctx, host, "setup-ovn.sh", c.options.InstallTimeout, map[string]string{
		"HIVE_LEADER": c.leader().Node().Management.String(),
	}, c.output(StepStart, host))
	if err != nil { // its own steps say more than the error of the last command
		return nodeLog{err, redacted(string(result.Stdout) + string(result.Stderr))}
	}
	return nil
}

// startServices starts all services of a node but its gateway, and returns those that were left out.
func (c *Cluster) startServices(ctx context.Context, host Host) ([]Service, error) {
	result, err := c.script(ctx, host, "start.sh", startTimeout, nil, c.startedAgain(ctx, host))
	var out []Service
	for line := range strings.Lines(string(result.Stdout)) {
		if left, ok := strings.CutPrefix(strings.TrimSpace(line), "left-out "); ok {
			name, why, _ := strings.Cut(left, " ")
			out = append(out, Service{name, ServiceOut, why})
		}
	}
	return out, err
}

// startGateway starts a node's gateway.
func (c *Cluster) startGateway(ctx context.Context, host Host) error {
	_, err := c.script(ctx, host, "start-gateway.sh", gatewayLimit+shortTimeout, map[string]string{
		"HIVE_STARTS": fmt.Sprint(gatewayStarts), "HIVE_TIMEOUT": seconds(gatewayLimit),
	}, c.startedAgain(ctx, host))
	return err
}

// startedAgain says of the lines of a script which service hung and was ended, and which has ended at its start and is
// started again.
func (c *Cluster) startedAgain(ctx context.Context, host Host) func(stream, line string) {
	learn := sync.OnceFunc(func() { c.LearnSecrets(ctx) }) // what a service says at its end may hold secrets
	return func(stream, line string) {
		if stream != "stdout" {
			return
		}
		if hung, ok := strings.CutPrefix(line, "hung "); ok {
			name, why, _ := strings.Cut(hung, " ")
			c.info(StepStart, host.Name(), "its "+Service{Name: name}.title()+" hung and was ended: "+why)
			return
		}
		again, ok := strings.CutPrefix(line, "again ")
		if !ok {
			return
		}
		learn()
		name, again, _ := strings.Cut(again, " ")
		count, why, _ := strings.Cut(again, " ")
		said := ", and has said nothing"
		if why != "" {
			said = ": " + redacted(why)
		}
		c.info(StepStart, host.Name(),
			"its "+Service{Name: name}.title()+" ended and is started again (start "+count+")"+said)
	}
}

// lost is the failure of a cluster of which services have died: each node with the end of their logs.
func (c *Cluster) lost(ctx context.Context, health Health) error {
	var failures nodeErrors
	dead := map[string][]string{}
	for _, node := range health.Nodes {
		if names := node.dead(); len(names) > 0 {
			dead[node.Name] = names
			failures = append(failures, NodeFailure{Node: node.Name, Err: errors.New(node.serviceProblems())})
		}
	}
	c.addLogs(ctx, failures, func(h Host) []string { return dead[h.Name()] })
	return &StepError{Err: errors.New("services of hive have ended"), Nodes: failures}
}

// serviceProblems joins what is wrong with the node's services; empty where nothing is.
func (n NodeHealth) serviceProblems() string {
	if n.allDead() {
		return allDeadText
	}
	problems := make([]string, len(n.Services))
	for i, service := range n.Services {
		problems[i] = service.problem()
	}
	return joined(problems...)
}
