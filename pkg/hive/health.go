package hive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/remote"
)

// PeersUnknown is NodeHealth.Peers where NATS monitoring could not be asked.
const PeersUnknown = -1

// NodeHealth is what one look at a node has shown, each of the five facts by itself.
type NodeHealth struct {
	Name string `json:"name"`
	// Code and Status are the HTTP status and the "status" of /health (0 and empty if it did not answer so), Self the name
	// that the daemon gives itself, Scheme http or https.
	Code   int    `json:"code"`
	Status string `json:"status"`
	Self   string `json:"self"`
	Scheme string `json:"scheme,omitempty"`
	// Peers is how many distinct NATS servers this node's has routes to; PeersUnknown if that could not be asked.
	Peers int `json:"peers"`
	// Ready is the node's STATUS in node 1's `hive get nodes`; empty if it is not listed.
	Ready string `json:"ready"`
	// Gateway is the HTTP status of an unsigned request, which has to be 403, and GatewayCode its error code, which has to be
	// MissingAuthenticationToken.
	Gateway     int    `json:"gateway"`
	GatewayCode string `json:"gateway_code,omitempty"`
	// InstanceTypes is how many a signed DescribeInstanceTypes lists.
	InstanceTypes int `json:"instance_types"`
	// Healthy says that all five facts hold. Error says in words which do not.
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`

	errs struct{ health, peers, ready, gateway, api error }
}

// Health is one look at a whole cluster. Formed means that all nodes are healthy and no more are listed than there should
// be; Reasons say what is missing, in node order.
type Health struct {
	Nodes   []NodeHealth `json:"nodes"`
	Formed  bool         `json:"formed"`
	Reasons []string     `json:"reasons,omitempty"`
}

const (
	statusRunning  = "running"
	statusReady    = "Ready"
	codeNoToken    = "MissingAuthenticationToken"
	getNodesLimit  = 15 * time.Second
	waitStep       = 100 * time.Millisecond
	waitStepLimit  = 2 * time.Second
	healthRoundMax = 30 * time.Second
)

// Check looks at all nodes once, at all of them together, and takes seconds at most. It never fails: what could not be
// asked is in the result.
//
// The five facts: (a) /health answers 200 with JSON that says "running" and the node's own name, on N distinct nodes; (b)
// NATS has routes to N-1 distinct peers; (c) `hive get nodes` lists exactly N nodes as Ready; (d) every gateway refuses an
// unsigned request as such; (e) a signed DescribeInstanceTypes lists something. A 200 of /health alone proves nothing: a
// lone node answers so while it waits for others, and the formation server holds the same port.
func (c *Cluster) Check(ctx context.Context) Health {
	return c.look(ctx, false)
}

// look makes a round. A lazy one stops after fact (a) while that does not hold, for those who wait.
func (c *Cluster) look(ctx context.Context, lazy bool) Health {
	ctx, cancel := context.WithTimeout(ctx, healthRoundMax)
	defer cancel()
	nodes := make([]NodeHealth, len(c.hosts))
	access, accessErr := c.Credentials(ctx)
	probe := c.newProber(access.CA)
	defer probe.close()
	c.forAll(func(i int, host Host) {
		nodes[i] = NodeHealth{Name: host.Name(), Peers: PeersUnknown}
		nodes[i].errs.health = c.asking(ctx, host, func(ctx context.Context) error {
			return nodes[i].askHealth(ctx, probe, address(host, ManagerPort), accessErr)
		})
	})
	if lazy && !allRunning(nodes) {
		return judgeRunning(nodes)
	}
	var listed map[string]string
	var listErr error
	var list sync.WaitGroup
	list.Go(func() { listed, listErr = c.getNodes(ctx) })
	c.forAll(func(i int, host Host) {
		nodes[i].errs.peers = c.asking(ctx, host, func(ctx context.Context) (err error) {
			nodes[i].Peers, err = c.peers(ctx, host)
			return err
		})
		nodes[i].errs.gateway = c.asking(ctx, host, func(ctx context.Context) error {
			return nodes[i].askGateway(ctx, probe, access, accessErr, address(host, GatewayPort))
		})
	})
	list.Wait()
	for i := range nodes {
		nodes[i].Ready, nodes[i].errs.ready = listed[nodes[i].Name], listErr
	}
	return judge(nodes, listed)
}

// forAll calls work for all hosts at once and waits.
func (c *Cluster) forAll(work func(i int, host Host)) {
	var all sync.WaitGroup
	for i, host := range c.hosts {
		all.Go(func() { work(i, host) })
	}
	all.Wait()
}

// askHealth fills in what /health says, or returns why it says nothing that counts.
func (n *NodeHealth) askHealth(ctx context.Context, probe *prober, address string, accessErr error) error {
	answer, scheme, err := probe.getEither(ctx, address+"/health")
	n.Scheme, n.Code = scheme, answer.code
	if err != nil {
		if scheme == "https" && accessErr != nil {
			return fmt.Errorf("its certificate cannot be verified: %w", accessErr)
		}
		return err
	}
	n.Self, n.Status, err = parseHealth(answer)
	return err
}

// healthWords is what /health tells.
type healthWords struct {
	Node   string `json:"node"`
	Status string `json:"status"`
	Uptime int64  `json:"uptime"` // seconds
}

// parseHealth reads a /health answer, or says why it is none.
func parseHealth(a answer) (self, status string, err error) {
	health, err := readHealth(a)
	return health.Node, health.Status, err
}

func readHealth(a answer) (health healthWords, err error) {
	switch {
	case a.code == http.StatusNotFound:
		return healthWords{}, errors.New("/health answers 404: another program holds the port, such as the formation server of an unfinished init")
	case a.code != http.StatusOK:
		return healthWords{}, fmt.Errorf("/health answers %d", a.code)
	}
	if err := json.Unmarshal(a.body, &health); err != nil {
		return healthWords{}, errors.New("/health answers something that is not JSON")
	}
	return health, nil
}

// askGateway fills in what the gateway answers, or returns why it does not.
func (n *NodeHealth) askGateway(ctx context.Context, probe *prober, access Access, accessErr error, address string) error {
	if accessErr != nil {
		return accessErr
	}
	unsigned, err := probe.get(ctx, "https://"+address+"/")
	if err != nil {
		return err
	}
	n.Gateway, n.GatewayCode = unsigned.code, errorCode(unsigned.body)
	n.InstanceTypes, n.errs.api = access.instanceTypes(ctx, probe, address)
	return nil
}

// getNodes asks node 1 for its table of nodes.
func (c *Cluster) getNodes(ctx context.Context) (map[string]string, error) {
	result, err := c.script(ctx, c.leader(), "nodes.sh", getNodesLimit, nil, nil)
	if exit, ok := errors.AsType[*remote.ExitError](err); ok {
		return nil, fmt.Errorf("hive get nodes exited with %d: %s", exit.Result.ExitCode, strings.Join(tail(outputOf(err), 1), ""))
	}
	return parseNodes(string(result.Stdout)), err
}

// peers counts the distinct servers that a node's NATS has routes to. Monitoring listens on the node's address in early
// versions, and on its loopback interface later, where it is reached through SSH.
func (c *Cluster) peers(ctx context.Context, host Host) (int, error) {
	through := c.newProber(nil)
	defer through.close()
	through.through(host)
	if c.notDirect(host) {
		return askPeers(ctx, through, monitorLoopback())
	}
	direct := c.newProber(nil)
	defer direct.close()
	peers, err := askPeers(ctx, direct, address(host, MonitorPort))
	if err == nil || ctx.Err() != nil {
		return peers, err
	}
	peers, throughErr := askPeers(ctx, through, monitorLoopback())
	if throughErr != nil {
		return PeersUnknown, fmt.Errorf("%w, and through the node: %w", err, throughErr)
	}
	c.mu.Lock()
	c.direct[host.Name()] = false
	c.mu.Unlock()
	return peers, nil
}

func (c *Cluster) notDirect(host Host) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	direct, known := c.direct[host.Name()]
	return known && !direct
}

func monitorLoopback() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(MonitorPort)) }

func askPeers(ctx context.Context, probe *prober, address string) (int, error) {
	answer, err := probe.get(ctx, "http://"+address+"/routez")
	if err != nil {
		return PeersUnknown, err
	}
	if answer.code != http.StatusOK {
		return PeersUnknown, fmt.Errorf("/routez answers %d", answer.code)
	}
	return countPeers(answer.body)
}

// countPeers counts unique remote names. num_routes is of no use: every peer has several routes.
func countPeers(body []byte) (int, error) {
	var routez struct {
		ServerName string `json:"server_name"`
		Routes     []struct {
			RemoteName string `json:"remote_name"`
		} `json:"routes"`
	}
	if err := json.Unmarshal(body, &routez); err != nil {
		return PeersUnknown, errors.New("/routez answers something that is not JSON")
	}
	names := map[string]bool{}
	for _, route := range routez.Routes {
		if route.RemoteName != "" && route.RemoteName != routez.ServerName {
			names[route.RemoteName] = true
		}
	}
	return len(names), nil
}

func (n NodeHealth) running() bool {
	return n.errs.health == nil && n.Code == http.StatusOK && n.Status == statusRunning && n.Self == n.Name
}

func allRunning(nodes []NodeHealth) bool {
	for _, node := range nodes {
		if !node.running() {
			return false
		}
	}
	return true
}

// judgeRunning judges fact (a) alone, for nodes that were asked no more.
func judgeRunning(nodes []NodeHealth) Health {
	health := Health{Nodes: nodes}
	for i := range nodes {
		nodes[i].Error = nodes[i].healthProblem()
		if nodes[i].Error != "" {
			health.Reasons = append(health.Reasons, nodes[i].Name+": "+nodes[i].Error)
		}
	}
	return health
}

// judge decides on all five facts.
func judge(nodes []NodeHealth, listed map[string]string) Health {
	health := Health{Nodes: nodes, Formed: true}
	for i := range nodes {
		problems := nodes[i].problems(len(nodes))
		nodes[i].Healthy = len(problems) == 0
		nodes[i].Error = strings.Join(problems, "; ")
		if !nodes[i].Healthy {
			health.Formed = false
			health.Reasons = append(health.Reasons, nodes[i].Name+": "+nodes[i].Error)
		}
	}
	if len(listed) > len(nodes) {
		health.Formed = false
		health.Reasons = append(health.Reasons, fmt.Sprintf("hive get nodes lists %d nodes instead of %d", len(listed), len(nodes)))
	}
	return health
}

func (n NodeHealth) problems(nodes int) []string {
	if n.errs.health != nil && n.Code == 0 {
		return []string{n.healthProblem()} // nothing listens: the rest follows from that
	}
	var problems []string
	for _, problem := range []string{n.healthProblem(), n.peersProblem(nodes), n.readyProblem(), n.gatewayProblem(), n.apiProblem()} {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

func (n NodeHealth) healthProblem() string {
	switch {
	case n.errs.health != nil && n.Code == 0:
		return "the daemon does not answer: " + n.errs.health.Error()
	case n.errs.health != nil:
		return n.errs.health.Error()
	case n.Self != n.Name:
		return fmt.Sprintf("the daemon calls itself %q", n.Self)
	case n.Status != statusRunning:
		return fmt.Sprintf("the daemon says %q", n.Status)
	}
	return ""
}

func (n NodeHealth) peersProblem(nodes int) string {
	switch {
	case n.errs.peers != nil && nodes == 1:
		return "" // a single node need not run a cluster port, nor its monitoring
	case n.errs.peers != nil:
		return "its peers are not known: " + n.errs.peers.Error()
	case n.Peers != nodes-1:
		return fmt.Sprintf("it sees %d of %d peers", n.Peers, nodes-1)
	}
	return ""
}

func (n NodeHealth) readyProblem() string {
	switch {
	case n.errs.ready != nil:
		return n.errs.ready.Error()
	case n.Ready == "":
		return "hive get nodes does not list it"
	case n.Ready != statusReady:
		return "hive get nodes says " + n.Ready
	}
	return ""
}

func (n NodeHealth) gatewayProblem() string {
	switch {
	case n.errs.gateway != nil:
		return "the gateway does not answer: " + n.errs.gateway.Error()
	case n.Gateway != http.StatusForbidden || n.GatewayCode != codeNoToken:
		return strings.TrimRight(fmt.Sprintf("the gateway answers an unsigned request with %d %s", n.Gateway, n.GatewayCode), " ") + " instead of 403 " + codeNoToken
	}
	return ""
}

func (n NodeHealth) apiProblem() string {
	switch {
	case n.errs.gateway != nil:
		return ""
	case n.errs.api != nil:
		return n.errs.api.Error()
	case n.InstanceTypes == 0:
		return "DescribeInstanceTypes answers an empty list"
	}
	return ""
}

// WaitHealthy waits until the cluster is formed, within Options.HealthTimeout. Too late is a failure that says, for every
// node that is not healthy, what is missing, and shows its log.
func (c *Cluster) WaitHealthy(ctx context.Context) error {
	return c.step(ctx, StepHealth, func(ctx context.Context) error {
		c.forget()
		limited, cancel := context.WithTimeout(ctx, c.options.HealthTimeout)
		defer cancel()
		shown := waiting{c: c, step: StepHealth}
		delay := pause{waitStep, waitStepLimit}
		for {
			health := c.look(limited, true)
			if health.Formed {
				return nil
			}
			if limited.Err() == nil {
				c.blameSilent(&health)
				shown.report(fmt.Sprintf("%d of %d nodes run", running(health.Nodes), len(health.Nodes)), strings.Join(health.Reasons, "; "))
			}
			if delay.wait(limited) != nil {
				return c.unhealthy(ctx)
			}
		}
	})
}

// silent tells that nothing answers where the daemon should.
func (n NodeHealth) silent() bool { return n.errs.health != nil && n.Code == 0 }

func running(nodes []NodeHealth) int {
	count := 0
	for _, node := range nodes {
		if node.running() {
			count++
		}
	}
	return count
}

// unhealthy looks once more and makes the error of nodes that are not healthy.
func (c *Cluster) unhealthy(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	health := c.look(ctx, false)
	if health.Formed {
		return nil
	}
	failed := &StepError{Err: fmt.Errorf("the cluster is not healthy after %s", c.options.HealthTimeout)}
	var failures nodeErrors
	for _, node := range health.Nodes {
		if !node.Healthy {
			failures = append(failures, NodeFailure{Node: node.Name, Err: errors.New(node.Error)})
		}
	}
	if len(failures) == 0 {
		failed.Err = fmt.Errorf("%w: %s", failed.Err, strings.Join(health.Reasons, "; "))
		return failed
	}
	failed.Nodes, _ = errors.AsType[nodeErrors](c.withLogs(ctx, failures, func(Host) []string { return []string{"hive", "spinifex"} }))
	return failed
}
