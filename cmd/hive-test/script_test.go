package main_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"
)

// The scripts in testdata/script are the specification of what a user can rely on. They run the built programs: those
// of HIVE_TEST_BIN_DIR, or fresh ones. Each script has its own clusters directory and so its own simulator.

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	dir := os.Getenv("HIVE_TEST_BIN_DIR")
	if dir == "" {
		programs := "hive-test/cmd/..."
		if testing.Short() { // nothing runs on a simulator
			programs = "hive-test/cmd/hive-test"
		}
		made, err := buildPrograms(programs)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(made) }()
		dir = made
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv("HIVE_TEST_BIN_DIR", absolute); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := errors.Join(
		os.Setenv("GORACE", raceOptions), os.Setenv("GOCOVERDIR", os.Getenv("HIVE_TEST_COVER_DIR")),
	); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// raceOptions make a program with the race detector end at once, not a second later.
const raceOptions = "atexit_sleep_ms=0"

func buildPrograms(packages string) (string, error) {
	dir, err := os.MkdirTemp("", "hive-test-bin-")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", packages)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return dir, nil
}

// tofus are the binaries that the scripts run with: whichever is there, and both where both are.
func tofus() map[string]string {
	found := map[string]string{}
	for name, candidates := range map[string][]string{
		"tofu": {
			"tofu", filepath.Join(os.Getenv("HIVE_TEST_BIN_DIR"), "tofu"), filepath.Join("..", "..", "bin", "tofu"),
		},
		"terraform": {"terraform"},
	} {
		for _, candidate := range candidates {
			if path, err := exec.LookPath(candidate); err == nil {
				if absolute, err := filepath.Abs(path); err == nil {
					found[name] = absolute
					break
				}
			}
		}
	}
	return found
}

// first is the binary that scripts use when the choice does not matter.
func first(found map[string]string) string {
	for _, name := range []string{"tofu", "terraform"} {
		if path, ok := found[name]; ok {
			return path
		}
	}
	return ""
}

func TestScripts(t *testing.T) {
	skipInShort(t)
	found := tofus()
	if len(found) == 0 {
		t.Fatal("neither tofu nor terraform is there: run `make tofu`, or `make test`, which does it")
	}
	runScripts(t, params("../../testdata/script", first(found)))
}

// TestScriptsWithEachTofu runs the life of a cluster with every binary that is there and was not the first choice.
func TestScriptsWithEachTofu(t *testing.T) {
	soak(t)
	found := tofus()
	for name, path := range found {
		if path == first(found) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := params("", path)
			p.Files = []string{"../../testdata/script/full.txtar", "../../testdata/script/verbs.txtar"}
			runScripts(t, p)
		})
	}
	if len(found) < 2 {
		t.Skip("only one of tofu and terraform is there: the scripts have run with it")
	}
}

// skipInShort leaves out what runs clusters.
func skipInShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs clusters on the simulator: make test does")
	}
}

func params(dir, tofu string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(env *testscript.Env) error { return setup(env, tofu) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"pve":     cmdPVE,
			"sim":     cmdSim,
			"json":    cmdJSON,
			"exit":    cmdExit,
			"subst":   cmdSubst,
			"advised": cmdAdvised,
			"follow":  cmdFollow,
			"unused":  cmdUnused,
			"real":    cmdReal,
			"simhive": cmdSimHive,
			"openssh": cmdOpenSSH,
			"simnets": cmdSimNets,
			"task":    cmdTask,
			"seed":    cmdSeed,
			"value":   cmdValue,
			"forms":   cmdForms,

			"simaccess": cmdSimAccess,
			"httpstate": cmdHTTPState,
		},
		Condition: condition,
	}
}

