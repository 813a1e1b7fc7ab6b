package simhive

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// without leaves out the variables that end so.
func without(env []string, suffixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
	})
}

// replace sets the variable that ends so.
func replace(env []string, suffix, value string) []string {
	changed := slices.Clone(env)
	for i, entry := range env {
		if name, _, _ := strings.Cut(entry, "="); strings.HasSuffix(name, suffix) {
			changed[i] = name + "=" + value
		}
	}
	return changed
}

// otherPrefix gives variables the other era's prefix.
func otherPrefix(env []string) []string {
	other := make([]string, len(env))
	for i, entry := range env {
		if rest, ok := strings.CutPrefix(entry, "HIVE_"); ok {
			entry = "SPINIFEX_" + rest
		} else if rest, ok := strings.CutPrefix(entry, "SPINIFEX_"); ok {
			entry = "HIVE_" + rest
		}
		other[i] = entry
	}
	return other
}

// A service that lacks a setting prints one line; most of them then end with success.
func TestServicesWithoutTheirSettings(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		n := nodes(t, era, 1)[0]
		n.must(n.init(1)...)
		n.settings(map[string]any{"time_scale": 0.01})
		n.start("nats")
		n.listens("4222")
		for _, tt := range []struct {
			name, service string
			env           []string
			code          int
			want          string
		}{
			{"no variables", "predastore", nil, 0, "Base path is not set\n"},
			{"no configuration", "predastore", without(n.env("predastore"), "CONFIG_PATH"), 0, "Config path is not set\n"},
			{"no certificate", "predastore", without(n.env("predastore"), "TLS_CERT"), 0, "TLS cert is not set\n"},
			{"no key", "predastore", without(n.env("predastore"), "TLS_KEY"), 0, "TLS key is not set\n"},
			{
				"CONFIG_PATH of other services", "predastore",
				append(n.env("predastore"), n.of("HIVE", "SPINIFEX")+"_CONFIG_PATH="+n.toml()), 1,
				"Error starting predastore service: failed to initialize server: failed to read config: Error parsing " + n.toml() + " toml: cannot",
			},
			{"no variables", "nats", nil, 1, "[FTL] Error listening on port: [0.0.0.0:9999]:4222"},
			{"a file that is not there", "daemon", replace(n.env("daemon"), "CONFIG_PATH", "/nowhere"), 2, "Config file not found: /nowhere, using environment variables and defaults\npanic: "},
			{"a file that is not there", "awsgw", replace(n.env("awsgw"), "CONFIG_PATH", "/nowhere"), 2, "panic: assignment to entry in nil map"},
			{"another file", "daemon", replace(n.env("daemon"), "CONFIG_PATH", n.config("nats/nats.conf")), 0, "Error loading config file: error reading config file: "},
			{"another file", "nats", replace(n.env("nats"), "CONFIG_PATH", n.toml()), 1, "Error starting nats service: "},
			{"no variables", "daemon", nil, 0, "Config file is not set\n"},
			{"no variables", "awsgw", nil, 0, "Config file is not set\n"},
			{"no variables", "vpcd", nil, 0, "Config file is not set\n"},
			{"no variables", "viperblock", nil, 0, "Config file is not set\n"},
			{"no plugin", "viperblock", without(n.env("viperblock"), "PLUGIN_PATH"), 1, "plugin-path must be defined\n"},
			{"a plugin that is not there", "viperblock", n.env("viperblock"), 1, "plugin-path does not exist: " + n.data("plugin.so")},
			{"no Open vSwitch", "vpcd", n.env("vpcd"), 1, "Error starting vpcd service: OVN preflight failed: br-int does not exist"},
			{
				"the configuration directory for base", "awsgw", replace(n.env("awsgw"), "BASE_DIR", n.config("")), 1,
				"Error starting awsgw service: load IAM master key from " + n.config("config/master.key") + ": read master key: open " + n.config("config/master.key") + ": no such file or directory\n",
			},
			{"no certificate", "awsgw", without(n.env("awsgw"), "TLS_CERT"), 1, "Error starting awsgw service: load TLS cert: open config/server.pem: no such file or directory\n"},
			{"the other era's variables", "nats", otherPrefix(n.env("nats")), 1, "[FTL] Error listening on port: [0.0.0.0:9999]:4222"},
			{"the other era's variables", "predastore", otherPrefix(n.env("predastore")), 0, "Base path is not set\n"},
			{"the other era's variables", "daemon", otherPrefix(n.env("daemon")), 0, "Config file is not set\n"},
			{"the other era's variables", "awsgw", otherPrefix(n.env("awsgw")), 0, "Config file is not set\n"},
		} {
			t.Run(tt.service+" "+tt.name, func(t *testing.T) {
				got := n.runWith(tt.env, n.serviceArgs(tt.service)...)
				if got.code != tt.code || !strings.Contains(got.all(), tt.want) {
					t.Errorf("exit %d, output %q, want %d and %q", got.code, got.all(), tt.code, tt.want)
				}
			})
		}
	})
}

