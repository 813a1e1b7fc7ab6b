package hive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/liveness"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/wait"
)

// PeersUnknown is NodeHealth.Peers where NATS monitoring could not be asked.
const PeersUnknown = -1

// NodeHealth is what one look at a node has shown, each fact by itself.
type NodeHealth struct {
	Name string `json:"name"`
	// Code and Status are the HTTP status and the "status" of /health (0 and empty if it did not answer so), Self the
	// name that the daemon gives itself, Scheme http or https.
	Code   int    `json:"code"`
	Status string `json:"status"`
	Self   string `json:"self"`
	Scheme string `json:"scheme,omitempty"`
	// Seconds is what the answer of /health took.
	Seconds float64 `json:"seconds,omitempty"`
	// Peers is how many distinct NATS servers this node's has routes to; PeersUnknown if that could not be asked.
	Peers int `json:"peers"`
	// Ready is the node's STATUS in node 1's `hive get nodes`; empty if it is not listed.
	Ready string `json:"ready"`
	// Gateway is the HTTP status of an unsigned request, which has to be 403, and GatewayCode its error code, which has
	// to be MissingAuthenticationToken.
	Gateway     int    `json:"gateway"`
	GatewayCode string `json:"gateway_code,omitempty"`
	// InstanceTypes is how many a signed DescribeInstanceTypes lists: those for which the cluster has room.
	InstanceTypes int `json:"instance_types"`
	// Services are hive's services on the node; none where it was not asked.
	Services []Service `json:"services,omitempty"`
	// Healthy says that all facts hold. Error says in words which do not, Note what is worth knowing though it is no
	// fault.
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
	Note    string `json:"note,omitempty"`

	errs struct{ health, services, peers, ready, gateway, api error }
}

// Health is one look at a whole cluster. Formed means that all nodes are healthy and no more are listed than there
// should be.
type Health struct {
	Nodes  []NodeHealth `json:"nodes"`
	Formed bool         `json:"formed"`
	// ClusterReasons are why it is not formed, without the errors of nodes.
	ClusterReasons []string `json:"cluster_reasons,omitempty"`
}

// Reasons returns why the cluster is not formed: the errors of nodes, in node order, then ClusterReasons.
func (h Health) Reasons() []string {
	var reasons []string
	for _, node := range h.Nodes {
		if node.Error != "" {
			reasons = append(reasons, node.Name+": "+node.Error)
		}
	}
	return append(reasons, h.ClusterReasons...)
}

// Notes are worth knowing and no faults: services that were left out, nodes without free capacity.
func (h Health) Notes() []string {
	notes := LeftOut(h.Nodes)
	for _, node := range h.Nodes {
		if node.Note != "" {
			notes = append(notes, node.Name+": "+node.Note)
		}
	}
	return notes
}

// startPauses are the pauses between two looks at what starts.
var startPauses = wait.Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second, Factor: 1.5}

const (
	statusRunning  = "running"
	statusReady    = "Ready"
	codeNoToken    = "MissingAuthenticationToken"
	getNodesLimit  = 20 * time.Second
	healthRoundMax = 8 // times Options.ProbeTimeout, for a whole round

	unreachableGrace = time.Second // that is left to SSH where a node has not answered otherwise
)

// Check looks at all nodes once, at all of them together. It takes a moment, and up to eight times Options.ProbeTimeout
// of nodes that are slow or silent: what has no answer in time is asked a second time. It never fails: what could not
// be asked is in the result.
//
// The facts: (a) /health answers 200 with JSON that says "running" and the node's own name, on N distinct nodes; (b)
// every service that should run on a node has its process and accepts connections; (c) NATS has routes to N-1 distinct
// peers; (d) `hive get nodes` lists exactly N nodes as Ready; (e) every gateway refuses an unsigned request as such,
// and answers a signed DescribeInstanceTypes. A 200 of /health alone proves nothing: a lone node answers so while it
// waits for others, the formation server holds the same port, and it calls every service "ok", dead ones too.
//
// What follows from a node that is silent is not blamed on those that miss it or wait for it.
func (c *Cluster) Check(ctx context.Context) Health {
	return c.look(ctx, false)
}