func condition(name string) (bool, error) {
	switch name {
	case "soak": // a script that takes long begins with: [!soak] skip 'it takes long: make soak runs it'
		return soaking(), nil
	case "netns":
		return os.Geteuid() == 0, nil
	case "ipv6":
		l, err := net.Listen("tcp", "[::1]:0")
		if err == nil {
			_ = l.Close()
		}
		return err == nil, nil
	case "ansible":
		_, err := exec.LookPath("ansible")
		return err == nil, nil
	case "openssh":
		return hasOpenSSH(), nil
	case "curl":
		_, err := exec.LookPath("curl")
		return err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %s", name)
}

// await is a program that scripts have: await FILE [PATTERN] waits until the file is there, with a line that matches.
const await = `#!/bin/sh
i=0
until [ -e "$1" ] && { [ $# = 1 ] || grep -q -- "$2" "$1"; }; do
  i=$((i+1))
  [ $i -lt 1200 ] || { echo "await: not within a minute: $*" >&2; exit 1; }
  sleep 0.05
done
`

// setup gives a script a home, a clusters directory and settings of its own; its simulator ends with it.
func setup(env *testscript.Env, tofu string) error {
	bin := os.Getenv("HIVE_TEST_BIN_DIR")
	tools := filepath.Join(env.WorkDir, ".tools")
	if err := errors.Join(
		os.Mkdir(tools, 0o700), os.WriteFile(filepath.Join(tools, "await"), []byte(await), 0o700),
	); err != nil {
		return err
	}
	env.Setenv("PATH", strings.Join([]string{bin, tools, os.Getenv("PATH")}, string(os.PathListSeparator)))
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
	env.Setenv("HIVE_TEST_CLUSTERS_DIR", filepath.Join(env.WorkDir, "clusters"))
	env.Setenv("HIVE_TEST_TOFU_BIN", tofu)
	// VMs are made without OpenTofu where a script does not say that it is about that, for that is quick; with a real
	// provider, and with HIVE_TEST_DEPLOYER=proxmox, all scripts are.
	mirror, real := os.LookupEnv("HIVE_TEST_PROVIDER_MIRROR")
	if deployer := os.Getenv("HIVE_TEST_DEPLOYER"); !real || deployer != "" {
		env.Setenv("HIVE_TEST_DEPLOYER", cmp.Or(deployer, "simhosts"))
	}
	// A script of which a part is about OpenTofu goes back to this one after it.
	env.Setenv("DEPLOYER", env.Getenv("HIVE_TEST_DEPLOYER"))
	if real {
		env.Setenv("HIVE_TEST_PROVIDER_MIRROR", mirror)
	}
	if err := os.MkdirAll(filepath.Join(env.WorkDir, "home"), 0o700); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(env.WorkDir, "faults"), os.DirFS("../../testdata/faults")); err != nil {
		return err
	}
	env.Setenv("GOCOVERDIR", os.Getenv("HIVE_TEST_COVER_DIR"))
	env.Setenv("GOGC", os.Getenv("GOGC")) // as make test sets it: programs that run for a second need not collect garbage
	env.Setenv("GORACE", raceOptions+" log_path="+filepath.Join(env.WorkDir, "race"))
	env.Defer(func() {
		if races, _ := filepath.Glob(filepath.Join(env.WorkDir, "race.*")); len(races) > 0 {
			report, err := os.ReadFile(races[0])
			env.T().Fatal(fmt.Sprintf("hive-test has data races, of which this is one (%v):\n%s", err, report))
		}
	})
	env.Defer(func() { stopLeft(env, bin) })
	return nil
}

// stopLeft ends what a script that fails has left running: gateways, those in front of clusters by their names, and
// simulators.
func stopLeft(env *testscript.Env, bin string) {
	stop := func(clusters string, command ...string) {
		command = append(command, "--clusters-dir", clusters, "--wipe")
		if out, err := exec.Command(filepath.Join(bin, command[0]), command[1:]...).CombinedOutput(); err != nil {
			env.T().Log(fmt.Sprintf("%s: %v: %s", strings.Join(command, " "), err, out))
		}
	}
	all, _ := filepath.Glob(filepath.Join(env.WorkDir, "*"))
	for _, clusters := range all {
		fronts, _ := filepath.Glob(filepath.Join(clusters, ".gateway/cluster/*"))
		for _, front := range fronts {
			stop(clusters, "hive-test", "gateway", "stop", filepath.Base(front))
		}
		if _, err := os.Stat(filepath.Join(clusters, ".gateway/standalone")); err == nil {
			stop(clusters, "hive-test", "gateway", "stop")
		}
		if _, err := os.Stat(filepath.Join(clusters, ".sim")); err == nil {
			stop(clusters, "hive-sim", "pve", "stop")
		}
	}
}