func TestOptionalServices(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		n := nodes(t, era, 1)[0]
		n.settings(map[string]any{"ovn": true})
		n.must(n.init(1)...)
		if err := os.WriteFile(n.data("plugin.so"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		n.start("nats")
		n.listens("4222")
		for _, service := range []string{"viperblock", "vpcd"} {
			r := n.start(service)
			eventually(
				t, service+" runs", func() bool { return strings.Contains(r.output(t), service+" service started") },
			)
		}
		n.start("ui")
		n.listens("3000")
		for _, service := range []string{"ui", "vpcd", "viperblock", "nats"} {
			if took := n.end(service); took > 600*time.Millisecond {
				t.Errorf("%s needs %s to end", service, took)
			}
		}
	})
}

// Where the cluster's monitoring and the later era's logs are depends on the node.
func TestPlaces(t *testing.T) {
	for _, tt := range []struct {
		era        Era
		bind, want string
	}{
		{EraPre, "10.0.0.1", "10.0.0.1"}, {EraSpx, "10.0.0.1", "127.0.0.1"}, {EraSpx, "127.9.0.1", "127.9.0.1"},
	} {
		if got := (&program{settings: Settings{Era: tt.era}}).monitorIP(tt.bind); got != tt.want {
			t.Errorf("%s on %s: monitoring on %s", tt.era, tt.bind, got)
		}
	}
	for _, tt := range []struct {
		era       Era
		made      string
		user      string
		data, log string
	}{
		{EraPre, "", "root", "home/hive", "home/hive/logs"},
		{EraPre, "etc/hive", "debian", "home/hive", "home/hive/logs"},
		{EraPre, "etc/hive", "root", "var/lib/hive", "var/lib/hive/logs"},
		{EraSpx, "", "debian", "home/spinifex", "home/spinifex/logs"},
		{EraSpx, "etc/spinifex", "debian", "var/lib/spinifex", "var/log/spinifex"},
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, tt.made), 0o755); err != nil {
			t.Fatal(err)
		}
		p := &program{
			settings: Settings{Era: tt.era}, home: filepath.Join(root, "home"),
			env: map[string]string{"SIM_HOST_ROOT": root, "USER": tt.user},
		}
		got := p.defaultLayout()
		if got.DataDir != filepath.Join(root, tt.data) || p.logDirectory(got) != filepath.Join(root, tt.log) {
			t.Errorf("%s as %s with %q: %+v, logs in %s", tt.era, tt.user, tt.made, got, p.logDirectory(got))
		}
	}
}

// Services leave pid files in their own directories, and never take them away.
func TestPIDFiles(t *testing.T) {
	t.Parallel()
	n := cluster(t, EraPre, 1, nil)[0]
	for _, tt := range []struct{ service, file string }{
		{"awsgw", "awsgw.pid"}, {"daemon", "hive/hive.pid"}, {"predastore", "predastore/predastore.pid"}, {"nats", "nats.pid"},
	} {
		pid := strconv.Itoa(n.running[tt.service].cmd.Process.Pid)
		n.end(tt.service)
		if got := n.read(n.data(tt.file)); got != pid {
			t.Errorf("%s holds %q, want %s", tt.file, got, pid)
		}
	}
}

