package simhive

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// eras runs a test in both eras, at the same time.
func eras(t *testing.T, test func(*testing.T, Era)) {
	for _, era := range []Era{EraPre, EraSpx} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			test(t, era)
		})
	}
}

func TestThreeNodes(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		members := cluster(t, era, 3, nil)
		for _, n := range members {
			eventually(t, n.name+" sees two peers", func() bool { return len(n.peers()) == 2 })
			if n.credentials() != members[0].credentials() {
				t.Errorf("%s has other credentials than node 1", n.name)
			}
			if h := n.health(); h.Node != n.name ||
				strings.Join(h.Services, ",") != "nats,predastore,viperblock,daemon,awsgw,vpcd,ui" {
				t.Errorf("/health of %s: %+v", n.name, h)
			}
			for _, port := range []string{"4222", "4248", "8222", "8443", "6660", "7660", "4432", "9999"} {
				if !n.reaches(port) {
					t.Errorf("%s does not listen on %s", n.name, port)
				}
			}
			if taken, err := net.ListenPacket("udp", n.ip+":9991"); err == nil {
				taken.Close()
				t.Errorf("%s has nothing on UDP port 9991", n.name)
			}
			if code, body := n.call("DescribeInstanceTypes", nil); code != 200 || !strings.Contains(body, "t3.nano") {
				t.Errorf("%s: %d %s", n.name, code, body)
			}
		}
		if members[0].health().ConfigHash == members[1].health().ConfigHash {
			t.Error("config_hash differs between nodes of a real cluster")
		}
		if got := members[0].must("get", "nodes").stdout; statuses(got) != "Ready Ready Ready" ||
			strings.Contains(got, "ROLES") != (era == EraSpx) {
			t.Errorf("get nodes: %s", got)
		}
		if name := members[0].of("hive", "spinifex") + "-nats-node2"; members[0].peers()[name] == 0 {
			t.Errorf("peers %v lack %s", members[0].peers(), name)
		}
	})
}

// The object store has no bucket. It takes the keys that the gateway takes; the earlier era's takes those of its
// configuration only.
func TestStore(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		n := cluster(t, era, 1, nil)[0]
		for _, c := range []struct {
			method, path string
			change       func(*aws.Credentials)
			status       int
			answer       string
		}{
			{"GET", "", nil, 200, "<Buckets></Buckets>"},
			{"GET", "bucket", nil, 404, "NoSuchBucket"},
			{"PUT", "bucket", nil, 501, "the simulated object store keeps nothing"},
			{"GET", "", func(key *aws.Credentials) { key.SecretAccessKey = "wrong" }, 403, "AccessDenied"},
			{
				"GET", "", func(key *aws.Credentials) { key.AccessKeyID = "AKIAFOREIGN" }, 403,
				map[Era]string{EraPre: "Invalid access key", EraSpx: "InvalidAccessKeyId"}[era],
			},
			{"GET", "", func(key *aws.Credentials) { key.AccessKeyID = "" }, 403, "AccessDenied"},
		} {
			request, err := http.NewRequest(c.method, "https://"+n.ip+":8443/"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			key := n.credentials()
			if era == EraPre {
				if status, answer := n.signed(request.Clone(t.Context()), "", key, "s3", time.Now()); c.method == "GET" && status != 403 {
					t.Errorf("the administrator's key: %d %s", status, answer)
				}
				key = n.storeKey()
			}
			if c.change != nil {
				c.change(&key)
			}
			if status, answer := n.signed(request, "", key, "s3", time.Now()); status != c.status || !strings.Contains(answer, c.answer) {
				t.Errorf("%s /%s: %d %s, want %d %s", c.method, c.path, status, answer, c.status, c.answer)
			}
		}
	})
}

