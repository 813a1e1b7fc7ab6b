package simhive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// TestMain lets the test binary be the program that `start` runs again.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "hive" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// node is one simulated machine: a home directory and an address.
type node struct {
	t          *testing.T
	name, ip   string
	home       string
	era, scale string
}

// networks counts the networks that were given out: each call of nodes has one of its own.
var networks atomic.Int32

// nodes makes n machines on addresses that no other test uses at the same time.
func nodes(t *testing.T, era Era, n int) []*node {
	t.Helper()
	network := fmt.Sprintf("127.%d.%d", 191+os.Getpid()%60, 1+networks.Add(1)%250)
	made := make([]*node, n)
	for i := range made {
		made[i] = &node{t: t, name: fmt.Sprintf("node%d", i+1), ip: fmt.Sprintf("%s.%d", network, i+1),
			home: t.TempDir(), era: string(era), scale: "0.02"}
		t.Cleanup(func() { made[i].run("stop") })
	}
	probe, err := net.Listen("tcp", made[0].ip+":0")
	if err != nil {
		t.Skipf("this system has no address %s on its loopback interface: %v", made[0].ip, err)
	}
	probe.Close()
	return made
}

type outcome struct {
	code           int
	stdout, stderr string
}

func (n *node) command(ctx context.Context, args ...string) *exec.Cmd {
	executable, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, executable)
	cmd.Args = append([]string{"hive"}, args...)
	cmd.Env = []string{"HOME=" + n.home, "GORACE=atexit_sleep_ms=0", "HIVE_SIM_ERA=" + n.era, "HIVE_SIM_TIME_SCALE=" + n.scale, "PATH=" + os.Getenv("PATH")}
	return cmd
}

func (n *node) run(args ...string) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := n.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		n.t.Errorf("hive %v: %v", args, err)
	} else if ok && exit.ExitCode() < 0 {
		n.t.Errorf("hive %v: %v", args, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func (n *node) must(args ...string) outcome {
	n.t.Helper()
	got := n.run(args...)
	if got.code != 0 {
		n.t.Fatalf("hive %v on %s: exit %d\n%s%s", args, n.name, got.code, got.stdout, got.stderr)
	}
	return got
}

func (n *node) init(count int, more ...string) []string {
	return append([]string{"admin", "init", "--node", n.name, "--nodes", fmt.Sprint(count), "--bind", n.ip, "--formation-timeout", "60s"}, more...)
}

func (n *node) join(leader *node, more ...string) []string {
	return append([]string{"admin", "join", "--node", n.name, "--host", leader.ip + ":4432", "--bind", n.ip}, more...)
}

func (n *node) settings(s Settings) {
	n.t.Helper()
	values := map[string]any{}
	data, _ := json.Marshal(s)
	json.Unmarshal(data, &values)
	for key, value := range values {
		if value == nil || value == "" || value == 0.0 || value == false {
			delete(values, key)
		}
	}
	data, _ = json.Marshal(values)
	if err := os.WriteFile(filepath.Join(n.home, ".hive-sim.json"), data, 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) read(name string) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.home, name))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// client trusts the node's own CA.
func (n *node) client() *http.Client {
	pool := x509.NewCertPool()
	if text, err := os.ReadFile(filepath.Join(n.home, "hive/config/ca.pem")); err == nil {
		pool.AppendCertsFromPEM(text)
	}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool},
	}}
}