type simEnv struct {
	Endpoint       string           `json:"endpoint"`
	Token          string           `json:"token"`
	CAFile         string           `json:"ca_file"`
	Hypervisors    []map[string]any `json:"hypervisors"`
	SSHUser        string           `json:"ssh_user"`
	SSHPrivateKey  string           `json:"ssh_private_key"`
	NodeSSHPort    int              `json:"node_ssh_port"`
	ProviderMirror string           `json:"provider_mirror"`
	HiveBinary     string           `json:"hive_binary"`
	Networks       map[string]netip.Prefix
}

func simulatorOf(ts *testscript.TestScript) simEnv {
	command := exec.Command(
		filepath.Join(os.Getenv("HIVE_TEST_BIN_DIR"), "hive-sim"), "pve", "env", "--clusters-dir", ts.MkAbs("clusters"),
		"--format", "json",
	)
	raw, err := command.Output()
	ts.Check(err)
	var sim simEnv
	ts.Check(json.Unmarshal(raw, &sim))
	return sim
}

// cmdPVE asks the simulated Proxmox VE as any client would: pve METHOD PATH [name=value...]. The answer's body is kept
// in the file pve.out. With !, the answer must be an error.
func cmdPVE(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: pve METHOD PATH [name=value...]")
	}
	form := url.Values{}
	for _, pair := range args[2:] {
		name, value, _ := strings.Cut(pair, "=")
		form.Set(name, value)
	}
	status, body := request(
		ts, args[0], "/api2/json"+args[1], "application/x-www-form-urlencoded", []byte(form.Encode()),
	)
	ts.Check(os.WriteFile(ts.MkAbs("pve.out"), body, 0o600))
	ts.Logf("%s %s: %d %.2000s", args[0], args[1], status, body)
	if failed := status >= 400; failed != neg {
		ts.Fatalf("pve %s: status %d", strings.Join(args, " "), status)
	}
}

// cmdSim talks to the simulator's own side: sim METHOD PATH [JSON|@FILE]. The recipes of
// testdata/faults are in the script's directory faults.
func cmdSim(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: sim METHOD PATH [JSON|@FILE]")
	}
	body := []byte(strings.Join(args[2:], " "))
	if file, ok := strings.CutPrefix(string(body), "@"); ok {
		body = []byte(ts.ReadFile(file))
	}
	status, answer := request(ts, args[0], "/sim"+args[1], "application/json", body)
	ts.Check(os.WriteFile(ts.MkAbs("sim.out"), answer, 0o600))
	ts.Logf("%s %s: %d %.2000s", args[0], args[1], status, answer)
	if failed := status >= 400; failed != neg {
		ts.Fatalf("sim %s: status %d: %s", strings.Join(args, " "), status, answer)
	}
}

func request(ts *testscript.TestScript, method, path, contentType string, body []byte) (int, []byte) {
	sim := simulatorOf(ts)
	pem, err := os.ReadFile(sim.CAFile)
	ts.Check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var reader io.Reader
	if method != http.MethodGet && method != http.MethodDelete {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(sim.Endpoint, "/")+path, reader)
	ts.Check(err)
	req.Header.Set("Authorization", "PVEAPIToken="+sim.Token)
	req.Header.Set("Content-Type", contentType)
	response, err := (&http.Client{Transport: transport}).Do(req)
	ts.Check(err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	ts.Check(err)
	return response.StatusCode, answer
}

// cmdJSON looks into a JSON file: json FILE PATH OP VALUE. PATH is like nodes[].vmid; OP is one of: = (all values are
// VALUE), count (so many values), distinct (so many different values).
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: json FILE PATH =|count|distinct VALUE")
	}
	var document any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &document))
	values := walk(document, steps(args[1]))
	ok := false
	switch args[2] {
	case "=":
		ok = len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return v != args[3] })
	case "count":
		ok = strconv.Itoa(len(values)) == args[3]
	case "distinct":
		slices.Sort(values)
		ok = strconv.Itoa(len(slices.Compact(slices.Clone(values)))) == args[3]
	default:
		ts.Fatalf("unknown operator %s", args[2])
	}
	if ok == neg {
		ts.Fatalf("json %s: %s gives %q", strings.Join(args, " "), args[1], values)
	}
}

