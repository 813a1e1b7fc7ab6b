package config

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
)

var update = flag.Bool("update", false, "write the golden files anew")

func env(pairs ...string) func(string) string {
	values := map[string]string{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addFlags(fs, func(Setting) bool { return true })
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, FileName), "cpu_cores: 8\n")
	for _, tc := range []struct {
		name   string
		args   []string
		env    []string
		want   int
		source string
	}{
		{"file over default", nil, nil, 8, filepath.Join(dir, FileName) + ":1"},
		{"empty variable is not set", nil, []string{"HIVE_TEST_CPU_CORES="}, 8, filepath.Join(dir, FileName) + ":1"},
		{"environment over file", nil, []string{"HIVE_TEST_CPU_CORES=16"}, 16, "environment HIVE_TEST_CPU_CORES"},
		{"upstream's variable over file", nil, []string{"TF_VAR_cpu_cores=12"}, 12, "environment TF_VAR_cpu_cores"},
		{"own variable over upstream's", nil, []string{"TF_VAR_cpu_cores=12", "HIVE_TEST_CPU_CORES=16"}, 16, "environment HIVE_TEST_CPU_CORES"},
		{"flag over all", []string{"--cpu-cores=2"}, []string{"HIVE_TEST_CPU_CORES=16"}, 2, "flag --cpu-cores"},
		{"flag with the default's value", []string{"--cpu-cores=4"}, nil, 4, "flag --cpu-cores"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Load(LoadOptions{Flags: flags(t, tc.args...), Env: env(tc.env...), WorkDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if s.CPUCores != tc.want || s.Source("cpu_cores") != tc.source || !s.Given("cpu_cores") {
				t.Errorf("got %d from %s, want %d from %s", s.CPUCores, s.Source("cpu_cores"), tc.want, tc.source)
			}
			if s.MemoryMB != cluster.DefaultMemoryMB || s.Source("memory_mb") != "default" || s.Given("memory_mb") {
				t.Errorf("memory is %d from %s", s.MemoryMB, s.Source("memory_mb"))
			}
		})
	}
}

func TestValuesOfAProgram(t *testing.T) {
	set := LoadOptions{
		Values: map[string]string{"node_count": "5", "proxmox.pool": "ci"}, Flags: flags(t, "--node-count=2"),
		Env: env("HIVE_TEST_CPU_CORES=8"), WorkDir: t.TempDir(),
	}
	s, err := Load(set)
	if err != nil {
		t.Fatal(err)
	}
	if s.NodeCount != 5 || s.Proxmox.Pool != "ci" || s.Source("node_count") != "the program" || !s.Given("node_count") {
		t.Errorf("%d nodes from %s, pool %q", s.NodeCount, s.Source("node_count"), s.Proxmox.Pool)
	}
	if !s.Explicit("node_count") || s.Explicit("cpu_cores") || s.Explicit("memory_mb") {
		t.Error("what is set for this run alone is told wrongly")
	}
	set.Values = map[string]string{"node_cuont": "5", "cpu_cores": "many"}
	_, err = Load(set)
	for _, want := range []string{
		`"node_cuont" is no setting: did you mean "node_count"?`, `cpu_cores: "many" is not a whole number`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s\nin: %v", want, err)
		}
	}
}

// What a program has read of a file of its own is told by its place there.
func TestPlacesOfValues(t *testing.T) {
	set := LoadOptions{
		Values: map[string]string{"node_count": "5"}, Places: map[string]string{"node_count": "m.yaml:3"}, Env: env(), WorkDir: t.TempDir(),
	}
	s, err := Load(set)
	if err != nil || s.Source("node_count") != "m.yaml:3" || !s.Explicit("node_count") {
		t.Errorf("from %s, for this run alone: %t; %v", s.Source("node_count"), s.Explicit("node_count"), err)
	}
	set.Values["node_count"] = "many"
	if _, err := Load(set); err == nil || err.Error() != `m.yaml:3: node_count: "many" is not a whole number` {
		t.Errorf("the problem is %v", err)
	}
}