// All services end quickly if NATS is the last of them.
func TestOrderOfStopping(t *testing.T) {
	eras(t, func(t *testing.T, era Era) {
		n := cluster(t, era, 1, map[string]any{"stop_timeout": 1.0})[0]
		for _, service := range []string{"awsgw", "daemon", "predastore", "nats"} {
			if took := n.end(service); took > 600*time.Millisecond {
				t.Errorf("%s needs %s to end", service, took)
			}
		}
		n.startAll()
		startGateways(n)
		eventually(t, "it runs again", n.runs)
		daemon := n.signal("daemon", syscall.SIGTERM)
		n.signal("nats", syscall.SIGTERM)
		began := time.Now()
		got := daemon.wait(t)
		if took := time.Since(began); took < 900*time.Millisecond ||
			!strings.Contains(
				got.stdout, `ERROR Failed to write state err="failed to write state to JetStream: nats: timeout"`,
			) {
			t.Errorf("without NATS the daemon ends after %s: %s", took, got.stdout)
		}
	})
	if s, err := loadSettings(nil, nil); err != nil || s.StopTimeout != 10 {
		t.Errorf("without NATS a daemon needs %v s", s.StopTimeout)
	}
}

// A daemon that is not running yet just dies.
func TestADaemonThatStartsDiesAtOnce(t *testing.T) {
	n := nodes(t, EraPre, 3)[0]
	form(t, nodes(t, EraPre, 2)) // an unrelated cluster
	n.must(n.init(1)...)
	n.settings(map[string]any{"time_scale": 1.0})
	n.start("nats")
	n.start("daemon")
	n.listens("4432")
	if took := n.end("daemon"); took > 500*time.Millisecond {
		t.Errorf("it needs %s", took)
	}
}

// race starts the gateways of a formed cluster at once and returns those that died.
func race(t *testing.T, members []*node) []*node {
	t.Helper()
	for _, n := range members {
		n.start("nats")
	}
	for _, n := range members {
		eventually(t, n.name+" sees all", func() bool { return len(n.peers()) == len(members)-1 })
	}
	var dead []*node
	for _, n := range members {
		n.start("awsgw")
	}
	for _, n := range members {
		n.mu.Lock()
		gateway := n.running["awsgw"]
		n.mu.Unlock()
		eventually(t, n.name+"'s gateway listens or ends", func() bool {
			select {
			case <-gateway.exited:
				dead = append(dead, n)
				return true
			default:
				return n.reaches("9999")
			}
		})
	}
	return dead
}

func TestSeedRace(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		members := nodes(t, era, 3)
		form(t, members)
		dead := race(t, members)
		if len(dead) != 2 {
			t.Fatalf("%d of three gateways died", len(dead))
		}
		for _, n := range dead {
			n.mu.Lock()
			gateway := n.running["awsgw"]
			n.mu.Unlock()
			if got := gateway.wait(t); got.code != 1 ||
				!strings.Contains(got.stdout, "Error starting awsgw service: seed bootstrap from bootstrap.json: ") ||
				!strings.HasSuffix(got.stdout, "seed account counter: nats: wrong last sequence\n") {
				t.Errorf("%s: %+v", n.name, got)
			}
			if !exists(n.of(n.config("bootstrap.json"), n.data("awsgw/bootstrap.json"))) {
				t.Error("a gateway that died keeps its bootstrap.json")
			}
			startGateways(n)
		}
		for _, n := range members {
			if code, _ := n.call("DescribeRegions", nil); code != 200 {
				t.Errorf("%s answers %d", n.name, code)
			}
			if exists(n.of(n.config("bootstrap.json"), n.data("awsgw/bootstrap.json"))) {
				t.Errorf("%s keeps its bootstrap.json", n.name)
			}
		}
	})
}

func TestSeedRaceCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	members := nodes(t, EraPre, 3)
	for _, n := range members {
		n.settings(map[string]any{"seed_race": false, "seed_window": 0.2})
	}
	form(t, members)
	if dead := race(t, members); len(dead) > 0 {
		t.Errorf("%d gateways died", len(dead))
	}
}