// Nothing but the five facts together shows that a service is dead: the daemon says that all is well.
func TestEachServiceIsAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		members := cluster(t, era, 3, map[string]any{"gateway_wait": 0.2})
		last := members[2]
		last.kill1("predastore")
		if last.reaches("8443") || last.reaches("6660") || !last.runs() || !last.reaches("9999") {
			t.Error("with a dead object store its ports are closed, and all else is as before")
		}
		last.kill1("nats")
		if h := last.health(); h.Status != "running" || h.ServiceHealth["nats"] != "ok" ||
			h.ServiceHealth["predastore"] != "ok" {
			t.Errorf("/health without NATS: %+v", h)
		}
		eventually(t, "a NATS that was killed leaves /routez", func() bool { return len(members[0].peers()) == 1 })
		eventually(t, "the gateway goes on with another node's NATS", func() bool {
			code, _ := last.call("DescribeInstanceTypes", nil)
			return code == 200
		})
		if got := last.run("get", "nodes"); got.code != 1 ||
			!strings.Contains(
				got.stderr,
				"Error: failed to connect to NATS: NATS connect failed: nats: no servers available for connection",
			) {
			t.Errorf("get nodes without the own NATS: %+v", got)
		}
		eventually(t, "the daemon is heard through another node's NATS", func() bool {
			return statuses(members[0].must("get", "nodes").stdout) == "Ready Ready Ready"
		})
		last.kill1("daemon")
		if last.reaches("4432") || !last.reaches("9999") {
			t.Error("a dead daemon takes its port with it and no other")
		}
		if got := statuses(members[0].must("get", "nodes").stdout); got != "Ready Ready NotReady" {
			t.Errorf("get nodes: %s", got)
		}
		last.kill1("awsgw")
		if last.reaches("9999") || !members[0].reaches("9999") {
			t.Error("a dead gateway takes its port with it, and no other node's")
		}
	})
}

func TestLoneNodeOfThreeIsNeverMoreThanStarting(t *testing.T) {
	t.Parallel()
	members := nodes(t, EraPre, 3)
	form(t, members)
	members[0].startAll()
	members[0].start("awsgw")
	members[0].listens("4432")
	time.Sleep(400 * time.Millisecond) // twice the start-up time
	if h := members[0].health(); h.Status != "starting" {
		t.Errorf("a lone node says %q", h.Status)
	}
	if members[0].reaches("9999") {
		t.Error("the gateway of a lone node listens")
	}
	if got := statuses(members[0].must("get", "nodes").stdout); got != "NotReady NotReady NotReady" {
		t.Errorf("get nodes: %s", got)
	}
	members[1].startAll()
	eventually(t, "two of three are a quorum", func() bool { return members[0].runs() && members[1].runs() })
	members[0].listens("9999")
}

func TestFormationServer(t *testing.T) {
	t.Parallel()
	leader := nodes(t, EraPre, 2)[0]
	done := forming(t, leader, 2)
	if code, body, _ := leader.get(leader.managerURL() + "/health"); code != 404 || body != "404 page not found\n" {
		t.Errorf("/health during formation: %d %q", code, body)
	}
	if _, body, _ := leader.get(
		leader.managerURL() + "/formation/status",
	); strings.TrimSpace(body) != `{"complete":false,"joined":1,"expected":2}` {
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
		return strings.Contains(body, `"complete":true`) && strings.Contains(body, `"master_key":"`) &&
			strings.Contains(body, "PRIVATE KEY")
	})
	if got := <-done; got.code != 0 || !strings.Contains(got.stdout, "All 2 nodes joined!") {
		t.Errorf("init: %+v", got)
	}
}

func TestFormationTimesOut(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		leader := nodes(t, era, 3)[0]
		got := leader.run(leader.init(3, "--formation-timeout", "200ms")...)
		if got.code != 1 || !strings.Contains(got.stderr, "formation timed out after 200ms: 1/3 nodes joined") {
			t.Errorf("init: %+v", got)
		}
		if exists(leader.toml()) || exists(leader.config("join-token")) {
			t.Error("a failed formation leaves neither configuration nor token")
		}
	})
}