// cmdValue sets a variable to the one value that a JSON file has at a path: value NAME FILE PATH.
func cmdValue(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: value NAME FILE PATH")
	}
	var document any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &document))
	values := walk(document, steps(args[2]))
	if len(values) != 1 {
		ts.Fatalf("value %s: %q", strings.Join(args, " "), values)
	}
	ts.Setenv(args[0], values[0])
}

// steps are the parts of a path like nodes[].vmid.
func steps(path string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(path, "[]", ".[]"), func(r rune) bool { return r == '.' })
}

func walk(value any, path []string) []string {
	if len(path) == 0 {
		if value == nil {
			return nil
		}
		return []string{fmt.Sprint(value)}
	}
	var found []string
	switch node := value.(type) {
	case []any:
		if path[0] == "[]" {
			for _, element := range node {
				found = append(found, walk(element, path[1:])...)
			}
		}
	case map[string]any:
		found = walk(node[path[0]], path[1:])
	}
	return found
}

// cmdExit runs a command and checks its exit code: exit CODE COMMAND ARGS...; its output is kept for stdout and stderr.
func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("running %v: %v", args[1:], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// cmdAdvised sets a variable to a command that the last command has printed as what comes next: advised VARIABLE
// REGEXP. It is run with `follow VARIABLE`, or by sh with more, in the state that the script is in then.
func cmdAdvised(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: advised VARIABLE REGEXP")
	}
	printed := ts.ReadFile("stderr") + ts.ReadFile("stdout")
	if hostStep.MatchString(args[1]) {
		pattern, err := regexp.Compile("^(?:" + args[1] + ")")
		ts.Check(err)
		for _, step := range hostSteps(printed) {
			if command := pattern.FindString(step.command); command != "" {
				ts.Logf("advised on %s: %s", step.host, command)
				ts.Setenv(args[0], command)
				ts.Setenv(args[0]+"_ON", step.host)
				return
			}
		}
		ts.Fatalf("no command like %q was advised in:\n%s", pattern, printed)
	}
	pattern, err := regexp.Compile("(?m)hive-test " + args[1])
	ts.Check(err)
	command := pattern.FindString(printed)
	if command == "" {
		ts.Fatalf("no command like %q was advised in:\n%s", pattern, printed)
	}
	ts.Logf("advised: %s", command)
	ts.Setenv(args[0], command)
}

// cmdFollow runs an advised command, on its hypervisor if it is for one: follow VARIABLE [PLACEHOLDER=VALUE...]. What
// it wants filled in is filled in.
func cmdFollow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: follow VARIABLE [PLACEHOLDER=VALUE...]")
	}
	command := ts.Getenv(args[0])
	for _, pair := range args[1:] {
		placeholder, value, _ := strings.Cut(pair, "=")
		if !strings.Contains(command, placeholder) {
			ts.Fatalf("%q wants no %s", command, placeholder)
		}
		command = strings.ReplaceAll(command, placeholder, value)
	}
	if hostStep.MatchString(command) {
		runOnHypervisor(ts, ts.Getenv(args[0]+"_ON"), command)
		return
	}
	ts.Check(ts.Exec("sh", "-c", command))
}

// cmdSubst replaces text in a file: subst FILE OLD NEW.
func cmdSubst(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: subst FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], args[2])), 0o600))
}

// cmdUnused checks that a directory tree has not changed: unused DIR fails if DIR exists and holds anything but the
// simulator and the clusters directory's own files.
func cmdUnused(ts *testscript.TestScript, _ bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !slices.Contains([]string{".sim", ".gitignore"}, entry.Name()) {
			ts.Fatalf("%s holds %s", args[0], entry.Name())
		}
	}
}