// The records are NATS' own: a gateway that starts again finds its keys there, and so does another cluster's gateway
// that is put upon old data.
func TestRecordsOutliveTheirServices(t *testing.T) {
	t.Parallel()
	n := cluster(t, EraPre, 1, nil)[0]
	n.end("awsgw")
	n.end("nats")
	n.start("nats")
	n.listens("4222")
	startGateways(n)
	if code, body := n.call("DescribeRegions", nil); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if err := os.RemoveAll(n.data("nats")); err != nil {
		t.Fatal(err)
	}
	n.kill1("awsgw")
	n.kill1("nats")
	n.start("nats")
	n.listens("4222")
	startGateways(n)
	if code, body := n.call("DescribeRegions", nil); code != 403 {
		t.Errorf("without records and bootstrap.json: %d %s", code, body)
	}
}

func TestBootstrapIsLookedForByEra(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		era   Era
		files []string
	}{
		{EraPre, []string{"config/bootstrap.json"}},
		{EraSpx, []string{"bootstrap.json", "awsgw/bootstrap.json", "config/bootstrap.json"}},
	} {
		base := t.TempDir()
		p := &program{settings: Settings{Era: tt.era}}
		for _, file := range slices.Backward(tt.files) {
			path := filepath.Join(base, file)
			if err := writeFile(path, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := p.bootstrapFile(base); got != path {
				t.Errorf("%s: %s, want %s", tt.era, got, path)
			}
		}
	}
}

// The later era's object store knows no CA but the system's, and dials NATS once.
func TestTheStoreTrustsTheSystemOnly(t *testing.T) {
	t.Parallel()
	n := nodes(t, EraSpx, 1)[0]
	n.must(n.init(1)...)
	env := without(n.env("predastore"), "SSL_CERT_FILE")
	if got := n.runWith(n.env("predastore"), n.serviceArgs("predastore")...); got.code != 1 ||
		!strings.Contains(got.stdout, "connect to NATS: ") {
		t.Errorf("without NATS: %+v", got)
	}
	n.start("nats")
	n.listens("4222")
	if got := n.runWith(env, n.serviceArgs("predastore")...); got.code != 1 ||
		!strings.Contains(got.stdout, "Error starting predastore service: ") ||
		!strings.Contains(got.stdout, "connect to NATS: nats: tls error: tls: failed to verify certificate: x509: ") {
		t.Errorf("without trust: %+v", got)
	}
	n.start("predastore")
	n.listens("8443")
	if err := os.Remove(n.config("ca.pem")); err != nil {
		t.Fatal(err)
	}
	if got := n.start("daemon").wait(t); got.code != 1 ||
		!strings.Contains(got.stdout, "failed to read CA certificate "+n.config("ca.pem")) {
		t.Errorf("a daemon without its CA: %+v", got)
	}
}

