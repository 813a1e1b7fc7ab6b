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
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/pelletier/go-toml/v2"
)

// TestMain lets the test binary be the program.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "hive" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// node is one simulated machine: a home directory and an address.
type node struct {
	t        *testing.T
	name, ip string
	home     string
	era      Era
	mu       sync.Mutex
	running  map[string]*running
}

// running is a service that was started, and its output.
type running struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// networks counts the networks that were given out: each call of nodes has one of its own.
var networks atomic.Int32

// nodes makes n machines on addresses that no other test uses at the same time.
func nodes(t *testing.T, era Era, n int) []*node {
	t.Helper()
	network := fmt.Sprintf("127.%d.%d", 191+os.Getpid()%60, 1+networks.Add(1)%250)
	made := make([]*node, n)
	for i := range made {
		made[i] = &node{
			t: t, name: fmt.Sprintf("node%d", i+1), ip: fmt.Sprintf("%s.%d", network, i+1),
			home: t.TempDir(), era: era, running: map[string]*running{},
		}
		t.Cleanup(made[i].kill)
	}
	probe, err := net.Listen("tcp", made[0].ip+":0")
	if err != nil {
		t.Skipf("this system has no address %s on its loopback interface: %v", made[0].ip, err)
	}
	probe.Close()
	return made
}

func (n *node) spx() bool { return n.era == EraSpx }

// of is what has another name in each era.
func (n *node) of(pre, spx string) string {
	if n.spx() {
		return spx
	}
	return pre
}

func (n *node) data(name string) string   { return filepath.Join(n.home, n.of("hive", "spinifex"), name) }
func (n *node) config(name string) string { return n.data("config/" + name) }
func (n *node) toml() string              { return n.config(n.of("hive.toml", "spinifex.toml")) }
func (n *node) daemonName() string        { return n.of("hive", "spinifex") }

type outcome struct {
	code           int
	stdout, stderr string
}

func (o outcome) all() string { return o.stdout + o.stderr }

func (n *node) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	executable, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, executable)
	cmd.Args = append([]string{"hive"}, args...)
	cmd.Env = append(
		[]string{
			"HOME=" + n.home, "GORACE=atexit_sleep_ms=0", "HIVE_SIM_ERA=" + string(n.era), "PATH=" + os.Getenv("PATH"),
		},
		env...,
	)
	cmd.Dir = n.home
	return cmd
}

func (n *node) run(args ...string) outcome { return n.runWith(nil, args...) }

func (n *node) runWith(env []string, args ...string) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := n.command(ctx, env, args...)
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
	args := []string{
		"admin", "init", "--node", n.name, "--nodes", fmt.Sprint(count), "--bind", n.ip, "--formation-timeout", "60s",
	}
	if n.spx() {
		args = append(args, "--no-external")
	}
	return append(args, more...)
}

func (n *node) join(leader *node, more ...string) []string {
	return append([]string{"admin", "join", "--node", n.name, "--host", leader.ip + ":4432", "--bind", n.ip}, more...)
}

// env is what a service needs, as start-dev.sh of its era sets it.
func (n *node) env(service string) []string {
	prefix := n.of("HIVE_", "SPINIFEX_")
	values := map[string][]string{
		"nats": {"CONFIG_PATH=" + n.config("nats/nats.conf")},
		"predastore": {
			"PREDASTORE_BASE_PATH=" + n.data("predastore/"),
			"PREDASTORE_CONFIG_PATH=" + n.config("predastore/predastore.toml"),
			"PREDASTORE_TLS_CERT=" + n.config("server.pem"), "PREDASTORE_TLS_KEY=" + n.config("server.key"),
			"PREDASTORE_HOST=" + n.ip, "PREDASTORE_PORT=8443",
			"PREDASTORE_NODE_ID=" + strings.TrimPrefix(n.name, "node"),
		},
		"viperblock": {
			"CONFIG_PATH=" + n.toml(), "VIPERBLOCK_PLUGIN_PATH=" + n.data("plugin.so"),
			"BASE_DIR=" + n.data("viperblock/"),
		},
		"daemon": {
			"CONFIG_PATH=" + n.toml(), "BASE_DIR=" + n.data(n.daemonName()) + "/", "WAL_DIR=" + n.data(n.daemonName()),
		},
		"awsgw": {
			"CONFIG_PATH=" + n.toml(), "BASE_DIR=" + n.data(""),
			"AWSGW_TLS_CERT=" + n.config("server.pem"), "AWSGW_TLS_KEY=" + n.config("server.key"),
		},
		"vpcd": {"CONFIG_PATH=" + n.toml()},
		"ui":   {"UI_HOST=" + n.ip},
	}
	var env []string
	for _, value := range values[service] {
		env = append(env, prefix+value)
	}
	return append(env, "SSL_CERT_FILE="+n.config("ca.pem"))
}

func (n *node) serviceArgs(service string) []string {
	name := map[string]string{"daemon": n.daemonName(), "ui": n.daemonName() + "-ui"}[service]
	if name == "" {
		name = service
	}
	return []string{"service", name, "start"}
}

// start runs a service in the background.
func (n *node) start(service string) *running {
	n.t.Helper()
	log := filepath.Join(n.home, service+".log")
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer file.Close()
	cmd := n.command(context.Background(), n.env(service), n.serviceArgs(service)...)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	r := &running{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(r.exited)
	}()
	n.mu.Lock()
	n.running[service] = r
	n.mu.Unlock()
	return r
}

// startAll starts a node as a careful installer does: each service when what it needs is there.
func (n *node) startAll() {
	n.t.Helper()
	n.start("nats")
	n.listens("4222")
	n.start("predastore")
	n.listens("8443")
	n.start("daemon")
}