// cmdReal makes the script's simulator look like a Proxmox VE of the user's own: real FILE writes a configuration file
// that reaches it as any other, by endpoint, CA and hypervisors, and sets PROXMOX_VE_API_TOKEN. Further arguments set
// keys of hypervisors, or leave one out.
func cmdReal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: real FILE [HYPERVISOR.KEY=VALUE | -HYPERVISOR]...")
	}
	sim := simulatorOf(ts)
	for _, setting := range args[1:] {
		if out, ok := strings.CutPrefix(setting, "-"); ok {
			sim.Hypervisors = slices.DeleteFunc(
				sim.Hypervisors, func(h map[string]any) bool { return h["name"] == out },
			)
			continue
		}
		where, value, _ := strings.Cut(setting, "=")
		name, key, _ := strings.Cut(where, ".")
		for _, h := range sim.Hypervisors {
			number, err := strconv.Atoi(value)
			switch {
			case h["name"] == name && err == nil:
				h[key] = number
			case h["name"] == name:
				h[key] = value
			}
		}
	}
	mirror := sim.ProviderMirror
	if own := os.Getenv("HIVE_TEST_PROVIDER_MIRROR"); own != "" {
		mirror = own
	}
	document := map[string]any{
		"provider_mirror": mirror, "binary": sim.HiveBinary, "node_ssh_port": sim.NodeSSHPort,
		"proxmox": map[string]any{
			"endpoint": sim.Endpoint, "ca_file": sim.CAFile, "hypervisors": sim.Hypervisors,
			"ssh_username": sim.SSHUser, "ssh_private_key_path": sim.SSHPrivateKey,
		},
	}
	raw, err := yaml.Marshal(document)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), raw, 0o600))
	ts.Setenv("PROXMOX_VE_API_TOKEN", sim.Token)
	ts.Setenv("SIM_CA", sim.CAFile)
	ts.Setenv("SIM_FINGERPRINT", fingerprintOf(ts, sim))
}

// cmdSimAccess sets SIM_ENDPOINT, SIM_TOKEN (SIM_SECRET is its secret part), SIM_CA, SIM_FINGERPRINT, SIM_KEY and
// SIM_HYPERVISORS (NAME=ADDRESS:PORT, joined by commas): what a user of a Proxmox VE knows of it.
func cmdSimAccess(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: simaccess")
	}
	sim := simulatorOf(ts)
	var hypervisors []string
	for _, h := range sim.Hypervisors {
		hypervisors = append(hypervisors, fmt.Sprintf("%v=%v:%v", h["name"], h["address"], h["port"]))
	}
	_, secret, _ := strings.Cut(sim.Token, "=")
	for name, value := range map[string]string{
		"SIM_ENDPOINT": sim.Endpoint, "SIM_TOKEN": sim.Token, "SIM_SECRET": secret, "SIM_CA": sim.CAFile,
		"SIM_FINGERPRINT": fingerprintOf(ts, sim), "SIM_KEY": sim.SSHPrivateKey,
		"SIM_HYPERVISORS": strings.Join(hypervisors, ","),
	} {
		ts.Setenv(name, value)
	}
}

// fingerprintOf is the SHA-256 of the certificate that the simulator shows.
func fingerprintOf(ts *testscript.TestScript, sim simEnv) string {
	fingerprint, err := sim.fingerprint()
	ts.Check(err)
	return fingerprint
}

// fingerprint is that of the certificate that the API shows.
func (sim simEnv) fingerprint() (string, error) {
	pem, err := os.ReadFile(sim.CAFile)
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	conn, err := tls.Dial(
		"tcp", strings.TrimPrefix(strings.TrimRight(sim.Endpoint, "/"), "https://"), &tls.Config{RootCAs: pool},
	)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return fmt.Sprintf("%X", sha256.Sum256(conn.ConnectionState().PeerCertificates[0].Raw)), nil
}