func TestDefaultsAreAValidSpec(t *testing.T) {
	s, err := Load(LoadOptions{Env: env(), WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if problems := s.Spec().Validate(); len(problems) > 0 {
		t.Error(problems)
	}
	if s.NodeCount != 3 || s.Keep != "" || s.ClustersDir != "./clusters" || s.NodeSSHPort != 22 ||
		s.PhaseTimeout("test") != time.Hour || s.PhaseTimeout("x") != 0 || s.File != "" {
		t.Errorf("got %+v", s)
	}
	if diff := cmp.Diff([]string{"smoke"}, s.Suites); diff != "" {
		t.Error(diff)
	}
}

func TestWhichFileIsRead(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	load := func(t *testing.T, opts LoadOptions, pairs ...string) (Settings, error) {
		t.Helper()
		opts.WorkDir, opts.Env = dir, env(append(pairs, "HOME="+home)...)
		return Load(opts)
	}
	expect := func(s Settings, err error, want int) {
		t.Helper()
		if err != nil || s.NodeCount != want {
			t.Errorf("got %d %v from %q, want %d", s.NodeCount, err, s.File, want)
		}
	}
	s, err := load(t, LoadOptions{})
	expect(s, err, 3)
	write(t, filepath.Join(home, ".config", "hive-test", "config.yaml"), "node_count: 4\n")
	s, err = load(t, LoadOptions{})
	expect(s, err, 4)
	xdg := filepath.Join(home, "xdg")
	write(t, filepath.Join(xdg, "hive-test", "config.yaml"), "node_count: 5\n")
	s, err = load(t, LoadOptions{}, "XDG_CONFIG_HOME="+xdg)
	expect(s, err, 5)
	write(t, filepath.Join(dir, FileName), "node_count: 6\n")
	s, err = load(t, LoadOptions{}, "XDG_CONFIG_HOME="+xdg)
	expect(s, err, 6)
	write(t, filepath.Join(dir, "seven.yaml"), "node_count: 7\n")
	s, err = load(t, LoadOptions{}, "HIVE_TEST_CONFIG=seven.yaml")
	expect(s, err, 7)
	write(t, filepath.Join(dir, "eight.yaml"), "node_count: 8\n")
	s, err = load(t, LoadOptions{Flags: flags(t, "--config", "eight.yaml")}, "HIVE_TEST_CONFIG=seven.yaml")
	expect(s, err, 8)
	_, err = load(t, LoadOptions{ConfigPath: "missing.yaml"})
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Usage() ||
		!strings.Contains(err.Error(), "missing.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	file := write(
		t, filepath.Join(dir, "conf", "c.yaml"),
		"scripts_dir: scripts\nbinary: ~/bin/hive\njunit: /abs/j.xml\nproxmox: {ca_file: ca.pem}\n",
	)
	s, err := Load(LoadOptions{
		ConfigPath: file, WorkDir: dir,
		Env:   env("HOME=/home/ann", "HIVE_TEST_TOFU_BIN=~/tofu", "TF_VAR_ssh_private_key_path=~/.ssh/id"),
		Flags: flags(t, "--clusters-dir", "here"),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		s.ScriptsDir, s.Binary, s.JUnit, s.Proxmox.CAFile, s.TofuBin, s.SSHPrivateKeyPath, s.SSHPublicKeyPath,
		s.Proxmox.SSHPrivateKeyPath, s.ClustersDir,
	}
	want := []string{
		filepath.Join(dir, "conf/scripts"), "/home/ann/bin/hive", "/abs/j.xml", filepath.Join(dir, "conf/ca.pem"),
		"/home/ann/tofu", "/home/ann/.ssh/id", "/home/ann/.ssh/id.pub", "/home/ann/.ssh/id", "here",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The .env file of the scripts that this program follows works as it is.
func TestUpstreamVariables(t *testing.T) {
	s, err := Load(LoadOptions{WorkDir: t.TempDir(), Env: env(
		"PROXMOX_VE_API_TOKEN=tofu@pve!x=0000-1111", "PROXMOX_VE_INSECURE=true",
		"TF_VAR_proxmox_endpoint=https://pve1:8006/", "TF_VAR_proxmox_ssh_username=tofu",
		"TF_VAR_ssh_private_key_path=/k", "TF_VAR_ssh_public_key_path=/k2.pub",
		`TF_VAR_nodes=[
  { name = "pve1", address = "10.0.0.1", port = 22, datastore_id = "zfs" },
  { name = "pve2", address = "10.0.0.2", port = 2222, datastore_id = "zfs" },
]`)})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Proxmox
	if p.Token.Reveal() != "tofu@pve!x=0000-1111" || !p.Insecure || p.Endpoint != "https://pve1:8006/" ||
		p.SSHUsername != "tofu" || p.SSHPrivateKeyPath != "/k" || s.SSHPublicKeyPath != "/k2.pub" {
		t.Errorf("got %+v", s)
	}
	want := []placement.Hypervisor{
		{Name: "pve1", Address: "10.0.0.1", Port: 22, Datastore: "zfs", SnippetStore: "local"}, {Name: "pve2", Address: "10.0.0.2", Port: 2222, Datastore: "zfs", SnippetStore: "local"},
	}
	if diff := cmp.Diff(want, p.Hypervisors); diff != "" {
		t.Error(diff)
	}
	s, err = Load(LoadOptions{
		WorkDir: t.TempDir(),
		Env: env(
			`TF_VAR_nodes=[{"name":"a","address":"10.0.0.1"}]`, "PROXMOX_VE_ENDPOINT=https://p",
			"TF_VAR_proxmox_endpoint=https://t",
		),
	})
	if err != nil || s.Proxmox.Endpoint != "https://p" {
		t.Fatalf("%v %v", s, err)
	}
	if diff := cmp.Diff(
		[]placement.Hypervisor{{Name: "a", Address: "10.0.0.1", Port: 22, Datastore: "local-lvm", SnippetStore: "local"}},
		s.Proxmox.Hypervisors,
	); diff != "" {
		t.Error(diff)
	}
}

func TestBadValuesAreReportedAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, FileName), "cpu_cores: many\n")
	given := flags(t, "--keep=sometimes", "--node-count=11", "--proxmox-token-file=/nonexistent/token")
	_, err := Load(LoadOptions{WorkDir: dir, Flags: given, Env: env(
		"HIVE_TEST_MEMORY_MB=8G", "HIVE_TEST_TIMEOUT_UP=soon", "HIVE_TEST_SIM=perhaps", "HIVE_TEST_OUTPUT=xml",
		"TF_VAR_nodes=[{name=", "HIVE_TEST_PROXMOX_VMID_RANGE=9",
	)})
	failed, ok := errors.AsType[*Error](err)
	if !ok || len(failed.Problems) != 10 || failed.Usage() {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		FileName + `:1: cpu_cores: it must be a whole number, not "many"`,
		`environment HIVE_TEST_MEMORY_MB: "8G" is not a whole number of MiB, like 8192`, `HIVE_TEST_TIMEOUT_UP: "soon" is not a duration`,
		`HIVE_TEST_SIM: "perhaps" is neither`, `"xml" is not one of table, wide, json, yaml`,
		"TF_VAR_nodes: it is not a list like", `HIVE_TEST_PROXMOX_VMID_RANGE: "9" is not of the form`,
		`--keep: "sometimes" is not one of never, on-failure, always`, "--node-count: 11 is not between 1 and 10",
		"/nonexistent/token",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s\nin:\n%s", want, err)
		}
	}
	_, err = Load(LoadOptions{WorkDir: t.TempDir(), Env: env(), Flags: flags(t, "--keep=sometimes")})
	if failed, ok := errors.AsType[*Error](err); !ok || !failed.Usage() {
		t.Errorf("a bad flag alone is not a usage error: %v", err)
	}
}

// An empty value is where a script's variable is not set; it must not come to mean the working directory, or no bridge.
func TestWhatHasADefaultIsNotEmpty(t *testing.T) {
	for _, arg := range []string{"--clusters-dir=", "--management-bridge= ", "--ssh-user=", "--os-image="} {
		_, err := Load(LoadOptions{WorkDir: t.TempDir(), Env: env(), Flags: flags(t, arg)})
		if failed, ok := errors.AsType[*Error](err); !ok || !failed.Usage() ||
			!strings.Contains(err.Error(), "it is empty: leave it out for ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	if _, err := Load(LoadOptions{
		WorkDir: t.TempDir(), Env: env(), Flags: flags(t, "--lock-dir=", "--gateway="),
	}); err != nil {
		t.Errorf("what is empty by default: %v", err)
	}
}

func TestAnEmptyTokenFileIsNoToken(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "token"), "\n")
	_, err := Load(LoadOptions{WorkDir: dir, Env: env(), Flags: flags(t, "--proxmox-token-file="+file)})
	if err == nil || !strings.Contains(err.Error(), file+" is empty") {
		t.Errorf("by a flag: %v", err)
	}
	// what was set for all runs is a problem of those alone that need it
	t.Chdir(dir)
	write(t, filepath.Join(dir, FileName), "proxmox:\n  token_file: token\n")
	s, err := Load(LoadOptions{WorkDir: dir, Env: env()})
	if err != nil || s.Proxmox.TokenErr == nil {
		t.Fatalf("by the file: %v, %v", err, s.Proxmox.TokenErr)
	}
	for _, want := range []string{"proxmox.token_file (", FileName + ":2", file + " is empty"} {
		if !strings.Contains(s.Proxmox.TokenErr.Error(), want) {
			t.Errorf("%q does not say %q", s.Proxmox.TokenErr, want)
		}
	}
}