func TestWhatInitPrintsNeverWorks(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		members := nodes(t, era, 2)
		printed := form(t, members)
		if key := members[0].credentials(); strings.Contains(printed.stdout, key.AccessKeyID) ||
			!strings.Contains(printed.stdout, "Access Key: AKIA") {
			t.Error("a cluster's init prints a key that is replaced afterwards")
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	pre := nodes(t, EraPre, 1)[0]
	spx := nodes(t, EraSpx, 1)[0]
	running := nodes(t, EraPre, 1)[0]
	running.must(running.init(1)...)
	running.start("nats")
	running.start("daemon")
	running.listens("4432")
	for _, tt := range []struct {
		name string
		node *node
		args []string
		code int
		want string
	}{
		{"join needs a node and a host", pre, []string{"admin", "join"}, 1, `required flag(s) "host", "node" not set`},
		{"join needs a token", spx, []string{"admin", "join", "--node", "b", "--host", "127.0.0.1:1"}, 1, `required flag(s) "token" not set`},
		{"join has no retry", pre, []string{"admin", "join", "--node", "b", "--host", pre.ip + ":4432", "--bind", pre.ip}, 1, "connection refused"},
		{"join has no retry, in the later era either", spx, spx.join(spx, "--token", "x"), 1, "connection refused"},
		{"join to a daemon", pre, []string{"admin", "join", "--node", "b", "--host", running.ip + ":4432", "--bind", pre.ip}, 1, "Error parsing join response: invalid character 'p'"},
		{"bind is no address", pre, []string{"admin", "init", "--bind", "eth0"}, 1, "Invalid IP address for --bind: eth0"},
		{"bind is another machine's", pre, pre.init(3, "--bind", "192.0.2.1"), 1, "cannot assign requested address"},
		{"port out of range", pre, []string{"admin", "init", "--port", "70000"}, 1, "65535"},
		{"a token that ends before formation", spx, spx.init(3, "--token-ttl", "1m"), 1, "--token-ttl (1m0s) must be >= --formation-timeout + 1m (2m0s)"},
		{"forced init of a running node", running, running.init(3, "--force"), 1, "address already in use"},
		{"init again", running, running.init(3), 0, "already initialized"},
		{"a bare init is a single node", nodes(t, EraPre, 1)[0], []string{"admin", "init", "--nodes", "3"}, 0, "initialized"},
		{"no such command", pre, []string{"admin", "explode"}, 0, "Available Commands:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.node.run(tt.args...)
			if got.code != tt.code || !strings.Contains(got.all(), tt.want) {
				t.Errorf("exit %d, output %q, want %d and %q", got.code, got.all(), tt.code, tt.want)
			}
		})
	}
}

// No real hive starts or stops anything but one service at a time.
func TestThereIsNoStart(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		n := nodes(t, era, 1)[0]
		for _, command := range []string{"start", "stop", "daemon"} {
			for _, more := range []string{"", "--help"} {
				got := n.run(strings.Fields(command + " " + more)...)
				want := `Error: unknown command "` + command + `" for "` + n.of("hive", "spx") + `"`
				if got.code != 1 || got.stdout != "" || !strings.HasPrefix(got.stderr, want) {
					t.Errorf("%s %s: %+v", command, more, got)
				}
			}
		}
	})
}