// cmdSimNets sets NET0 and NET1 to the first three numbers of the networks behind vmbr0 and vmbr1, SUBNET to the third,
// and NETBITS to the length of their prefixes.
func cmdSimNets(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: simnets")
	}
	for i, bridge := range []string{"vmbr0", "vmbr1"} {
		network := simulatorOf(ts).Networks[bridge]
		three, _, found := cutLast(network.Addr().String(), ".")
		if !found {
			ts.Fatalf("the network of %s is %s", bridge, network)
		}
		ts.Setenv(fmt.Sprintf("NET%d", i), three)
		_, third, _ := cutLast(three, ".")
		ts.Setenv("SUBNET", third)
		ts.Setenv("NETBITS", strconv.Itoa(network.Bits()))
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// cmdTask is pve for calls that start a task, whose success it waits for: task METHOD PATH [name=value...].
func cmdTask(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: task METHOD PATH [name=value...]")
	}
	cmdPVE(ts, false, args)
	if !awaitTask(ts, args) {
		ts.Fatalf("%s %s started no task", args[0], args[1])
	}
}

// awaitTask waits for the success of the task that the last answer names, if it names one.
func awaitTask(ts *testscript.TestScript, args []string) bool {
	var answer struct{ Data any }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("pve.out")), &answer))
	upid := fmt.Sprint(answer.Data)
	parts := strings.Split(upid, ":")
	if len(parts) < 2 || parts[0] != "UPID" {
		return false
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		cmdPVE(ts, false, []string{"GET", "/nodes/" + parts[1] + "/tasks/" + url.PathEscape(upid) + "/status"})
		var task struct {
			Data struct{ Status, Exitstatus string }
		}
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("pve.out")), &task))
		switch {
		case task.Data.Status == "stopped" && task.Data.Exitstatus == "OK":
			return true
		case task.Data.Status == "stopped" || time.Now().After(end):
			ts.Fatalf("%s %s: the task is %s %s", args[0], args[1], task.Data.Status, task.Data.Exitstatus)
		}
	}
}

// cmdSeed plays what others do on the simulated Proxmox VE, from a file: seed FILE, a list of {method, path, params}.
// Tasks are waited for. The method SSH runs params.command as root on the hypervisor that path names. $NAME in the file
// is the script's variable.
func cmdSeed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: seed FILE")
	}
	var requests []struct {
		Method, Path string
		Params       map[string]string
	}
	ts.Check(json.Unmarshal([]byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), &requests))
	for _, r := range requests {
		if r.Method == "SSH" {
			runOnHypervisor(ts, r.Path, r.Params["command"])
			continue
		}
		call := []string{r.Method, r.Path}
		for _, name := range slices.Sorted(maps.Keys(r.Params)) {
			call = append(call, name+"="+r.Params[name])
		}
		cmdPVE(ts, false, call)
		awaitTask(ts, call)
	}
}

func runOnHypervisor(ts *testscript.TestScript, name, command string) {
	out, status, err := simulatorOf(ts).onHypervisor(name, command)
	ts.Logf("%s: %s: %d %s", name, command, status, out)
	ts.Check(err)
	if status != 0 {
		ts.Fatalf("%s: %s: status %d", name, command, status)
	}
}

// onHypervisor runs a command as root on a hypervisor, over SSH.
func (sim simEnv) onHypervisor(name, command string) (out string, status int, err error) {
	i := slices.IndexFunc(sim.Hypervisors, func(h map[string]any) bool { return h["name"] == name })
	if i < 0 {
		return "", 0, fmt.Errorf("no hypervisor %s", name)
	}
	key, err := os.ReadFile(sim.SSHPrivateKey)
	if err != nil {
		return "", 0, err
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return "", 0, err
	}
	conn, err := ssh.Dial("tcp", fmt.Sprintf(
		"%v:%v", sim.Hypervisors[i]["address"], sim.Hypervisors[i]["port"],
	), &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		Timeout: 10 * time.Second,
	})
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = conn.Close() }()
	session, err := conn.NewSession()
	if err != nil {
		return "", 0, err
	}
	raw, err := session.CombinedOutput(command)
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return string(raw), exit.ExitStatus(), nil
	}
	return string(raw), 0, err
}

// cmdSimHive sets HIVE_TEST_BINARY to the simulator's hive, for clusters that do not know it by themselves.
func cmdSimHive(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: simhive")
	}
	ts.Setenv("HIVE_TEST_BINARY", simulatorOf(ts).HiveBinary)
}
