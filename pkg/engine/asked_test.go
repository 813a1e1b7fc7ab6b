package engine

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// other is a value of a setting that the cluster of recordOf does not have.
func other(t *testing.T, row config.Setting) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	special := map[string]string{
		"network.addresses": "10.9.0.10-10.9.0.19/24", "network.data_addresses": "10.8.0.10-10.8.0.19/24",
		"network.gateway": "10.9.0.1", "proxmox.vmid_range": "30000-30999", "avoid_hypervisors": "pve2", "config": "",
		"proxmox.endpoint": "https://pve9:8006", "proxmox.fingerprint": strings.Repeat("AA:", 31) + "AA",
		"ssh.proxy_jump": "ops@bastion", "suite_env": "NAME=value", "proxmox.token": "a@pve!b=c", "disk_size_gb": "64",
		"memory_mb": "16384", "state": `{backend: http, address: "https://state/{name}"}`,
		"credentials": "{tofu: {A: b}}", "environments": "{prod: {}}",
	}
	if value, found := special[row.Key]; found {
		return value
	}
	for _, word := range row.OneOf {
		if word != row.DefaultText() {
			return word
		}
	}
	switch row.Kind {
	case config.File:
		return file
	case config.Dir:
		return filepath.Dir(file)
	case config.Int:
		return "7"
	case config.Bool:
		return "true"
	case config.Duration:
		return "77m"
	case config.Hypervisors:
		return `[{name = "pve7", address = "10.0.0.7"}]`
	}
	return "other"
}

// recordOf is a cluster of three nodes, made with defaults.
func recordOf(t *testing.T, deployer string) *cluster.Record {
	t.Helper()
	defaults, err := config.Load(config.LoadOptions{Env: func(string) string { return "" }, WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r := &cluster.Record{
		Name: "x", Owner: cluster.Owner{ID: "id"}, Spec: defaults.Spec(), SSHKeyPath: "/clusters/x/ssh_key",
		Phases: map[cluster.Phase]cluster.PhaseRecord{cluster.PhaseUp: {Status: cluster.PhaseDone}},
	}
	r.Spec.Deployer, r.Spec.NodeCount = deployer, 3
	r.Spec.Hosts = placement.Hosts([]placement.Hypervisor{{Name: "pve1"}, {Name: "pve2"}})
	r.Target.Place = placement.Target{Endpoint: "https://pve1:8006"}.Document()
	for i := range 3 {
		r.Nodes = append(r.Nodes, cluster.Node{
			Index: i + 1, SSHPort: 22, Placement: placement.VM{VMID: 20000 + i, Hypervisor: "pve1"}.Document(),
		})
	}
	return r
}

// ask asks for an up of the cluster with one setting, and returns what the cluster would be.
func ask(t *testing.T, r *cluster.Record, values map[string]string, env func(string) string) (*cluster.Record, error) {
	t.Helper()
	settings, err := config.Load(config.LoadOptions{Values: values, Env: env, WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(values, err)
	}
	store, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &session{
		run:    &run{verb: "up", started: time.Now()},
		Target: &target.Target{Settings: settings, Store: store, Name: "x", Record: r.Clone(), Sink: new(progress.Memory)},
	}
	for _, step := range []func() error{
		s.contradictions, s.simulatedAsAsked, func() error { return s.sameAsAsked(t.Context()) }, s.change,
		s.unusedByChange,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s.Record, nil
}

// What is set by a flag for a cluster that exists is used or refused, as its row says; what a file or the environment
// asks for otherwise is refused for no cluster.
func TestEverySettingForAClusterThatExists(t *testing.T) {
	none := func(string) string { return "" }
	for _, row := range config.Table() {
		if !row.UsedBy("up") || row.Key == "config" || row.Key == "environment" {
			continue
		}
		value := other(t, row)
		refused := func(what string, err error) {
			if plainCode(err) != ExitUsage || progress.HintOf(err) == "" {
				t.Errorf("%s (%s) is not refused for %s: %v", row.Key, row.Existing, what, err)
			}
		}
		r := recordOf(t, deploy.Proxmox)
		got, err := ask(t, r, map[string]string{row.Key: value}, none)
		same := err == nil && reflect.DeepEqual(got.Spec, r.Spec) && got.Owner == r.Owner
		switch row.Existing {
		case config.Fixed, config.Place:
			refused("VMs", err)
		case config.NewNodes:
			refused("VMs", err)
			if _, err := ask(t, r, map[string]string{row.Key: value, "node_count": "5"}, none); err != nil {
				t.Errorf("%s is refused where nodes are made: %v", row.Key, err)
			}
		case config.Changed:
			if err != nil || same {
				t.Errorf("%s does not change the cluster: %v", row.Key, err)
			}
		default:
			if err != nil || !same {
				t.Errorf("%s (%s) is not of the run alone: %v", row.Key, row.Existing, err)
			}
		}

		_, err = ask(t, recordOf(t, deploy.Existing), map[string]string{row.Key: value}, none)
		if row.OfVMs() && row.Flag != "" {
			refused("hosts", err)
		} else if err != nil && row.Key != "hosts_file" {
			t.Errorf("%s is refused for hosts: %v", row.Key, err)
		}
		simulated := recordOf(t, deploy.Proxmox)
		simulated.Target.Simulated = true
		if _, err = ask(t, simulated, map[string]string{row.Key: value}, none); row.OfOwnProxmox() && row.Flag != "" {
			refused("a simulator", err)
		}

		env := func(name string) string {
			if name == row.Env[0] {
				return value
			}
			return ""
		}
		if got, err = ask(t, r, nil, env); row.Existing != config.Changed && row.Key != "sim" &&
			(err != nil || !reflect.DeepEqual(got.Spec, r.Spec)) {
			t.Errorf("%s of the environment is refused, or changes the cluster: %v", row.Key, err)
		}
		if _, err := ask(t, recordOf(t, deploy.Existing), nil, env); err != nil && row.Key != "hosts_file" {
			t.Errorf("%s of the environment is refused for hosts: %v", row.Key, err)
		}
	}
}

// What the cluster has already may be asked for again.
func TestTheSameIsAskedForAgain(t *testing.T) {
	r := recordOf(t, deploy.Proxmox)
	for key, value := range map[string]string{
		"management_vlan": "0", "ssh_user": cluster.DefaultSSHUser, "cpu_type": cluster.DefaultCPUType,
		"deployer":          deploy.Proxmox,
		"proxmox.vmid_base": "20000", "proxmox.vmid_range": "20000-20010", "node_ssh_port": "22", "sim": "false",
		"proxmox.endpoint": "https://pve1:8006", "ssh_private_key_path": r.SSHKeyPath, "template": "0",
		"proxmox.hypervisors": `[{name = "pve1"}, {name = "pve2"}]`,
	} {
		if got, err := ask(t, r, map[string]string{key: value}, func(string) string { return "" }); err != nil ||
			!reflect.DeepEqual(got.Spec, r.Spec) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestFlagsThatContradict(t *testing.T) {
	none := func(string) string { return "" }
	for _, values := range []map[string]string{
		{"template": "9001", "os_image": "local:iso/x.img"}, {"sim": "true", "hosts_file": "hosts.yaml"},
	} {
		if _, err := ask(t, recordOf(t, deploy.Proxmox), values, none); plainCode(err) != ExitUsage {
			t.Errorf("%v: %v", values, err)
		}
	}
}