// Root of a simulated host puts the CA into the host's trust store; nothing ever touches this machine's.
func TestRootsTrustStore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		era    Era
		user   string
		stored bool
	}{{"root", EraSpx, "root", true}, {"user", EraSpx, "debian", false}, {"early", EraPre, "root", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := nodes(t, tt.era, 1)[0]
			root := t.TempDir()
			host := []string{"SIM_HOST_ROOT=" + root, "USER=" + tt.user}
			if got := n.runWith(host, n.init(1)...); got.code != 0 {
				t.Fatalf("init: %+v", got)
			}
			if stored := exists(filepath.Join(root, trustFile)); stored != tt.stored {
				t.Errorf("the CA is in the trust store: %v", stored)
			}
			if !tt.stored {
				return
			}
			n.start("nats")
			n.listens("4222")
			cmd := n.command(
				t.Context(), append(without(n.env("predastore"), "SSL_CERT_FILE"), host...),
				n.serviceArgs("predastore")...,
			)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			n.listens("8443")
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
	if exists("/" + trustFile) {
		t.Error("this machine trusts a simulated cluster")
	}
}

// A peer that is silent stays in /routez, unlike one that is gone, and a gateway that has heard its daemon waits for
// it.
func TestSilentNode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	members := cluster(t, EraPre, 3, map[string]any{"stale_routes": 3.0, "gateway_wait": 0.7})
	leader, silent := members[0], members[2]
	eventually(t, "all are peers", func() bool { return len(leader.peers()) == 2 })
	timed := func() time.Duration {
		began := time.Now()
		if code, _ := leader.call("DescribeInstanceTypes", nil); code != 200 {
			t.Errorf("DescribeInstanceTypes: %d", code)
		}
		return time.Since(began)
	}
	if took := timed(); took > 600*time.Millisecond {
		t.Errorf("with all nodes the gateway needs %s", took)
	}
	began := time.Now()
	silent.signal("daemon", syscall.SIGSTOP)
	silent.signal("nats", syscall.SIGSTOP)
	if took := timed(); took < 700*time.Millisecond {
		t.Errorf("with a silent node the gateway needs %s only", took)
	}
	if got := statuses(leader.must("get", "nodes", "--timeout", "200ms").stdout); got != "Ready Ready NotReady" {
		t.Errorf("get nodes: %s", got)
	}
	if len(leader.peers()) != 2 {
		t.Error("a silent peer has left /routez at once")
	}
	eventually(t, "the silent peer leaves in the end", func() bool { return len(leader.peers()) == 1 })
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("it has left after %s", took)
	}
	silent.signal("daemon", syscall.SIGCONT)
	silent.signal("nats", syscall.SIGCONT)
	eventually(t, "it is back", func() bool { return len(leader.peers()) == 2 })
	silent.kill1("daemon")
	if took := timed(); took < 700*time.Millisecond {
		t.Errorf("with a dead daemon the gateway counts in vain for %s only", took)
	}
}

func TestInstanceTypesByFreeCapacity(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		n := cluster(t, era, 1, nil)[0]
		for _, tt := range []struct {
			name     string
			settings map[string]any
			pre, spx string // the largest type; the later era keeps two CPUs
		}{
			{"as it is", nil, "t3.2xlarge", "t3.xlarge"},
			{"two", map[string]any{"cpus": 2}, "t3.medium", ""},
			{"three", map[string]any{"cpus": 3}, "t3.medium", ""},
			{"four", map[string]any{"cpus": 4}, "t3.xlarge", "t3.medium"},
			{"all taken", map[string]any{"used_cpus": 8}, "", ""},
		} {
			n.settings(tt.settings)
			code, body := n.call("DescribeInstanceTypes", nil)
			want := n.of(tt.pre, tt.spx)
			last := strings.LastIndex(body, "<instanceType>")
			if code != 200 || want == "" && last >= 0 ||
				want != "" && (last < 0 || !strings.HasPrefix(body[last:], "<instanceType>"+want+"<")) {
				t.Errorf("%s: %d %s", tt.name, code, body)
			}
		}
	})
}

func TestSmallNodeOfTheLaterEra(t *testing.T) {
	t.Parallel()
	n := nodes(t, EraSpx, 1)[0]
	n.settings(map[string]any{"cpus": 2})
	n.must(n.init(1)...)
	if got := n.start("daemon").wait(t); got.code != 1 || !strings.Contains(got.stdout, "daemon refuses to start") {
		t.Errorf("daemon: %+v", got)
	}
}

// With an external network and without vpcd, a daemon of the later era tries for a while before it runs.
func TestDHCPRetries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		external bool
		ovn      bool
		retries  int
	}{{"external", true, false, 2}, {"with vpcd", true, true, 0}, {"no external", false, false, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := nodes(t, EraSpx, 1)[0]
			n.settings(map[string]any{"dhcp_retries": 2, "ovn": tt.ovn})
			args := []string{"admin", "init", "--nodes", "1", "--bind", n.ip, "--external-mode", "pool"}
			if !tt.external {
				args = n.init(1)
			}
			n.must(args...)
			if strings.Contains(n.read(n.toml()), "external_mode = \"pool\"") != tt.external {
				t.Errorf("configuration:\n%s", n.read(n.toml()))
			}
			n.start("nats")
			n.listens("4222")
			if tt.ovn {
				vpcd := n.start("vpcd")
				eventually(
					t, "vpcd is connected",
					func() bool { return strings.Contains(vpcd.output(t), "vpcd service started") },
				)
			}
			n.start("predastore")
			daemon := n.start("daemon")
			eventually(t, "it runs", n.runs)
			if got := strings.Count(daemon.output(t), "dhcp acquire NATS request failed, retrying"); got != tt.retries {
				t.Errorf("%d attempts", got)
			}
		})
	}
}