// startGateways starts the gateways, one after the other.
func startGateways(members ...*node) {
	for _, n := range members {
		n.t.Helper()
		n.start("awsgw")
		n.listens("9999")
	}
}

func (n *node) listens(port string) {
	n.t.Helper()
	eventually(n.t, n.name+" listens on "+port, func() bool { return n.reaches(port) })
}

func (n *node) reaches(port string) bool {
	conn, err := net.Dial("tcp", net.JoinHostPort(n.ip, port))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// signal sends a signal to a service.
func (n *node) signal(service string, signal syscall.Signal) *running {
	n.mu.Lock()
	r := n.running[service]
	n.mu.Unlock()
	if r != nil {
		r.cmd.Process.Signal(signal)
	}
	return r
}

// end tells a service to end and returns how long that took.
func (n *node) end(service string) time.Duration {
	n.t.Helper()
	began := time.Now()
	r := n.signal(service, syscall.SIGTERM)
	<-r.exited
	return time.Since(began)
}

// kill1 kills one service.
func (n *node) kill1(service string) {
	<-n.signal(service, syscall.SIGKILL).exited
}

// post asks the formation server to let a node join and returns the answer's code; 0 if there was none.
func (n *node) post(body string) int {
	response, err := n.client(true).Post(n.managerURL()+"/formation/join", "application/json", strings.NewReader(body))
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// wait returns how a service ended by itself.
func (r *running) wait(t *testing.T) outcome {
	t.Helper()
	select {
	case <-r.exited:
	case <-time.After(30 * time.Second):
		t.Fatalf("%v still runs", r.cmd.Args)
	}
	text, _ := os.ReadFile(r.log)
	return outcome{code: r.cmd.ProcessState.ExitCode(), stdout: string(text)}
}

func (r *running) output(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// kill ends all services of a node.
func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.running {
		r.cmd.Process.Kill()
		<-r.exited
		if text, err := os.ReadFile(r.log); err == nil && strings.Contains(string(text), "DATA RACE") {
			n.t.Errorf("%v:\n%s", r.cmd.Args, text)
		}
	}
}

// settings writes the node's settings.
func (n *node) settings(values map[string]any) {
	n.t.Helper()
	data, err := json.Marshal(values)
	if err == nil {
		err = os.WriteFile(filepath.Join(n.home, ".hive-sim.json"), data, 0o600)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) read(path string) string {
	n.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// client trusts the node's own CA; the formation server's certificate names no address.
func (n *node) client(insecure bool) *http.Client {
	pool := x509.NewCertPool()
	if text, err := os.ReadFile(n.config("ca.pem")); err == nil {
		pool.AppendCertsFromPEM(text)
	}
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, InsecureSkipVerify: insecure},
	}}
}

func (n *node) get(url string) (int, string, error) {
	response, err := n.client(strings.Contains(url, "/formation/")).Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func (n *node) managerURL() string { return n.of("http", "https") + "://" + n.ip + ":4432" }

func (n *node) health() healthResponse {
	var h healthResponse
	if _, body, err := n.get(n.managerURL() + "/health"); err == nil {
		json.Unmarshal([]byte(body), &h)
	}
	return h
}

func (n *node) runs() bool { return n.health().Status == "running" }

// eventually polls until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(25 * time.Millisecond) {
		if check() {
			return
		}
	}
	t.Fatalf("not within half a minute: %s", what)
}

// form initializes all nodes as one cluster and returns init's output.
func form(t *testing.T, members []*node) outcome {
	t.Helper()
	leader := members[0]
	done := forming(t, leader, len(members))
	var joinFlags []string
	if leader.spx() {
		joinFlags = []string{"--token", leader.read(leader.config("join-token"))}
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

// cluster forms a cluster of n nodes and starts all of it.
func cluster(t *testing.T, era Era, n int, settings map[string]any) []*node {
	t.Helper()
	members := nodes(t, era, n)
	for _, m := range members {
		m.settings(settings)
	}
	if n == 1 {
		members[0].must(members[0].init(1)...)
	} else {
		form(t, members)
	}
	for _, m := range members {
		m.startAll()
	}
	startGateways(members...)
	for _, m := range members {
		eventually(t, m.name+" runs", m.runs)
	}
	return members
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
	return n.signed(request, body, key, service, at)
}

// signed sends a request with a signature, or without one where there is no key.
func (n *node) signed(
	request *http.Request, body string, key aws.Credentials, service string, at time.Time,
) (status int, answer string) {
	n.t.Helper()
	if key.AccessKeyID != "" {
		sum := sha256.Sum256([]byte(body))
		if err := v4.NewSigner().SignHTTP(
			n.t.Context(), key, request, hex.EncodeToString(sum[:]), service, "eu-west-1", at,
		); err != nil {
			n.t.Fatal(err)
		}
	}
	response, err := n.client(false).Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func (n *node) credentials() aws.Credentials {
	var key aws.Credentials
	for line := range strings.Lines(n.read(filepath.Join(n.home, ".aws/credentials"))) {
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

// storeKey is the key of the object store's configuration.
func (n *node) storeKey() aws.Credentials {
	var config storeConfig
	if err := toml.Unmarshal([]byte(n.read(n.config("predastore/predastore.toml"))), &config); err != nil || len(config.Auth) == 0 {
		n.t.Fatal(err, config.Auth)
	}
	return aws.Credentials{AccessKeyID: config.Auth[0].AccessKey, SecretAccessKey: config.Auth[0].SecretKey}
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
