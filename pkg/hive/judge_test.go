package hive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/liveness"
	"hive-test/pkg/remote"
)

func TestParseHealth(t *testing.T) {
	const running = `{"node":"node1","status":"running","config_hash":"f3d9","epoch":1,"uptime":30,"services":["nats"],"service_health":{"nats":"ok"}}`
	for _, tt := range []struct {
		name   string
		answer answer
		self   string
		status string
		err    string
	}{
		{"running", answer{code: 200, body: []byte(running)}, "node1", "running", ""},
		{"starting", answer{code: 200, body: []byte(strings.Replace(running, "running", "starting", 1))}, "node1", "starting", ""},
		{"formation server", answer{code: 404, body: []byte("404 page not found\n")}, "", "", "formation server"},
		{"broken", answer{code: 500, body: []byte(`{"error":"failed to compute config hash"}`)}, "", "", "answers 500"},
		{"no JSON", answer{code: 200, body: []byte("<html>")}, "", "", "not JSON"},
		{"empty", answer{code: 200}, "", "", "not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readHealth(tt.answer)
			if got.Node != tt.self || got.Status != tt.status || (err == nil) != (tt.err == "") ||
				err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
}

// good is a node for which all facts hold, in a cluster of n.
func good(index, n int) NodeHealth {
	name := fmt.Sprintf("ci-%d", index)
	return NodeHealth{
		Name: name, Self: name, Code: 200, Status: "running", Scheme: "http", Peers: n - 1, Ready: "Ready",
		Gateway: 403, GatewayCode: "MissingAuthenticationToken", InstanceTypes: 4,
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		nodes  int
		change func(*NodeHealth) // of the last node
		listed int               // more than there should be
		want   string            // empty: formed
	}{
		{name: "one node", nodes: 1},
		{name: "three nodes", nodes: 3},
		{name: "ten nodes", nodes: 10},
		{name: "a lone node that waits for others", nodes: 3, change: func(n *NodeHealth) { n.Status = "starting" }, want: `ci-3: the daemon says "starting"`},
		{name: "another's name", nodes: 3, change: func(n *NodeHealth) { n.Self = "ci-1" }, want: `ci-3: the daemon calls itself "ci-1"`},
		{name: "no answer", nodes: 3, change: func(n *NodeHealth) { n.Code, n.errs.health = 0, errors.New("connection refused") }, want: "ci-3: the daemon does not answer: connection refused"},
		{name: "a service is dead", nodes: 3, change: func(n *NodeHealth) {
			n.Services = []Service{
				{"nats", ServiceUp, ""},
				{"predastore", ServiceDead, "its process is gone"},
				{"vpcd", ServiceOut, "no br-int"},
			}
		}, want: "ci-3: its predastore is dead: its process is gone"},
		{name: "services not known", nodes: 3, change: func(n *NodeHealth) { n.errs.services = errors.New("its services are not known: refused") }, want: "ci-3: its services are not known: refused"},
		{name: "the dead daemon is named", nodes: 3, change: func(n *NodeHealth) {
			n.Code, n.errs.health = 0, errors.New("connection refused")
			n.Services = []Service{{"spinifex", ServiceDead, "its process is gone"}}
		}, want: "ci-3: the daemon does not answer: connection refused; its daemon (spinifex) is dead: its process is gone"},
		{name: "all services are dead", nodes: 3, change: func(n *NodeHealth) {
			n.Code, n.errs.health = 0, errors.New("connection refused")
			n.Services = []Service{
				{"nats", ServiceDead, "its process is gone"},
				{"awsgw", ServiceDead, "its process is gone"},
				{"spinifex", ServiceDead, "its process is gone"},
				{"vpcd", ServiceOut, "no br-int"},
			}
		}, want: "ci-3: all its services are dead: their processes are gone"},
		{name: "what follows from a dead NATS or gateway", nodes: 3, change: func(n *NodeHealth) {
			n.Peers, n.errs.peers, n.errs.gateway = PeersUnknown, errors.New("refused"), errors.New("refused")
			n.Services = []Service{{"nats", ServiceDead, "its process is gone"}, {
				"awsgw", ServiceSilent, "nothing accepts connections at 10.0.0.3:9999",
			}}
		}, want: "ci-3: its nats is dead: its process is gone; its gateway (awsgw) is silent: nothing accepts connections at 10.0.0.3:9999"},
		{name: "no free capacity", nodes: 3, change: func(n *NodeHealth) { n.InstanceTypes = 0 }},
		{name: "a peer is missing", nodes: 3, change: func(n *NodeHealth) { n.Peers = 1 }, want: "ci-3: it sees 1 of 2 peers"},
		{name: "no monitoring", nodes: 3, change: func(n *NodeHealth) { n.Peers, n.errs.peers = PeersUnknown, errors.New("refused") }, want: "ci-3: its peers are not known: refused"},
		{name: "a single node without monitoring", nodes: 1, change: func(n *NodeHealth) { n.Peers, n.errs.peers = PeersUnknown, errors.New("refused") }},
		{name: "NotReady", nodes: 3, change: func(n *NodeHealth) { n.Ready = "NotReady" }, want: "ci-3: hive get nodes says NotReady"},
		{name: "not listed", nodes: 3, change: func(n *NodeHealth) { n.Ready = "" }, want: "ci-3: hive get nodes does not list it"},
		{name: "listed too often", nodes: 3, listed: 1, want: "hive get nodes lists 4 nodes instead of 3"},
		{name: "gateway broken", nodes: 3, change: func(n *NodeHealth) { n.Gateway, n.GatewayCode = 500, "InternalError" }, want: "ci-3: the gateway answers an unsigned request with 500 InternalError instead of 403 MissingAuthenticationToken"},
		{name: "gateway refuses for another reason", nodes: 3, change: func(n *NodeHealth) { n.GatewayCode = "" }, want: "ci-3: the gateway answers an unsigned request with 403 instead of 403 MissingAuthenticationToken"},
		{name: "gateway silent", nodes: 3, change: func(n *NodeHealth) { n.errs.gateway = errors.New("connection refused") }, want: "ci-3: the gateway does not answer: connection refused"},
		{name: "key refused", nodes: 3, change: func(n *NodeHealth) {
			n.InstanceTypes, n.errs.api = 0, errors.New("DescribeInstanceTypes answers 403 SignatureDoesNotMatch")
		}, want: "ci-3: DescribeInstanceTypes answers 403 SignatureDoesNotMatch"},
		{name: "two things at once", nodes: 3, change: func(n *NodeHealth) { n.Peers, n.Ready = 0, "NotReady" }, want: "ci-3: it sees 0 of 2 peers; hive get nodes says NotReady"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var nodes []NodeHealth
			listed := map[string]string{}
			for i := range tt.nodes {
				nodes = append(nodes, good(i+1, tt.nodes))
				listed[nodes[i].Name] = "Ready"
			}
			for i := range tt.listed {
				listed[fmt.Sprint("stranger", i)] = "Ready"
			}
			if tt.change != nil {
				tt.change(&nodes[tt.nodes-1])
			}
			health := judge(nodes, listed, nil)
			if got := strings.Join(health.Reasons(), "\n"); got != tt.want || health.Formed != (tt.want == "") {
				t.Errorf("formed: %v, reasons: %s", health.Formed, got)
			}
			if nodes[0].Healthy != (tt.nodes > 1 || tt.want == "") {
				t.Error("the first node is judged by another's state")
			}
		})
	}
}

// What is a node's own is told apart from what is of its peers and its gateway.
func TestOwnProblem(t *testing.T) {
	dead, out := Service{"predastore", ServiceDead, "its process is gone"}, Service{"vpcd", ServiceOut, "no br-int"}
	for name, tt := range map[string]struct {
		change func(*NodeHealth)
		want   string
	}{
		"healthy":         {func(*NodeHealth) {}, ""},
		"left out":        {func(n *NodeHealth) { n.Services = []Service{out} }, ""},
		"a dead service":  {func(n *NodeHealth) { n.Services = []Service{dead, out} }, "its predastore is dead: its process is gone"},
		"not known":       {func(n *NodeHealth) { n.errs.services = errors.New("its services are not known: refused") }, "its services are not known: refused"},
		"not listed":      {func(n *NodeHealth) { n.Ready = "" }, "hive get nodes does not list it"},
		"a peer":          {func(n *NodeHealth) { n.Peers = 1 }, ""},
		"a gateway's 500": {func(n *NodeHealth) { n.Gateway = 500 }, ""},
	} {
		n := good(3, 3)
		tt.change(&n)
		if got := n.OwnProblem(); got != tt.want {
			t.Errorf("%s: %q, not %q", name, got, tt.want)
		}
	}
}

// What others miss because a node is silent is not blamed on them: the node is.
func TestJudgeBlamesTheSilentNode(t *testing.T) {
	silent := func(n *NodeHealth) { n.Code, n.errs.health = 0, errors.New("no answer within 4s") }
	deadNATS := func(n *NodeHealth) {
		n.Services = []Service{{"nats", ServiceDead, "its process is gone"}}
	}
	waits := fmt.Errorf("DescribeInstanceTypes: %w", timeoutError{limit: time.Second})
	for _, tt := range []struct {
		name   string
		third  func(*NodeHealth)
		second func(*NodeHealth)
		list   error
		want   []string
	}{
		{"its peers miss it", silent, func(n *NodeHealth) { n.Peers = 1 }, nil, []string{"ci-3"}},
		{"its peers miss its NATS", deadNATS, func(n *NodeHealth) { n.Peers = 1 }, nil, []string{"ci-3"}},
		{"a gateway waits for it", silent, func(n *NodeHealth) { n.errs.api = waits }, nil, []string{"ci-3"}},
		{"the table of nodes waits for it", silent, func(*NodeHealth) {}, errors.New("hive get nodes on ci-1 timed out"), []string{"ci-3"}},
		{"more is missing than follows from it", silent, func(n *NodeHealth) { n.Peers = 0 }, nil, []string{"ci-2", "ci-3"}},
		{"a refusal does not follow from it", silent, func(n *NodeHealth) { n.errs.api = refusal{403, "SignatureDoesNotMatch"} }, nil, []string{"ci-2", "ci-3"}},
		{"an error of the gateway's follows from it", silent, func(n *NodeHealth) { n.errs.api = refusal{500, "InternalError"} }, nil, []string{"ci-3"}},
		{"an error of the gateway's own", func(*NodeHealth) {}, func(n *NodeHealth) { n.errs.api = refusal{500, "InternalError"} }, nil, []string{"ci-2"}},
		{"a gateway that waits for nobody", func(*NodeHealth) {}, func(n *NodeHealth) { n.errs.api = waits }, nil, []string{"ci-2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := []NodeHealth{good(1, 3), good(2, 3), good(3, 3)}
			tt.second(&nodes[1])
			tt.third(&nodes[2])
			health := judge(nodes, map[string]string{"ci-1": "Ready", "ci-2": "Ready", "ci-3": "Ready"}, tt.list)
			var ill []string
			for _, node := range health.Nodes {
				if !node.Healthy {
					ill = append(ill, node.Name)
				}
			}
			if diff := cmp.Diff(tt.want, ill); diff != "" || health.Formed || len(health.Reasons()) != len(tt.want) {
				t.Errorf("formed: %v, reasons: %v%s", health.Formed, health.Reasons(), diff)
			}
		})
	}
}

func TestANodeTableThatCannotBeHadIsToldOnce(t *testing.T) {
	failed := errors.New("hive get nodes on ci-1 exited with 1: no servers")
	nodes := []NodeHealth{good(1, 2), good(2, 2)}
	for i := range nodes {
		nodes[i].Ready, nodes[i].errs.ready = "", failed
	}
	health := judge(nodes, nil, failed)
	if diff := cmp.Diff([]string{failed.Error()}, health.Reasons()); diff != "" || health.Formed {
		t.Errorf("formed: %v%s", health.Formed, diff)
	}
}

func TestNotes(t *testing.T) {
	out := []Service{{"nats", ServiceUp, ""}, {"vpcd", ServiceOut, "no br-int"}, {"ui", ServiceOut, "no use"}}
	nodes := []NodeHealth{good(1, 3), good(2, 3), good(3, 3)}
	for i := range nodes {
		nodes[i].Services = out
	}
	nodes[2].Services, nodes[1].InstanceTypes = out[:2], 0
	nodes[0].Seconds, nodes[2].Seconds = 1.9, 5.04
	got := judge(nodes, map[string]string{"ci-1": "Ready", "ci-2": "Ready", "ci-3": "Ready"}, nil).Notes()
	if diff := cmp.Diff([]string{
		"left out: on ci-1, ci-2: vpcd (no br-int), ui (no use)", "left out: on ci-3: vpcd (no br-int)",
		"ci-2: no free capacity: DescribeInstanceTypes lists no type", "ci-3: it is slow: /health took 5s",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseServices(t *testing.T) {
	got := parseServices(
		"Welcome to node 1!\nnats\tup\t10.0.0.1:4222\nawsgw\tdead\tits process is gone\nui\tout\ttests have no use " +
			"for it\n",
	)
	if diff := cmp.Diff([]Service{
		{"nats", ServiceUp, "10.0.0.1:4222"}, {"awsgw", ServiceDead, "its process is gone"}, {"ui", ServiceOut, "tests have no use for it"},
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseNodes(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       map[string]string
	}{
		{"early", "\x1b[1;36mNAME \x1b[0m | \x1b[1;36mSTATUS\x1b[0m | IP | REGION | AZ | UPTIME | VMs | SERVICES\n" +
			"node1 | \x1b[32mReady\x1b[0m    | 10.0.0.1 | r | a | 1m | 0 | nats,daemon\n" +
			"node2 | \x1b[31mNotReady\x1b[0m | 10.0.0.2 | r | a | - | 0 | \n", map[string]string{"node1": "Ready", "node2": "NotReady"}},
		{"later, with roles", "NAME | STATUS | ROLES | IP\nnode1 | Ready | server | 10.0.0.1\n", map[string]string{"node1": "Ready"}},
		{"columns in another order", "STATUS | NAME\nReady | node1\n", map[string]string{"node1": "Ready"}},
		{"bars at the ends and rules between", "| NAME | STATUS |\n|------|--------|\n| node1 | Ready |\n", map[string]string{"node1": "Ready"}},
		{"words before it", "Asking nodes...\nNAME | STATUS\nnode1 | Ready\n", map[string]string{"node1": "Ready"}},
		{"no table", "Error: failed to connect to NATS\n", map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseNodes(tt.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCountPeers(t *testing.T) {
	const routes = `{"server_name":"node1","num_routes":8,"routes":[{"remote_name":"node2"},{"remote_name":"node2"},{"remote_name":"node3"},{"remote_name":"node2"},{"remote_name":"node1"},{"remote_name":""}]}`
	if got, err := countPeers([]byte(routes)); got != 2 || err != nil {
		t.Errorf("%d peers, %v", got, err)
	}
	if got, err := countPeers([]byte("oops")); got != PeersUnknown || err == nil {
		t.Errorf("%d peers, %v", got, err)
	}
}

func TestJudgeFormation(t *testing.T) {
	state := func(index int, change func(*nodeState)) nodeState {
		name := fmt.Sprintf("ci-%d", index)
		s := nodeState{
			host: &localHost{node: cluster.Node{Name: name}}, initialized: true, node: name, nodes: 3, ca: "aa",
			used: true,
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	fresh := func(s *nodeState) { *s = nodeState{host: s.host} }
	unused := func(s *nodeState) { s.used = false }
	for _, tt := range []struct {
		name   string
		states []nodeState
		force  bool
		want   formationVerdict
		why    string
	}{
		{"fresh nodes", []nodeState{state(1, fresh), state(2, fresh), state(3, fresh)}, false, form, ""},
		{"fresh nodes, forced", []nodeState{state(1, fresh), state(2, fresh), state(3, fresh)}, true, form, ""},
		{"complete", []nodeState{state(1, nil), state(2, nil), state(3, nil)}, false, keepFormation, ""},
		{"complete, forced", []nodeState{state(1, nil), state(2, nil), state(3, nil)}, true, formAnew, "--force"},
		{"half done, never used", []nodeState{state(1, unused), state(2, unused), state(3, fresh)}, false, formAnew, "ci-3 is not initialized"},
		{"a node was added", []nodeState{state(1, nil), state(2, nil), state(3, fresh)}, false, refuseFormation, "in use on ci-1, ci-2"},
		{"another CA", []nodeState{state(1, nil), state(2, nil), state(3, func(s *nodeState) { s.ca = "bb" })}, false, refuseFormation, "another certificate authority"},
		{"a program of another era", []nodeState{state(1, func(s *nodeState) { s.nodes, s.era, s.written = 1, "hive", "spinifex" })}, false, refuseFormation, "initialized by spinifex, and its program is hive now"},
		{"another size", []nodeState{state(1, func(s *nodeState) { s.nodes = 1 })}, false, keepFormation, ""},
		{"another cluster's", []nodeState{state(1, func(s *nodeState) { s.node = "old-1" })}, false, refuseFormation, `initialized as "old-1"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, why := judgeFormation(tt.states, tt.force)
			if got != tt.want || !strings.Contains(why, tt.why) {
				t.Errorf("%d %q, want %d %q", got, why, tt.want, tt.why)
			}
		})
	}
}

func TestSameVersion(t *testing.T) {
	state := func(name, version string) nodeState {
		return nodeState{host: &localHost{node: cluster.Node{Name: name}}, version: version}
	}
	if err := sameVersion([]nodeState{state("a", "v1"), state("b", "v1")}); err != nil {
		t.Error(err)
	}
	err := sameVersion([]nodeState{state("a", "v1"), state("b", "v2")})
	if err == nil || !strings.Contains(err.Error(), `a has "v1", b has "v2"`) {
		t.Errorf("%v", err)
	}
}

func TestRedaction(t *testing.T) {
	clean := redactor("tiny", "a-known-secret", "a-known-secret-that-is-longer")
	for _, tt := range []struct{ text, want string }{
		{"Access Key: AKIAABCDEFGHIJKLMNOP", "Access Key: [redacted]"},
		{"Join token: spx_join_abcdefgh12345678", "Join token: [redacted]"},
		{"run with spx_join_abcdefgh12345678 now", "run with [redacted] now"},
		{"secret_key = 'x y z'", "secret_key = [redacted]"},
		{`{"nats_token":"abc","node":"n1"}`, `{"nats_token":[redacted],"node":"n1"}`},
		{"cloning https://me:ghp_x@example.org/hive", "cloning https://[redacted]@example.org/hive"},
		{"it is a-known-secret-that-is-longer", "it is [redacted]"},
		{"tiny values stay", "tiny values stay"},
		{"node = 'ci-1'", "node = 'ci-1'"},
		{"Formation server started on 10.0.0.1:4432", "Formation server started on 10.0.0.1:4432"},
		{"-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----", "[redacted]"},
	} {
		if got := clean(tt.text); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestSecretValues(t *testing.T) {
	got := secretValues("node = 'n1'\n[nats]\ntoken = 'abcdef'\nserver_key = '/home/u/server.key'\naws_secret_access_key = q+/=w\n" +
		"  token: \"nats-token\"\n{\n  \"secret_access_key\": \"json+/=\",\n  \"user\": \"me\"}\n{\"a\":1,\"password\":\"p1\"}\n")
	if diff := cmp.Diff([]string{"abcdef", "q+/=w", "nats-token", "json+/=", "p1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseAccess(t *testing.T) {
	access := parseAccess(
		"==> ca.pem\nPEM\n\n==> credentials\n[default]\naws_access_key_id = no\n[spinifex]\naws_access_key_id = " +
			"AKIAX\naws_secret_access_key=s=1\n==> config\n[profile spinifex]\nregion = eu-1\n",
	)
	if access.Profile != "spinifex" || access.AccessKeyID != "AKIAX" || access.SecretAccessKey != "s=1" ||
		access.Region != "eu-1" || !strings.HasPrefix(string(access.CA), "PEM") {
		t.Errorf("%#v", access)
	}
	for _, text := range []string{fmt.Sprint(access), fmt.Sprintf("%+v", access), fmt.Sprintf("%#v", access)} {
		if strings.Contains(text, "AKIAX") {
			t.Errorf("printing it shows %s", text)
		}
	}
	if err := access.complete(); err == nil {
		t.Error("a CA that is no certificate passes")
	}
}

func TestStepErrorReadsWell(t *testing.T) {
	exit := &remote.ExitError{Node: "ci-2", Command: "join.sh", Result: remote.Result{Node: "ci-2", ExitCode: 1}}
	err := &StepError{Title: "joining the other nodes", Nodes: []NodeFailure{
		{Node: "ci-2", Err: exit, Log: "==> join.log\nError: Failed to join cluster: no\n\n"},
		{Node: "ci-3", Err: &remote.UnfinishedError{Node: "ci-3", Command: "join.sh", Cause: remote.ErrConnectionLost}},
	}}
	want := "joining the other nodes failed on ci-2, ci-3\n  ci-2: join.sh exited with 1\n    | ==> join.log\n    | Error: Failed to join cluster: no\n  ci-3: join.sh: the SSH connection was lost"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
	if found, ok := errors.AsType[*remote.ExitError](error(err)); !ok || found != exit {
		t.Error("the node's error is not within")
	}
}

func TestClocks(t *testing.T) {
	l := newLocal(t, 1, Options{})
	now := time.Unix(1_700_000_000, 0)
	l.warnOfMachines([]nodeState{parseState(l.hosts[0], "time=1700000030\n", now)})
	if l.warned("clock") {
		t.Error("30 seconds are no reason to warn")
	}
	l.warnOfMachines([]nodeState{parseState(l.hosts[0], "time=1699999700\n", now)})
	if !l.warned("its clock is off by -5m0s") {
		t.Error("5 minutes are")
	}
}

// Later versions of hive let NATS monitoring listen on 127.0.0.1 of the node only.
func TestPeersAreAskedThroughTheNode(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"server_name":"ci-1","routes":[{"remote_name":"ci-2"}]} `)
	}))
	defer server.Close()
	l := newLocal(t, 1, Options{})
	var asked []string
	l.hosts[0].dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		asked = append(asked, addr)
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	for range 2 {
		if peers, err := l.peers(t.Context(), l.hosts[0], false); peers != 1 || err != nil {
			t.Errorf("%d peers: %v", peers, err)
		}
	}
	if diff := cmp.Diff([]string{"127.0.0.1:8222", "127.0.0.1:8222"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestSize(t *testing.T) {
	for nodes := 1; nodes <= 10; nodes++ {
		if warned := Size(nodes) != ""; warned != (nodes == 2) {
			t.Errorf("%d nodes: warned: %v", nodes, warned)
		}
	}
}

// Unreachable is a node of which nothing has answered, not one that refuses connections or is slow with some.
func TestUnreachable(t *testing.T) {
	silent := timeoutError{limit: time.Second}
	dead := &liveness.UnreachableError{Node: "ci-1", Err: errors.New("its VM is stopped")}
	for _, tt := range []struct {
		name             string
		health, services error
		code             int
		want             error
	}{
		{"all is well", nil, nil, 200, nil},
		{"silent", silent, context.Canceled, 0, silent},
		{"its daemon alone", silent, nil, 0, nil},
		{"refused", syscall.ECONNREFUSED, context.Canceled, 0, nil},
		{"its VM is stopped", dead, nil, 0, dead},
		{"a wrong answer", errors.New("/health answers 500"), context.Canceled, 500, nil},
	} {
		var n NodeHealth
		n.Code, n.errs.health, n.errs.services = tt.code, tt.health, tt.services
		if got := n.Unreachable(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