// The later era's daemon takes TLS 1.2 as well, unlike its successors.
func TestDaemonsTLS(t *testing.T) {
	t.Parallel()
	n := cluster(t, EraSpx, 1, nil)[0]
	client := n.client(false)
	client.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	response, err := client.Get(n.managerURL() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	client.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS11
	if _, err := client.Get(n.managerURL() + "/health"); err == nil {
		t.Error("it takes TLS 1.1")
	}
	if code, body, _ := n.get("http://" + n.ip + ":4432/health"); code != 400 ||
		!strings.Contains(body, "HTTP request to an HTTPS server") {
		t.Errorf("plain HTTP: %d %s", code, body)
	}
}

// Another cluster's NATS is no peer in the later era; in the early one whoever has the name is.
func TestStrangersAreNoPeers(t *testing.T) {
	t.Parallel()
	members := nodes(t, EraSpx, 2)
	form(t, members)
	conf := members[1].read(members[1].config("nats/nats.conf"))
	form(t, members2(t, members))
	if err := os.WriteFile(members[1].config("nats/nats.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range members {
		n.start("nats")
		n.listens("4222")
	}
	time.Sleep(300 * time.Millisecond)
	if peers := members[0].peers(); len(peers) != 0 {
		t.Errorf("a stranger is a peer: %v", peers)
	}
}

// members2 are the same machines, about to be formed anew.
func members2(t *testing.T, members []*node) []*node {
	t.Helper()
	for _, n := range members {
		if err := os.Remove(n.toml()); err != nil {
			t.Fatal(err)
		}
	}
	return members
}

// Key generation and the wait at init's end take their time if that is wanted.
func TestTimesOfInit(t *testing.T) {
	n := nodes(t, EraPre, 1)[0]
	n.settings(map[string]any{"keygen": 25, "time_scale": 0.02})
	began := time.Now()
	n.must(n.init(1)...)
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("init with keys that take their time needs %s", took)
	}
	members := nodes(t, EraPre, 2)
	members[0].settings(map[string]any{"time_scale": 0.05})
	began = time.Now()
	form(t, members)
	if took := time.Since(began); took < 750*time.Millisecond {
		t.Errorf("formation needs %s", took)
	}
}

// Many services start at once, as on many nodes of one machine.
func TestServicesAreCheap(t *testing.T) {
	members := nodes(t, EraPre, 4)
	var wait sync.WaitGroup
	for _, n := range members {
		wait.Go(func() { n.must(n.init(1)...) })
	}
	wait.Wait()
	began := time.Now()
	for _, n := range members {
		n.start("nats")
		n.start("predastore")
		n.start("daemon")
	}
	for _, n := range members {
		for _, port := range []string{"4222", "8443", "4432"} {
			n.listens(port)
		}
	}
	t.Logf("12 services listen after %s", time.Since(began).Round(time.Millisecond))
	for _, n := range members {
		for service, r := range n.running {
			// With the race detector, which takes most of it.
			if size := anonymousMemory(t, r.cmd.Process.Pid); size > 32<<10 {
				t.Errorf("%s has %d KiB of its own", service, size)
			}
		}
	}
}

// anonymousMemory is how much of a process's memory is nobody else's, in KiB.
func anonymousMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Skip("this system does not tell")
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			size, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("process %d has %d KiB of its own", pid, size)
			return size
		}
	}
	t.Skip("this system does not tell")
	return 0
}