func (n *node) get(url string) (int, string, error) {
	response, err := n.client().Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func (n *node) managerURL() string {
	if n.era == string(EraSpx) {
		return "https://" + n.ip + ":4432"
	}
	return "http://" + n.ip + ":4432"
}

func (n *node) health() healthResponse {
	var h healthResponse
	if _, body, err := n.get(n.managerURL() + "/health"); err == nil {
		json.Unmarshal([]byte(body), &h)
	}
	return h
}

// eventually polls until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if check() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

// form initializes all nodes as one cluster and returns init's output.
func form(t *testing.T, members []*node) outcome {
	t.Helper()
	leader := members[0]
	done := forming(t, leader, len(members))
	var joinFlags []string
	if leader.era == string(EraSpx) {
		joinFlags = []string{"--token", strings.TrimSpace(leader.read("hive/config/join-token"))}
	}
	var wait sync.WaitGroup
	for _, follower := range members[1:] {
		wait.Go(func() {
			got := follower.run(follower.join(leader, joinFlags...)...)
			if got.code != 0 || !strings.Contains(got.stdout, "Node successfully joined cluster!") {
				t.Errorf("join of %s: %+v", follower.name, got)
			}
		})
	}
	wait.Wait()
	got := <-done
	if got.code != 0 || !strings.Contains(got.stdout, "Cluster formation complete!") {
		t.Fatalf("init: %+v", got)
	}
	return got
}

// call makes an API call signed with the key of the node's ~/.aws/credentials, or as change says.
func (n *node) call(action string, change func(*aws.Credentials, *string, *time.Time)) (int, string) {
	n.t.Helper()
	key := n.credentials()
	service, at := "ec2", time.Now()
	if change != nil {
		change(&key, &service, &at)
	}
	body := "Action=" + action + "&Version=2016-11-15"
	request, err := http.NewRequest(http.MethodPost, "https://"+n.ip+":9999/", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key.AccessKeyID != "" {
		sum := sha256.Sum256([]byte(body))
		if err := v4.NewSigner().SignHTTP(n.t.Context(), key, request, hex.EncodeToString(sum[:]), service, "eu-west-1", at); err != nil {
			n.t.Fatal(err)
		}
	}
	response, err := n.client().Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(answer)
}

func (n *node) credentials() aws.Credentials {
	var key aws.Credentials
	for line := range strings.Lines(n.read(".aws/credentials")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch name {
		case "aws_access_key_id":
			key.AccessKeyID = value
		case "aws_secret_access_key":
			key.SecretAccessKey = value
		}
	}
	return key
}

func TestOneNode(t *testing.T) {
	for _, era := range []Era{EraPre, EraSpx} {
		t.Run(string(era), func(t *testing.T) {
			n := nodes(t, era, 1)[0]
			n.must(n.init(1)...)
			if got := n.must(n.init(1)...); !strings.Contains(got.stdout, "already initialized") {
				t.Errorf("second init says %q", got.stdout)
			}
			n.must("start")
			if h := n.health(); h.Status != "starting" && h.Status != "running" {
				t.Errorf("/health after start: %+v", h)
			}
			eventually(t, "the node runs", func() bool { return n.health().Status == "running" })
			if got := n.must("start"); !strings.Contains(got.stdout, "already running") {
				t.Errorf("second start says %q", got.stdout)
			}
			n.must("stop")
			if _, _, err := n.get(n.managerURL() + "/health"); err == nil {
				t.Error("the daemon answers after stop")
			}
			if got := n.must("stop"); !strings.Contains(got.stdout, "not running") {
				t.Errorf("second stop says %q", got.stdout)
			}
		})
	}
}

func TestThreeNodes(t *testing.T) {
	for _, era := range []Era{EraPre, EraSpx} {
		t.Run(string(era), func(t *testing.T) {
			members := nodes(t, era, 3)
			leader := members[0]
			printed := form(t, members)
			if era == EraPre {
				if key := leader.credentials(); strings.Contains(printed.stdout, key.AccessKeyID) || !strings.Contains(printed.stdout, "Access Key: AKIA") {
					t.Error("init of this era prints a key that does not work")
				}
			}
			for _, n := range members {
				if n.credentials() != leader.credentials() {
					t.Errorf("%s has other credentials than node 1", n.name)
				}
				n.must("start")
			}
			for _, n := range members {
				eventually(t, n.name+" runs", func() bool { h := n.health(); return h.Status == "running" && h.Node == n.name })
				eventually(t, n.name+" sees two peers", func() bool { return len(n.peers()) == 2 })
			}
			if leader.health().ConfigHash == members[1].health().ConfigHash {
				t.Error("config_hash differs between nodes of a real cluster")
			}
			if got := statuses(leader.must("get", "nodes").stdout); got != "Ready Ready Ready" {
				t.Errorf("get nodes: %s", got)
			}
			members[2].must("stop")
			if got := statuses(leader.must("get", "nodes").stdout); got != "Ready Ready NotReady" {
				t.Errorf("get nodes with one stopped: %s", got)
			}
			eventually(t, "node 1 misses its peer", func() bool { return len(leader.peers()) == 1 })
		})
	}
}

// peers are the unique remote names of /routez.
func (n *node) peers() map[string]int {
	var answer routez
	_, body, err := n.get("http://" + n.ip + ":8222/routez")
	if err == nil {
		err = json.Unmarshal([]byte(body), &answer)
	}
	names := map[string]int{}
	for _, r := range answer.Routes {
		names[r.RemoteName]++
	}
	if err == nil && answer.NumRoutes != 4*len(names) {
		n.t.Errorf("num_routes is %d for %d peers", answer.NumRoutes, len(names))
	}
	return names
}

func statuses(table string) string {
	var found []string
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		cell := strings.Split(line, "|")[1]
		cell = strings.NewReplacer(colourReady, "", colourBad, "", colourOff, "").Replace(cell)
		found = append(found, strings.TrimSpace(cell))
	}
	return strings.Join(found, " ")
}

func TestLoneNodeOfThreeIsNeverMoreThanStarting(t *testing.T) {
	members := nodes(t, EraPre, 3)
	form(t, members)
	members[0].must("start")
	time.Sleep(500 * time.Millisecond) // more than twice the start-up time
	if h := members[0].health(); h.Status != "starting" {
		t.Errorf("a lone node says %q", h.Status)
	}
	if got := statuses(members[0].must("get", "nodes").stdout); got != "NotReady NotReady NotReady" {
		t.Errorf("get nodes: %s", got)
	}
	members[1].must("start")
	eventually(t, "two of three are a quorum", func() bool {
		return members[0].health().Status == "running" && members[1].health().Status == "running"
	})
}

// forming starts init on the leader and returns, once its server answers, how it ends.
func forming(t *testing.T, leader *node, count int) chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() { done <- leader.run(leader.init(count)...) }()
	eventually(t, "the formation server answers", func() bool {
		code, body, _ := leader.get(leader.managerURL() + "/formation/health")
		return code == 200 && body == "ok"
	})
	return done
}