// look makes a round. A lazy one, for those who wait and will ask again, asks for nothing twice and stops after facts
// (a) and (b) while they do not hold.
func (c *Cluster) look(ctx context.Context, lazy bool) Health {
	ctx, cancel := context.WithTimeout(ctx, healthRoundMax*c.options.ProbeTimeout)
	defer cancel()
	nodes := make([]NodeHealth, len(c.hosts))
	access, accessErr := c.Credentials(ctx)
	probe := c.newProber(access.CA)
	probe.again = !lazy
	defer probe.close()
	atOnce(c.hosts, func(i int, host Host) {
		nodes[i] = NodeHealth{Name: host.Name(), Peers: PeersUnknown}
		asked, giveUp := context.WithCancel(ctx)
		defer giveUp()
		var services sync.WaitGroup
		var found []Service
		var failed error
		services.Go(func() { found, failed = c.askServices(asked, host) })
		nodes[i].errs.health = c.options.Monitor.Ask(ctx, host.Name(), func(ctx context.Context) error {
			return nodes[i].askHealth(ctx, probe, address(host, ManagerPort), accessErr)
		})
		if nodes[i].unreachable() { // its SSH server will not answer either, and takes longer to say so
			time.AfterFunc(unreachableGrace, giveUp)
		}
		services.Wait()
		nodes[i].Services, nodes[i].errs.services = found, failed
	})
	if lazy && count(nodes, NodeHealth.running) < len(nodes) {
		return judgeRunning(nodes)
	}
	var listed map[string]string
	var listErr error
	var list sync.WaitGroup
	able := c.able(nodes)
	list.Go(func() { listed, listErr = c.listNodes(ctx, able) })
	atOnce(c.hosts, func(i int, host Host) {
		if nodes[i].unreachable() {
			return // the rest follows from that
		}
		nodes[i].errs.peers = c.options.Monitor.Ask(ctx, host.Name(), func(ctx context.Context) (err error) {
			nodes[i].Peers, err = c.peers(ctx, host, !lazy)
			return err
		})
		nodes[i].errs.gateway = c.options.Monitor.Ask(ctx, host.Name(), func(ctx context.Context) error {
			return nodes[i].askGateway(ctx, probe, access, accessErr, address(host, GatewayPort))
		})
	})
	list.Wait()
	for i := range nodes {
		nodes[i].Ready, nodes[i].errs.ready = listed[nodes[i].Name], listErr
	}
	return judge(nodes, listed, listErr)
}

// askHealth fills in what /health says, or returns why it says nothing that counts.
func (n *NodeHealth) askHealth(ctx context.Context, probe *prober, address string, accessErr error) error {
	answer, scheme, err := probe.getEither(ctx, address+"/health")
	n.Scheme, n.Code, n.Seconds = scheme, answer.code, answer.took.Seconds()
	if err != nil {
		if scheme == "https" && accessErr != nil {
			return fmt.Errorf("its certificate cannot be verified: %w", accessErr)
		}
		return err
	}
	words, err := readHealth(answer)
	n.Self, n.Status = words.Node, words.Status
	return err
}

// healthWords is what /health tells.
type healthWords struct {
	Node   string `json:"node"`
	Status string `json:"status"`
	Uptime int64  `json:"uptime"` // seconds
}

// readHealth reads a /health answer, or says why it is none.
func readHealth(a answer) (health healthWords, err error) {
	switch {
	case a.code == http.StatusNotFound:
		return healthWords{}, errors.New(
			"/health answers 404: another program holds the port, such as the formation server " +
				"of an unfinished init",
		)
	case a.code != http.StatusOK:
		return healthWords{}, fmt.Errorf("/health answers %d", a.code)
	}
	if err := json.Unmarshal(a.body, &health); err != nil {
		return healthWords{}, errors.New("/health answers something that is not JSON")
	}
	return health, nil
}

