package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/deploytest"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/remote"
)

// Simulated gives a test a clusters directory with a simulated Proxmox VE, which ends with the test.
func Simulated(t *testing.T) (clustersDir string) {
	t.Helper()
	bin := os.Getenv("HIVE_TEST_BIN_DIR")
	if bin == "" {
		t.Skip("HIVE_TEST_BIN_DIR names no directory with hive-sim and tofu: make test does")
	}
	dir := t.TempDir()
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("CLUSTERS", dir)
	start := exec.Command(
		"hive-sim", "pve", "start", "--clusters-dir", dir, "--task-duration", "0s", "--boot-delay", "0s",
	)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(
			filepath.Join(bin, "hive-sim"), "pve", "stop", "--clusters-dir", dir, "--wipe",
		).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return dir
}

// Each deployer, as a run gets it, does what the contract says.
func TestDeployers(t *testing.T) {
	hosts := filepath.Join(t.TempDir(), "hosts.yaml")
	if err := os.WriteFile(
		hosts,
		[]byte(
			"ssh_user: me\nssh_key_path: "+hosts+"\nnodes:\n- {name: contract-1, management: 127.0.0.2}\n- {name: contract-2, management: 127.0.0.3}\n",
		),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]map[string]string{
		deploy.Proxmox:           {"sim": "true"},
		deploy.SimHosts:          {"sim": "true", "deployer": deploy.SimHosts},
		cluster.DeployerExisting: {"hosts_file": hosts},
	} {
		t.Run(name, func(t *testing.T) {
			values["clusters_dir"], values["node_count"] = Simulated(t), "2"
			conform(t, values)
		})
	}
}

func conform(t *testing.T, values map[string]string) {
	ctx := t.Context()
	settings, err := config.Load(config.LoadOptions{Values: values, Env: func(string) string { return "" }, WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.open(t.Context(), "up", Request{Name: "contract", Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.hold(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.adoptOrCreate(ctx); err != nil {
		t.Fatal(err)
	}
	d, err := s.Deployer()
	if err != nil {
		t.Fatal(err)
	}
	if d.Makes() != s.Makes() { // the target says so before it opens the deployer
		t.Errorf("the deployer makes machines: %v, the target says %v", d.Makes(), s.Makes())
	}
	if _, err := lifecycle.Prepare(ctx, d, s.Record, nil); err != nil {
		t.Fatal(err)
	}
	public := ""
	if d.Makes() {
		if err := remote.GenerateKey(s.Record.SSHKeyPath); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(s.Record.PublicKeyPath())
		if err != nil {
			t.Fatal(err)
		}
		public = string(raw)
	}
	deploytest.Run(t, d, s.Record, deploy.Request{
		Dir: s.Store.Path(s.Name, ""), Name: s.Name, Owner: s.Record.Owner, Spec: s.Record.Spec, Nodes: s.Record.Nodes,
		SSHPublicKey: public,
	})
}