// post asks the formation server to let a node join and returns the answer's code; 0 if there was none.
func (n *node) post(body string) int {
	response, err := n.client().Post(n.managerURL()+"/formation/join", "application/json", strings.NewReader(body))
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

func TestFormationServer(t *testing.T) {
	leader := nodes(t, EraPre, 2)[0]
	done := forming(t, leader, 2)
	if code, body, _ := leader.get(leader.managerURL() + "/health"); code != 404 || body != "404 page not found\n" {
		t.Errorf("/health during formation: %d %q", code, body)
	}
	if _, body, _ := leader.get(leader.managerURL() + "/formation/status"); strings.TrimSpace(body) != `{"complete":false,"joined":1,"expected":2}` {
		t.Errorf("/formation/status: %s", body)
	}
	for _, tt := range []struct {
		name, body string
		code       int
	}{
		{"no JSON", `{`, 400},
		{"no address", `{"name":"node2"}`, 400},
		{"a name that is taken", `{"name":"node1","bind_ip":"127.9.9.9"}`, 409},
		{"an address that is taken", `{"name":"other","bind_ip":"` + leader.ip + `"}`, 409},
		{"the last node", `{"name":"node2","bind_ip":"127.9.9.9"}`, 200},
		{"one node more: the handler of this era dies", `{"name":"node3","bind_ip":"127.9.9.10"}`, 0},
	} {
		if code := leader.post(tt.body); code != tt.code {
			t.Errorf("%s: %d, want %d", tt.name, code, tt.code)
		}
	}
	eventually(t, "whoever asks gets all keys", func() bool {
		_, body, _ := leader.get(leader.managerURL() + "/formation/status")
		return strings.Contains(body, `"complete":true`) && strings.Contains(body, `"master_key":"`) && strings.Contains(body, "PRIVATE KEY")
	})
	if got := <-done; got.code != 0 || !strings.Contains(got.stdout, "All 2 nodes joined!") {
		t.Errorf("init: %+v", got)
	}
}

func TestFormationTimesOut(t *testing.T) {
	leader := nodes(t, EraPre, 3)[0]
	got := leader.run(leader.init(3, "--formation-timeout", "200ms")...)
	if got.code != 1 || !strings.Contains(got.stderr, "formation timed out after 200ms: 1/3 nodes joined") {
		t.Errorf("init: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(leader.home, "hive/config/hive.toml")); err == nil {
		t.Error("a failed formation leaves no hive.toml")
	}
}

func TestRefusals(t *testing.T) {
	pre := nodes(t, EraPre, 1)[0]
	spx := nodes(t, EraSpx, 1)[0]
	running := nodes(t, EraPre, 1)[0]
	running.must(running.init(1)...)
	running.must("start")
	spx.must(spx.init(1)...)
	for _, tt := range []struct {
		name string
		node *node
		args []string
		code int
		want string
	}{
		{"join needs a node and a host", pre, []string{"admin", "join"}, 1, `required flag(s) "node", "host" not set`},
		{"join needs a token", spx, []string{"admin", "join", "--node", "b", "--host", "127.0.0.1:1"}, 1, `required flag(s) "token" not set`},
		{"join on an initialized node", spx, []string{"admin", "join", "--node", "b", "--host", "127.0.0.1:1", "--token", "x"}, 1, "already initialized"},
		{"join has no retry", pre, []string{"admin", "join", "--node", "b", "--host", pre.ip + ":4432", "--bind", pre.ip}, 1, "connection refused"},
		{"join to a daemon", pre, []string{"admin", "join", "--node", "b", "--host", running.ip + ":4432", "--bind", pre.ip}, 1, "Error parsing join response: invalid character 'p'"},
		{"bind is no address", pre, []string{"admin", "init", "--bind", "eth0"}, 1, "not a valid IP"},
		{"bind is another machine's", pre, pre.init(3, "--bind", "192.0.2.1"), 1, "cannot assign requested address"},
		{"port out of range", pre, []string{"admin", "init", "--port", "70000"}, 1, "65535"},
		{"forced init of a running node", running, running.init(3, "--force"), 1, "address already in use"},
		{"start before init", pre, []string{"start"}, 1, "hive.toml"},
		{"unknown flag", pre, []string{"admin", "init", "--quorum"}, 1, "unknown flag: --quorum"},
		{"unknown command", pre, []string{"admin", "explode"}, 1, "unknown command"},
		{"a bare init is a single node", nodes(t, EraPre, 1)[0], []string{"admin", "init", "--nodes", "3"}, 0, "initialized"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.node.run(tt.args...)
			if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.want) {
				t.Errorf("exit %d, output %q, want %d and %q", got.code, got.stdout+got.stderr, tt.code, tt.want)
			}
		})
	}
}

