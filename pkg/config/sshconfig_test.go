package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
)

// userConfig is a home directory with an ssh_config and two keys.
func userConfig(t *testing.T, text string) SSHConfig {
	t.Helper()
	home := t.TempDir()
	for name, content := range map[string]string{"config": text, "id_ed25519": "k", "id_work": "k"} {
		if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, ".ssh", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return loadSSHConfig(filepath.Join(home, ".ssh", "config"), home)
}

const someConfig = `
Host bastion
    HostName b.example.com
    User ops
    Port 2222
    IdentityFile ~/.ssh/id_work
    IdentityAgent "~/agent dir/socket"
Host far
    ProxyJump bastion
Host loop1
    ProxyJump loop2
Host loop2
    ProxyJump loop1
Host lab-*
    User admin
    Port 2022
    IdentityFile %d/.ssh/id_work
    ProxyJump far
Host lab-1
    HostName 192.0.2.1
`

func TestProxyJump(t *testing.T) {
	c := userConfig(t, someConfig)
	me := localUser()
	for _, test := range []struct{ text, want, files string }{
		{"", "", ""},
		{"none", "", ""},
		{"joe@host", "joe@host:22", "id_ed25519"},
		{"joe@host:2200", "joe@host:2200", "id_ed25519"},
		{"ssh://joe@host:2200", "joe@host:2200", "id_ed25519"},
		{"joe@[fd00::1]:2200", "joe@[fd00::1]:2200", "id_ed25519"},
		{"joe@fd00::1", "joe@[fd00::1]:22", "id_ed25519"},
		{"host", me + "@host:22", "id_ed25519"},
		{"bastion", "ops@b.example.com:2222", "id_work"},
		{"joe@bastion:22", "joe@b.example.com:22", "id_work"}, // what is written wins
		{"bastion,joe@inner", "ops@b.example.com:2222,joe@inner:22", "id_work"},
		{"joe@far", "ops@b.example.com:2222,joe@far:22", "id_work"}, // the way of the first has a way of its own
		{"joe@host,joe@far", "joe@host:22,joe@far:22", "id_ed25519"},
	} {
		got, err := c.jumps(test.text)
		if err != nil || got.String() != test.want {
			t.Errorf("%q is %q, want %q: %v", test.text, got, test.want, err)
		}
		if len(got) > 0 && (len(got[0].IdentityFiles) != 1 || filepath.Base(got[0].IdentityFiles[0]) != test.files) {
			t.Errorf("%q has the keys %q, want %s", test.text, got[0].IdentityFiles, test.files)
		}
	}
	if got, _ := c.jumps("bastion"); got[0].AgentSocket != filepath.Join(c.home, "agent dir/socket") {
		t.Errorf("the agent is %q", got[0].AgentSocket)
	}
	if _, err := c.jumps("loop1"); err != nil {
		t.Errorf("hosts that name each other: %v", err)
	}
	for _, text := range []string{
		"joe@", "a b", "host:0", "host:x", "-oProxyCommand=x", "-l@host", "a,,b", "'", "joe@a\nProxyCommand x",
		"joe\nProxyCommand x@a", "fe80::1%a b", "a%h", "jo\"e@a",
	} {
		if got, err := c.jumps(text); err == nil {
			t.Errorf("%q is taken as %q", text, got)
		}
	}
}

func TestHostsFileWithSSHConfig(t *testing.T) {
	c := userConfig(t, someConfig)
	load := func(text string) (Hosts, error) {
		file := filepath.Join(t.TempDir(), "hosts.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadHosts(t.Context(), file, c)
	}
	hosts, err := load(
		"nodes: [{name: lab-1}, {name: lab-2, management: 'fd00::2', data: 'fd01::2'}, {name: lab-3, management: " +
			"localhost}]",
	)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(hosts.SSHUser, " ", filepath.Base(hosts.SSHKeyPath), " ", hosts.ProxyJump)
	if want := "admin id_work ops@b.example.com:2222," + localUser() + "@far:22"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var addresses []string
	for _, n := range hosts.Nodes {
		addresses = append(addresses, fmt.Sprint(n.Management, " ", n.SSHPort))
	}
	if addresses[2] == "::1 2022" {
		addresses[2] = "127.0.0.1 2022"
	}
	if diff := cmp.Diff([]string{"192.0.2.1 2022", "fd00::2 2022", "127.0.0.1 2022"}, addresses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// What the hosts file says wins.
	hosts, err = load(
		"ssh_user: root\nssh_port: 22\nssh_key_path: " + c.home + "/.ssh/id_ed25519\nproxy_jump: none\nnodes: [{name: lab-1}]",
	)
	if err != nil || hosts.SSHUser != "root" || hosts.Nodes[0].SSHPort != 22 || len(hosts.ProxyJump) != 0 ||
		filepath.Base(hosts.SSHKeyPath) != "id_ed25519" {
		t.Errorf("got %+v, %v", hosts, err)
	}
	if _, err := load("nodes: [{name: lab-1}, {name: other, management: 10.0.0.1}]"); err == nil ||
		!strings.Contains(err.Error(), "different values of User") {
		t.Errorf("nodes with different users: %v", err)
	}
	if _, err := load(
		"ssh_key_path: " + c.home + "/.ssh/id_work\nssh_user: u\nproxy_jump: none\nnodes: [{name: x, management: no-such-host.invalid}]",
	); err == nil || !strings.Contains(err.Error(), "cannot be looked up") {
		t.Errorf("a name that nobody knows: %v", err)
	}
}

// What a hosts file holds is put into ssh_config, paths and inventories: nothing in it may mean more than it says.
func TestHostileHostsFile(t *testing.T) {
	c := userConfig(t, someConfig)
	dir := filepath.Join(t.TempDir(), "100%d %s")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	key := "ssh_key_path: " + c.home + "/.ssh/id_work\n"
	for text, want := range map[string]string{
		`nodes: [{name: "a\n    ProxyCommand x", management: 10.0.0.1}]`:                      "is not valid",
		`nodes: [{name: ../../a, management: 10.0.0.1}]`:                                      "is not valid",
		`nodes: [{name: a..b, management: 10.0.0.1}]`:                                         "is not valid",
		`nodes: [{name: -F, management: 10.0.0.1}]`:                                           "is not valid",
		`nodes: [{name: "a*", management: 10.0.0.1}]`:                                         "is not valid",
		`nodes: [{name: "\u202ea", management: 10.0.0.1}]`:                                    "is not valid",
		`nodes: [{name: "", management: 10.0.0.1}]`:                                           "is empty",
		`nodes: [{name: ` + strings.Repeat("a", 254) + `, management: 10.0.0.1}]`:             "254 characters",
		`nodes: [{name: a, management: "fe80::1%x\n    ProxyCommand x"}]`:                     "zone",
		`nodes: [{name: a, management: 10.0.0.1, data: "fe80::1%../a"}]`:                      "zone",
		`nodes: [{name: a, management: 10.0.0.1}, {name: A, management: 10.0.0.2}]`:           "stands for both",
		`nodes: [{name: "2", management: 10.0.0.1}, {name: b, management: 10.0.0.2}]`:         "the name of another node",
		`nodes: [{name: node2, management: 10.0.0.1}, {name: node1, management: 10.0.0.2}]`:   "",
		"ssh_user: \"u\\n    ProxyCommand x\"\nnodes: [{name: a, management: 10.0.0.1}]":      "no user name",
		"ssh_user: -oProxyCommand=x\nnodes: [{name: a, management: 10.0.0.1}]":                "no user name",
		"proxy_jump: \"u@h\\n    ProxyCommand x\"\nnodes: [{name: a, management: 10.0.0.1}]":  "no jump host",
		"ssh_port: 70000\nnodes: [{name: a, management: 10.0.0.1}]":                           "65535",
		"ssh_user: 'CORP\\Ann'\nnodes: [{name: N_1.example.com, management: 'fe80::1%eth0'}]": "",
	} {
		file := filepath.Join(dir, "hosts.yaml")
		if err := os.WriteFile(file, []byte(key+text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadHosts(t.Context(), file, c)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: %v, want %s with %s", text, err, want, file)
		}
	}
}

// A file that cannot be read is a problem of those who need it only.
func TestBrokenSSHConfig(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "config")
	if err := os.WriteFile(file, []byte("Match exec \"true\"\n  User x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HIVE_TEST_SSH_CONFIG_FILE": file}
	get := func(name string) string { return env[name] }
	if _, err := Load(LoadOptions{Env: get, WorkDir: home}); err != nil {
		t.Errorf("without need: %v", err)
	}
	env["HIVE_TEST_SSH_PROXY_JUMP"] = "joe@host"
	if _, err := Load(LoadOptions{Env: get, WorkDir: home}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("with a jump host: %v", err)
	}
	env["HIVE_TEST_SSH_CONFIG_FILE"] = "/dev/null"
	settings, err := Load(LoadOptions{Env: get, WorkDir: home})
	if diff := cmp.Diff(cluster.JumpHosts{{User: "joe", Host: "host", Port: 22}}, settings.SSH.Jumps); err != nil ||
		diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// What is of another shape is told without the names of Go's types.
func TestHostsFileOfAnotherShape(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts.yaml")
	for text, want := range map[string]string{
		"hi":                          ":1: it must be a mapping with nodes: [{name, management, data}], not a text",
		"- {name: a}":                 ":1: it must be a mapping with nodes: [{name, management, data}], not a list",
		"nodes: hi":                   ":1: nodes must be a list: [{name, management, data}], not a text",
		"nodes: {name: a}":            ":1: nodes must be a list: [{name, management, data}], not a mapping",
		"nodes:\n- a\n- {name: b}":    ":2: a node must be a mapping: {name, management, data}, not a text",
		"nodes: [{name: [a]}]":        ":1: it must be a text, not a list",
		"ssh_port: ssh":               ":1: it must be a whole number, not a text",
		"ssh_user: a\nproxy_jump: {}": ":2: it must be a text, not a mapping",
		"nodes: [":                    ":1: did not find expected node content",
	} {
		write(t, file, text)
		_, err := LoadHosts(t.Context(), file, SSHConfig{})
		if err == nil || !strings.Contains(err.Error(), file+want) || strings.Contains(err.Error(), "yaml: ") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