func TestFlagsOfTheOtherEraAreUnknown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		era  Era
		flag string
		args string
	}{
		{EraPre, "--no-telemetry", "admin init --no-telemetry"},
		{EraPre, "--token-ttl", "admin init --token-ttl 30m"},
		{EraPre, "--advertise", "admin init --advertise 127.0.0.1"},
		{EraPre, "--no-external", "admin init --no-external"},
		{EraPre, "--spinifex-dir", "admin init --spinifex-dir /x"},
		{EraPre, "--data-dir", "admin init --data-dir /x"},
		{EraPre, "--token", "admin join --node b --host h:1 --token x"},
		{EraPre, "--force", "admin join --node b --host h:1 --force"},
		{EraPre, "--sim-era", "admin init --sim-era spx"},
		{EraSpx, "--hive-dir", "admin init --hive-dir /x"},
		{EraSpx, "--data-dir", "admin init --data-dir /x"},
		{EraSpx, "--force", "admin join --node b --host h:1 --token x --force"},
		{EraSpx, "--join-timeout", "admin join --node b --host h:1 --token x --join-timeout 1m"},
		{EraSpx, "--skip-host-dns", "admin init --skip-host-dns"},
	} {
		t.Run(string(tt.era)+" "+tt.args, func(t *testing.T) {
			t.Parallel()
			n := nodes(t, tt.era, 1)[0]
			got := n.run(strings.Fields(tt.args)...)
			if got.code != 1 || !strings.HasPrefix(got.stderr, "Error: unknown flag: "+tt.flag+"\nUsage:\n") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestHelpListsFlagsOnePerLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		era      Era
		args     string
		has, not string
	}{
		{EraPre, "admin init --help", "--hive-dir --formation-timeout --force", "--data-dir --spinifex-dir --token-ttl --no-telemetry --no-external"},
		{EraPre, "admin join --help", "--data-dir --hive-dir", "--token --force --spinifex-dir"},
		{EraSpx, "admin init --help", "--spinifex-dir --token-ttl --no-telemetry --no-external --advertise", "--data-dir --hive-dir"},
		{EraSpx, "admin join --help", "--data-dir --spinifex-dir --token --no-telemetry", "--hive-dir --force --join-timeout"},
		{EraPre, "service --help", "hive hive-ui nats predastore viperblock awsgw vpcd", "spinifex"},
		{EraSpx, "service --help", "spinifex spinifex-ui nats predastore viperblock awsgw vpcd", "hive"},
		{EraPre, "service spinifex start", "Available hive", "spinifex"},
		{EraSpx, "service hive start", "Available spinifex", "hive"},
	} {
		t.Run(string(tt.era)+" "+tt.args, func(t *testing.T) {
			t.Parallel()
			got := nodes(t, tt.era, 1)[0].must(strings.Fields(tt.args)...)
			first := map[string]bool{}
			for line := range strings.Lines(got.stdout) {
				if words := strings.Fields(line); len(words) > 0 && strings.HasPrefix(line, " ") ||
					strings.HasPrefix(line, "Available") {
					first[words[0]] = true
				}
			}
			for _, word := range strings.Fields(tt.has) {
				if !first[word] {
					t.Errorf("no line begins with %s:\n%s", word, got.stdout)
				}
			}
			for _, word := range strings.Fields(tt.not) {
				if first[word] {
					t.Errorf("a line begins with %s:\n%s", word, got.stdout)
				}
			}
		})
	}
}

func TestDirectories(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		members := nodes(t, era, 2)
		leader, follower := members[0], members[1]
		global := leader.of("--hive-dir", "--spinifex-dir")
		elsewhere := filepath.Join(follower.home, "elsewhere")
		done := make(chan outcome, 1)
		go func() { done <- leader.run(leader.init(2, global, filepath.Join(leader.home, "mine"))...) }()
		eventually(t, "the formation server answers", func() bool {
			code, _, _ := leader.get(leader.managerURL() + "/formation/health")
			return code == 200
		})
		var more []string
		if era == EraSpx {
			more = []string{"--token", leader.read(leader.config("join-token"))}
		}
		follower.must(
			follower.join(
				leader, append(more, "--data-dir", elsewhere, global, filepath.Join(follower.home, "ignored"))...,
			)...,
		)
		<-done
		if !strings.Contains(leader.read(leader.config("nats/nats.conf")), filepath.Join(leader.home, "mine/nats")) {
			t.Error("init keeps its data elsewhere")
		}
		if !strings.Contains(follower.read(follower.config("nats/nats.conf")), elsewhere) ||
			exists(filepath.Join(follower.home, "ignored")) {
			t.Error("join has taken another directory than --data-dir")
		}
	})
}

func TestConfigurationFiles(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		members := nodes(t, era, 3)
		members[1].name = "node10" // comes before node2, and so does its part of the object store
		form(t, members)
		own := members[1].read(members[1].toml())
		for _, want := range []string{
			`node = "node10"`, "[nodes.node10.daemon]", "[nodes.node10.awsgw]", "[nodes.node10.nats.acl]",
			"[nodes.node10.vpcd]",
			"host = \"" + members[1].ip + ":8443\"", "node_id = 2", "[nodes.node1]\n", "[nodes.node3]\n",
		} {
			if !strings.Contains(own, want) {
				t.Errorf("no %q in\n%s", want, own)
			}
		}
		for _, other := range []string{"[nodes.node1.", "[nodes.node3.", "services", "cluster_host"} {
			if strings.Contains(own, other) {
				t.Errorf("%q is in\n%s", other, own)
			}
		}
		bootstrap := members[1].of(members[1].config("bootstrap.json"), members[1].data("awsgw/bootstrap.json"))
		for path, want := range map[string]bool{
			bootstrap: true, members[1].config("system-credentials.json"): era == EraSpx,
			members[1].config("master.key"):                 true,
			members[1].config("predastore/predastore.toml"): true, members[1].config("join-token"): false,
		} {
			if exists(path) != want {
				t.Errorf("%s: there is %v", path, exists(path))
			}
		}
		conf := members[0].read(members[0].config("nats/nats.conf"))
		if strings.Contains(conf, "nats-route://") != (era == EraSpx) ||
			strings.Contains(conf, "\ntls {") != (era == EraSpx) {
			t.Errorf("nats.conf:\n%s", conf)
		}
		if got := members[0].must("version").stdout; !strings.HasPrefix(
			got, members[0].daemonName()+" v0.4.0-sim (simulated-"+string(era)+") ",
		) {
			t.Errorf("version: %q", got)
		}
	})
}