func TestForceAgainstARunningNodeChangesItsCA(t *testing.T) {
	for _, tt := range []struct {
		era    Era
		change bool
	}{{EraPre, true}, {EraSpx, false}} {
		n := nodes(t, tt.era, 1)[0]
		n.must(n.init(1)...)
		n.must("start")
		before := n.read("hive/config/ca.pem")
		if got := n.run(n.init(3, "--force")...); got.code != 1 {
			t.Errorf("%s: forced init beside a daemon: %+v", tt.era, got)
		}
		if changed := n.read("hive/config/ca.pem") != before; changed != tt.change {
			t.Errorf("%s: CA changed: %v", tt.era, changed)
		}
	}
}

func TestJoinTokenIsNeeded(t *testing.T) {
	members := nodes(t, EraSpx, 2)
	leader := members[0]
	done := forming(t, leader, 2)
	info, err := os.Stat(filepath.Join(leader.home, "hive/config/join-token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("join token file: %v %v", info, err)
	}
	if code, body, _ := leader.get("http://" + leader.ip + ":4432/formation/health"); code != 400 || !strings.Contains(body, "HTTP request to an HTTPS server") {
		t.Errorf("plain HTTP: %d %s", code, body)
	}
	got := members[1].run(members[1].join(leader, "--token", "spx_join_wrong")...)
	if got.code != 1 || !strings.Contains(got.stderr, "Failed to join cluster: unauthorized: invalid join token") {
		t.Errorf("join: %+v", got)
	}
	members[1].must(members[1].join(leader, "--token", strings.TrimSpace(leader.read("hive/config/join-token")))...)
	<-done
	if _, err := os.Stat(filepath.Join(leader.home, "hive/config/join-token")); err == nil {
		t.Error("the token outlives formation")
	}
}

func TestGateway(t *testing.T) {
	n := nodes(t, EraPre, 1)[0]
	n.must(n.init(1)...)
	n.must("start")
	for _, tt := range []struct {
		name, action string
		change       func(*aws.Credentials, *string, *time.Time)
		code         int
		want         string
	}{
		{"unsigned", "DescribeRegions", func(c *aws.Credentials, _ *string, _ *time.Time) { *c = aws.Credentials{} }, 403, "MissingAuthenticationToken"},
		{"wrong secret", "DescribeRegions", func(c *aws.Credentials, _ *string, _ *time.Time) { c.SecretAccessKey = "x" }, 403, "SignatureDoesNotMatch"},
		{"skew", "DescribeRegions", func(_ *aws.Credentials, _ *string, at *time.Time) { *at = at.Add(-6 * time.Minute) }, 403, "SignatureDoesNotMatch"},
		{"little skew", "DescribeRegions", func(_ *aws.Credentials, _ *string, at *time.Time) { *at = at.Add(4 * time.Minute) }, 200, "ap-southeast-2"},
		{"unknown key", "DescribeRegions", func(c *aws.Credentials, _ *string, _ *time.Time) { c.AccessKeyID = "AKIAX" }, 403, "InvalidClientTokenId"},
		{"unknown action", "Explode", nil, 400, "InvalidAction"},
		{"unknown service", "GetCallerIdentity", func(_ *aws.Credentials, s *string, _ *time.Time) { *s = "sts" }, 400, "UnsupportedOperation"},
		{"regions", "DescribeRegions", nil, 200, "<DescribeRegionsResponse><regionInfo><item><regionName>ap-southeast-2</regionName><regionEndpoint>https://localhost:9999"},
		{"instance types", "DescribeInstanceTypes", nil, 200, "<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>t3.nano"},
		{"instances", "DescribeInstances", nil, 200, "<DescribeInstancesResponse></DescribeInstancesResponse>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, body := n.call(tt.action, tt.change)
			if code != tt.code || !strings.Contains(body, tt.want) {
				t.Errorf("%d %s, want %d and %s", code, body, tt.code, tt.want)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	n := nodes(t, EraPre, 1)[0]
	n.settings(Settings{Fail: map[string]Failure{"init": {Exit: 3, Stderr: "boom"}}})
	if got := n.run(n.init(1)...); got.code != 3 || !strings.Contains(got.stderr, "boom") {
		t.Errorf("init: %+v", got)
	}
	n.settings(Settings{NeverRunning: true, WrongName: "stranger", Version: "v9"})
	n.must(n.init(1)...)
	n.must("start")
	time.Sleep(400 * time.Millisecond)
	if h := n.health(); h.Status != "starting" || h.Node != "stranger" {
		t.Errorf("health: %+v", h)
	}
	if got := n.must("version"); !strings.Contains(got.stdout, "v9") {
		t.Errorf("version: %q", got.stdout)
	}
	n.settings(Settings{GatewayStatus: 500})
	if code, _ := n.call("DescribeRegions", nil); code != 500 {
		t.Errorf("gateway: %d", code)
	}
	eventually(t, "a mended node runs", func() bool { return n.health().Status == "running" })
}