func TestHypervisorsInTheEnvironment(t *testing.T) {
	for text, want := range map[string]string{
		`{name="a"}`:                     "it is not a list like",
		`"a"`:                            "it is neither names like pve1,pve2=10.0.0.2:22 nor a list",
		`a,a`:                            "hypervisor a is listed twice",
		`a=10.0.0.1:ssh`:                 `"ssh" is no port`,
		`[{name="a", adress="x"}]`:       `unknown field "adress"`,
		`[{address="10.0.0.1"}]`:         "hypervisor 1 has no name",
		`[{name="a"},{name="a"}]`:        "hypervisor a is listed twice",
		`[{name="a",port=70000}]`:        "port 70000",
		`[{name=var.x}]`:                 "it is not a list like",
		`[{name="a",port="twenty-two"}]`: "port",
	} {
		_, err := Load(LoadOptions{WorkDir: t.TempDir(), Env: env("HIVE_TEST_PROXMOX_HYPERVISORS=" + text)})
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "HIVE_TEST_PROXMOX_HYPERVISORS") {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestListsInTheEnvironment(t *testing.T) {
	s, err := Load(LoadOptions{WorkDir: t.TempDir(), Env: env("HIVE_TEST_SUITE=smoke\n./e2e.sh --only a,b\n")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"smoke", "./e2e.sh --only a,b"}, s.Suites); diff != "" {
		t.Error(diff)
	}
	s, err = Load(LoadOptions{
		WorkDir: t.TempDir(), Env: env(), Flags: flags(t, "--suite", "a,b", "--suite", `say "x"`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a,b", `say "x"`}, s.Suites); diff != "" {
		t.Error(diff)
	}
}

func TestVariablesOfSuites(t *testing.T) {
	s, err := Load(LoadOptions{
		WorkDir: t.TempDir(), Env: env(),
		Flags: flags(t, "--suite-env", "A", "--suite-env", "B_2=x=y, z\nlast", "--suite-env", "C="),
	})
	if diff := cmp.Diff([]string{"A", "B_2=x=y, z\nlast", "C="}, s.SuiteEnv); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	for _, wrong := range []string{"", "=x", "a b", "1X=y", "A-B"} {
		_, err := Load(LoadOptions{WorkDir: t.TempDir(), Env: env(), Flags: flags(t, "--suite-env", wrong)})
		if err == nil || !strings.Contains(err.Error(), "--suite-env") || !strings.Contains(err.Error(), "NAME=value") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	const secret = "root@pam!x=s3cr3t-value"
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "token"), secret+"\n")
	for name, pairs := range map[string][]string{
		"token":                 {"PROXMOX_VE_API_TOKEN=" + secret},
		"file":                  {"HIVE_TEST_PROXMOX_TOKEN_FILE=" + file},
		"token over its file":   {"PROXMOX_VE_API_TOKEN=" + secret, "HIVE_TEST_PROXMOX_TOKEN_FILE=/dev/null"},
		"beside other mistakes": {"PROXMOX_VE_API_TOKEN=" + secret, "HIVE_TEST_NODE_COUNT=x"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Load(LoadOptions{WorkDir: dir, Env: env(pairs...)})
			if s.Proxmox.Token.Reveal() != secret {
				t.Fatalf("the token is %q", s.Proxmox.Token.Reveal())
			}
			asJSON, _ := json.Marshal(s)
			asYAML, _ := yaml.Marshal(map[string]any{"token": s.Proxmox.Token})
			holder := struct{ s Settings }{s}
			shown := fmt.Sprint(s, err, &s, holder, s.Values()) +
				fmt.Sprintf(
					"%+v %#v %s %q %x %d %+v %#v", s, s, s.Proxmox.Token, s.Proxmox.Token, s.Proxmox.Token,
					s.Proxmox.Token, holder, holder,
				) +
				string(asJSON) + string(asYAML)
			if strings.Contains(shown, "s3cr3t") || strings.Contains(shown, fmt.Sprintf("%x", secret)) {
				t.Errorf("the secret is shown: %s", shown)
			}
			if !strings.Contains(string(asJSON), `"Token":"***"`) {
				t.Errorf("JSON: %s", asJSON)
			}
		})
	}
}

// Every file in testdata/config says by its name whether it is valid; beside it stands what comes of it.
func TestFiles(t *testing.T) {
	const dir = "../../testdata/config"
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("found %v %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := Load(LoadOptions{ConfigPath: filepath.Base(file), WorkDir: dir, Env: env()})
			if valid := strings.HasPrefix(filepath.Base(file), "valid-"); valid != (err == nil) {
				t.Fatalf("valid is %v, yet: %v", valid, err)
			}
			var got strings.Builder
			if err != nil {
				got.WriteString(err.Error() + "\n")
			} else {
				for _, v := range s.Values() {
					if s.Given(v.Key) {
						fmt.Fprintf(&got, "%s = %s (%s)\n", v.Key, v.Value, v.Source)
					}
				}
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			text := strings.ReplaceAll(got.String(), dir+"/", "")
			if *update {
				write(t, golden, text)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestTableIsConsistent(t *testing.T) {
	seen := map[string]string{}
	for _, s := range Table() {
		for _, name := range append([]string{s.Key, "--" + s.Flag}, s.Env[0]) {
			if name != "--" && seen[name] != "" {
				t.Errorf("%s belongs to %s and %s", name, seen[name], s.Key)
			}
			seen[name] = s.Key
		}
		if s.Help == "" || !strings.HasPrefix(s.Env[0], "HIVE_TEST_") {
			t.Errorf("%+v", s)
		}
		if s.Secret && s.Flag != "" {
			t.Errorf("%s is a secret and would be in process lists as --%s", s.Key, s.Flag)
		}
		if s.Default != nil {
			if err := s.check(s.Default); err != nil {
				t.Errorf("%s: the default: %v", s.Key, err)
			}
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour,
		"1w": 7 * 24 * time.Hour, "2w1d3h": (15*24 + 3) * time.Hour,
		" 36h ": 36 * time.Hour, "0": 0, "0d": 0,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "2 d", "tomorrow", "2d3", "1.5d", "12h2d", "99999999999999999999d", "106752d",
		"w", "1d1w", "15250w", "15249w30d",
	} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestDurationFlagsTakeDays(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	VerbFlags(flags, "up")
	older := DurationFlag(flags, "older-than", "age")
	if err := flags.Parse([]string{"--ttl", "2d", "--older-than=1d1h"}); err != nil {
		t.Fatal(err)
	}
	settings, err := Load(LoadOptions{Flags: flags, Env: func(string) string { return "" }, WorkDir: t.TempDir()})
	if err != nil || settings.TTL != 48*time.Hour || settings.Timeouts.Up != 20*time.Minute || *older != 25*time.Hour {
		t.Errorf("ttl %v, timeouts.up %v, --older-than %v: %v", settings.TTL, settings.Timeouts.Up, *older, err)
	}
	if err := flags.Parse([]string{"--ttl", "soon"}); err == nil ||
		!strings.Contains(err.Error(), "is not a duration") {
		t.Errorf("--ttl soon: %v", err)
	}
}

func TestParseHypervisor(t *testing.T) {
	for text, want := range map[string]placement.Hypervisor{
		"pve1":                {Name: "pve1"},
		" pve1=10.0.0.1":      {Name: "pve1", Address: "10.0.0.1"},
		"pve1=10.0.0.1:2222":  {Name: "pve1", Address: "10.0.0.1", Port: 2222},
		"pve1=fd00::1":        {Name: "pve1", Address: "fd00::1"},
		"pve1=[fd00::1]:2222": {Name: "pve1", Address: "fd00::1", Port: 2222},
	} {
		if got, err := ParseHypervisor(text); err != nil || got != want {
			t.Errorf("%q is %+v (%v), want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a b", "pve1=10.0.0.1:ssh", "pve1=10.0.0.1:70000"} {
		if got, err := ParseHypervisor(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestFlagsAreThoseOfThisRun(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, FileName), "cpu_cores: 8\n")
	settings, err := Load(LoadOptions{
		WorkDir: dir, Env: env("HIVE_TEST_NODE_COUNT=5"),
		Flags: flags(t, "--sim", "--timeout-up=90m", "--suite=x", "--suite-env=A", "--suite-env=B=secret"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--timeout-up=1h30m0s", "--sim", "--suite-env=A"}
	if diff := cmp.Diff(want, settings.Flags()); diff != "" {
		t.Error(diff)
	}
}