func TestServicesOfANode(t *testing.T) {
	t.Parallel()
	n := nodes(t, EraSpx, 1)[0]
	n.must(n.init(1, "--services", "nats,daemon")...)
	if !strings.Contains(n.read(n.toml()), "\nservices = [\"nats\", \"daemon\"]\n") {
		t.Error("--services is written into the configuration")
	}
}

// The early era makes a new CA in any case; the later one too, if it is forced.
func TestForceAgainstARunningNodeChangesItsCA(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		n := nodes(t, era, 1)[0]
		n.must(n.init(1)...)
		n.start("nats")
		n.start("daemon")
		n.listens("4432")
		before := n.read(n.config("ca.pem"))
		if got := n.run(n.init(3, "--force")...); got.code != 1 ||
			!strings.Contains(got.stderr, "address already in use") {
			t.Errorf("forced init beside a daemon: %+v", got)
		}
		if n.read(n.config("ca.pem")) == before {
			t.Error("the CA is the same")
		}
	})
}

func TestJoinTokenIsNeeded(t *testing.T) {
	t.Parallel()
	members := nodes(t, EraSpx, 2)
	leader := members[0]
	done := forming(t, leader, 2)
	info, err := os.Stat(leader.config("join-token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("join token file: %v %v", info, err)
	}
	if code, body, _ := leader.get("http://" + leader.ip + ":4432/formation/health"); code != 400 ||
		!strings.Contains(body, "HTTP request to an HTTPS server") {
		t.Errorf("plain HTTP: %d %s", code, body)
	}
	if _, err := leader.client(false).Get("https://" + leader.ip + ":4432/formation/health"); err == nil ||
		!strings.Contains(err.Error(), "IP SANs") {
		t.Errorf("the formation server's certificate names no address: %v", err)
	}
	got := members[1].run(members[1].join(leader, "--token", "spx_join_wrong")...)
	if got.code != 1 || !strings.Contains(got.stderr, "Failed to join cluster: unauthorized: invalid join token") {
		t.Errorf("join: %+v", got)
	}
	members[1].must(members[1].join(leader, "--token", leader.read(leader.config("join-token")))...)
	<-done
	if exists(leader.config("join-token")) {
		t.Error("the token outlives formation")
	}
}

func TestGateway(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		n := cluster(t, era, 1, nil)[0]
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
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	n := nodes(t, EraPre, 1)[0]
	n.settings(map[string]any{"fail": map[string]Failure{
		"init": {Exit: 3, Stderr: "boom"}, "service awsgw": {Stderr: "no gateway today"},
	}})
	if got := n.run(n.init(1)...); got.code != 3 || !strings.Contains(got.stderr, "boom") {
		t.Errorf("init: %+v", got)
	}
	if got := n.start("awsgw").wait(t); got.code != 1 || !strings.Contains(got.stdout, "no gateway today") {
		t.Errorf("gateway: %+v", got)
	}
	n.settings(map[string]any{"never_running": true, "wrong_name": "stranger", "version": "v9"})
	n.must(n.init(1)...)
	n.startAll()
	startGateways(n)
	eventually(t, "the daemon has a wrong name", func() bool { return n.health().Node == "stranger" })
	time.Sleep(400 * time.Millisecond)
	if h := n.health(); h.Status != "starting" {
		t.Errorf("health: %+v", h)
	}
	if got := n.must("version"); !strings.Contains(got.stdout, "v9") {
		t.Errorf("version: %q", got.stdout)
	}
	n.settings(map[string]any{"gateway_status": 500, "health_status": 503})
	if code, _ := n.call("DescribeRegions", nil); code != 500 {
		t.Errorf("gateway: %d", code)
	}
	if code, _, _ := n.get(n.managerURL() + "/health"); code != 503 {
		t.Errorf("health: %d", code)
	}
	n.settings(nil)
	eventually(t, "a mended node runs", n.runs)
}

func TestNoPeers(t *testing.T) {
	t.Parallel()
	members := cluster(t, EraPre, 3, nil)
	members[2].settings(map[string]any{"no_peers": true})
	eventually(
		t, "it leaves the others", func() bool { return len(members[0].peers()) == 1 && len(members[2].peers()) == 0 },
	)
	if !members[2].runs() {
		t.Error("a node that runs goes on without peers")
	}
	members[2].settings(nil)
	eventually(t, "it comes back", func() bool { return len(members[0].peers()) == 2 && len(members[2].peers()) == 2 })
}