// askGateway fills in what the gateway answers, or returns why it does not.
func (n *NodeHealth) askGateway(
	ctx context.Context, probe *prober, access Access, accessErr error, address string,
) error {
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

// able are the hosts that can tell of the cluster: those that run and have NATS, else node 1.
func (c *Cluster) able(nodes []NodeHealth) []Host {
	hosts := filter(c.hosts, func(h Host) bool {
		node := nodes[slices.Index(c.hosts, h)]
		return node.running() && !node.absent()
	})
	if len(hosts) == 0 {
		return c.hosts[:1]
	}
	return hosts
}

// listNodes asks the first of hosts for its table of nodes, and the next where that fails. A host, which runs, is not
// called NotReady on one word: its answer can come too late just after another one has fallen silent.
func (c *Cluster) listNodes(ctx context.Context, hosts []Host) (map[string]string, error) {
	listed, err := c.getNodes(ctx, hosts[0])
	doubtful := slices.ContainsFunc(hosts, func(h Host) bool { return listed[h.Name()] != statusReady })
	if (err != nil || doubtful) && ctx.Err() == nil {
		listed, err = c.getNodes(ctx, hosts[min(1, len(hosts)-1)])
	}
	return listed, err
}

// getNodes asks one node for its table of nodes.
func (c *Cluster) getNodes(ctx context.Context, host Host) (map[string]string, error) {
	result, err := c.script(ctx, host, "nodes.sh", getNodesLimit, nil, nil)
	if exit, ok := errors.AsType[*remote.ExitError](err); ok {
		return nil, fmt.Errorf("hive get nodes on %s exited with %d: %s", host.Name(), exit.Result.ExitCode,
			strings.Join(tail(outputOf(err), 1), ""))
	}
	return parseNodes(string(result.Stdout)), err
}

// peers counts the distinct servers that a node's NATS has routes to. Monitoring listens on the node's address in early
// versions, and on its loopback interface later, where it is reached through SSH.
func (c *Cluster) peers(ctx context.Context, host Host, again bool) (int, error) {
	through := c.newProberFrom(host)
	defer through.close()
	through.again = again
	c.mu.Lock()
	indirect := c.indirect[host.Name()]
	c.mu.Unlock()
	if indirect {
		return askPeers(ctx, through, monitorLoopback())
	}
	direct := c.newProber(nil)
	direct.again = again
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
	c.indirect[host.Name()] = true
	c.mu.Unlock()
	return peers, nil
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

// count is of how many nodes that is true.
func count(nodes []NodeHealth, is func(NodeHealth) bool) int {
	found := 0
	for _, node := range nodes {
		if is(node) {
			found++
		}
	}
	return found
}

// judgeRunning judges facts (a) and (b) alone, for nodes that were asked no more.
func judgeRunning(nodes []NodeHealth) Health {
	health := Health{Nodes: nodes}
	for i := range nodes {
		nodes[i].Error = joined(nodes[i].healthProblem(), nodes[i].serviceProblems())
	}
	return health
}

// judge decides on all facts.
func judge(nodes []NodeHealth, listed map[string]string, listErr error) Health {
	health := Health{Nodes: nodes, Formed: true}
	absent := count(nodes, NodeHealth.absent)
	for i := range nodes {
		others := absent
		if nodes[i].absent() {
			others--
		}
		nodes[i].Error = nodes[i].problems(len(nodes), others)
		nodes[i].Healthy = nodes[i].Error == ""
		nodes[i].Note = nodes[i].note()
		health.Formed = health.Formed && nodes[i].Healthy
	}
	switch {
	case listErr != nil && (health.Formed || absent == 0):
		health.Formed = false
		health.ClusterReasons = append(health.ClusterReasons, listErr.Error())
	case len(listed) > len(nodes):
		health.Formed = false
		reason := fmt.Sprintf(
			"hive get nodes lists %s instead of %d", progress.Count(len(listed), "node"), len(nodes),
		)
		health.ClusterReasons = append(health.ClusterReasons, reason)
	}
	return health
}

// note says what is worth knowing of the node, and no fault.
func (n NodeHealth) note() string {
	late, full := "", ""
	if took := time.Duration(n.Seconds * float64(time.Second)); took >= slow {
		late = fmt.Sprintf("it is slow: /health took %s", took.Round(100*time.Millisecond))
	}
	if n.errs.api == nil && n.errs.gateway == nil && n.InstanceTypes == 0 {
		full = "no free capacity: DescribeInstanceTypes lists no type"
	}
	return joined(late, full)
}

// absent tells that others cannot find the node: nothing answers there, or its NATS is gone.
func (n NodeHealth) absent() bool {
	return n.silent() || n.ill("nats")
}

// ill tells that the service should run on the node and does not do well.
func (n NodeHealth) ill(service string) bool {
	return slices.ContainsFunc(n.Services, func(s Service) bool { return s.Name == service && s.problem() != "" })
}

// joined are the problems that there are, in one text.
func joined(problems ...string) string {
	return strings.Join(slices.DeleteFunc(problems, func(p string) bool { return p == "" }), "; ")
}

// problems says which facts do not hold for a node of so many, of which so many others are absent.
func (n NodeHealth) problems(nodes, absent int) string {
	if n.silent() {
		return joined(n.healthProblem(), n.serviceProblems()) // the rest follows from that
	}
	services := n.serviceProblems()
	if n.errs.services != nil {
		services = n.errs.services.Error()
	}
	return joined(n.healthProblem(), services, n.peersProblem(nodes, absent), n.readyProblem(), n.gatewayProblem(),
		n.apiProblem(absent))
}

// OwnProblem says what is wrong with the node by itself: its daemon, its services, and how the cluster lists it. Empty:
// nothing, though its peers and its gateway, which are facts of their own, may be.
func (n NodeHealth) OwnProblem() string {
	services := n.serviceProblems()
	if n.errs.services != nil {
		services = n.errs.services.Error()
	}
	return joined(n.healthProblem(), services, n.readyProblem())
}

func (n NodeHealth) healthProblem() string {
	switch {
	case n.allDead() && n.silent():
		return "" // it follows
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

func (n NodeHealth) peersProblem(nodes, absent int) string {
	switch {
	case n.ill("nats"):
		return "" // it follows
	case n.errs.peers != nil && nodes == 1:
		return "" // a single node need not run a cluster port, nor its monitoring
	case n.errs.peers != nil:
		return "its peers are not known: " + n.errs.peers.Error()
	case n.Peers < nodes-1 && n.Peers >= nodes-1-absent:
		return "" // those that it misses are told by themselves
	case n.Peers != nodes-1:
		return fmt.Sprintf("it sees %d of %s", n.Peers, progress.Count(nodes-1, "peer"))
	}
	return ""
}

func (n NodeHealth) readyProblem() string {
	switch {
	case n.errs.ready != nil:
		return "" // told once, for all nodes
	case n.Ready == "":
		return "hive get nodes does not list it"
	case n.Ready != statusReady:
		return "hive get nodes says " + n.Ready
	}
	return ""
}

func (n NodeHealth) gatewayProblem() string {
	switch {
	case n.ill("awsgw"):
		return "" // it follows
	case n.errs.gateway != nil:
		return "the gateway does not answer: " + n.errs.gateway.Error()
	case n.Gateway != http.StatusForbidden || n.GatewayCode != codeNoToken:
		return strings.TrimRight(
			fmt.Sprintf("the gateway answers an unsigned request with %d %s", n.Gateway, n.GatewayCode), " ",
		) +
			" instead of 403 " + codeNoToken
	}
	return ""
}

func (n NodeHealth) apiProblem(absent int) string {
	switch {
	case n.errs.gateway != nil || n.errs.api == nil:
		return ""
	case absent > 0 && isTimeout(n.errs.api):
		return "" // it waits for the nodes that are absent
	}
	refused, ok := errors.AsType[refusal](n.errs.api)
	if absent > 0 && ok && refused.code >= http.StatusInternalServerError {
		return "" // NATS is still finding out which are left
	}
	return n.errs.api.Error()
}

// WaitHealthy waits until the cluster is formed, within Options.HealthTimeout. Too late is a failure that says, for
// every node that is not healthy, what is missing, and shows its log.
func (c *Cluster) WaitHealthy(ctx context.Context) error {
	return c.step(ctx, StepHealth, func(ctx context.Context) error {
		c.forget()
		limited, cancel := context.WithTimeout(ctx, c.options.HealthTimeout)
		defer cancel()
		shown := c.awaited(StepHealth)
		for range startPauses.Tries(limited) {
			health := c.look(limited, true)
			if health.Formed {
				return nil
			}
			if limited.Err() == nil && slices.ContainsFunc(
				health.Nodes, func(n NodeHealth) bool { return len(n.dead()) > 0 },
			) {
				return c.lost(ctx, health)
			}
			if limited.Err() == nil {
				c.attributeSilence(&health)
				shown.Pending(
					fmt.Sprintf(
						"running: %d of %s", count(health.Nodes, NodeHealth.running),
						progress.Count(len(health.Nodes), "node"),
					),
					strings.Join(health.Reasons(), "; "),
				)
			}
		}
		return c.unhealthy(ctx)
	})
}

// telling are the logs that tell of what is wrong with the node.
func (n NodeHealth) telling() []string {
	names := n.named(func(s Service) bool { return s.problem() != "" })
	if n.gatewayProblem() != "" || n.errs.api != nil {
		names = append(names, "awsgw")
	}
	if len(names) > 0 {
		return names
	}
	return []string{"hive", "spinifex"}
}

// silent tells that nothing answers where the daemon should.
func (n NodeHealth) silent() bool { return n.errs.health != nil && n.Code == 0 }

// unreachable tells that the node did not even refuse a connection.
func (n NodeHealth) unreachable() bool { return n.silent() && isTimeout(n.errs.health) }

// Unreachable returns why nothing on the node can be expected to answer: its machine is dead, as its hypervisor says, or
// neither its daemon nor its SSH server has answered. Nil where something has.
func (n NodeHealth) Unreachable() error {
	_, dead := errors.AsType[*liveness.UnreachableError](n.errs.health)
	if dead || n.unreachable() && n.errs.services != nil {
		return n.errs.health
	}
	return nil
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
		failed.Err = fmt.Errorf("%w: %s", failed.Err, strings.Join(health.Reasons(), "; "))
		return failed
	}
	c.addLogs(ctx, failures, func(h Host) []string { return health.Nodes[slices.Index(c.hosts, h)].telling() })
	failed.Nodes = failures
	return failed
}
