package opentofu

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/process"
)

func TestVariablesGolden(t *testing.T) {
	v, err := newVariables(testRequest(t.TempDir(), 2), "https://pve1.example:8006/")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(v.VendorData, "#cloud-config\n") {
		t.Errorf("vendor data: %s", v.VendorData)
	}
	v.VendorData = "#cloud-config\n" // it has a golden file of its own
	path := filepath.Join(t.TempDir(), "terraform.tfvars.json")
	if err := v.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/variables.golden.json"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("variables changed (-want +got), set UPDATE_GOLDEN=1 if that is meant:\n%s", diff)
	}
}

func TestVariablesNameWhatIsMissing(t *testing.T) {
	r := testRequest(t.TempDir(), 3)
	r.Nodes[1].VMID = 0
	r.Spec.NodeCount = 4
	_, err := newVariables(r, "")
	if err == nil || !strings.Contains(err.Error(), "ci-1-2") || !strings.Contains(err.Error(), "3 nodes are reserved where 4") {
		t.Errorf("got %v", err)
	}
}

// The module must declare exactly the variables that are written.
func TestVariablesAreThoseOfTheModule(t *testing.T) {
	sources, err := moduleFiles()
	if err != nil {
		t.Fatal(err)
	}
	var declared, written []string
	for line := range strings.Lines(string(sources["variables.tf"])) {
		if rest, ok := strings.CutPrefix(line, `variable "`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			declared = append(declared, name)
		}
	}
	raw, err := json.Marshal(variables{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		written = append(written, name)
	}
	slices.Sort(declared)
	slices.Sort(written)
	if diff := cmp.Diff(declared, written); diff != "" {
		t.Errorf("variables of the module and of the program differ (-module +program):\n%s", diff)
	}
}

func TestPrepareLeavesOneModule(t *testing.T) {
	w := workdir{cluster: filepath.Join(t.TempDir(), "ci-1")}
	if err := os.MkdirAll(w.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, w.file("old.tf"), "# of an earlier release")
	for range 2 {
		if err := w.prepare(); err != nil {
			t.Fatal(err)
		}
	}
	found, err := filepath.Glob(w.file("*.tf"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	if diff := cmp.Diff([]string{"main.tf", "outputs.tf", "provider.tf", "variables.tf", "versions.tf"}, found); diff != "" {
		t.Errorf("files: %s", diff)
	}
}

func TestReadState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "terraform.tfstate")
	for name, test := range map[string]struct {
		content   string
		resources int
		vms       []string
		bad       bool
	}{
		"missing":   {},
		"empty":     {content: "\n"},
		"destroyed": {content: `{"version":4,"resources":[]}`},
		"damaged":   {content: `{"version":4,`, bad: true},
		"one of two": {
			content: `{"resources":[
			{"mode":"data","type":"x","instances":[{}]},
			{"mode":"managed","type":"proxmox_virtual_environment_file","instances":[{"index_key":"ci-1-1"},{"index_key":"ci-1-2"}]},
			{"mode":"managed","type":"proxmox_virtual_environment_vm","provider":"provider[\"registry.opentofu.org/bpg/proxmox\"]","instances":[{"index_key":"ci-1-1"}]}]}`,
			resources: 3, vms: []string{"ci-1-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(path)
			if test.content != "" {
				write(t, path, test.content)
			}
			r, err := readState(path)
			if (err != nil) != test.bad {
				t.Fatal(err)
			}
			if r.Resources != test.resources || len(r.VMs) != len(test.vms) {
				t.Errorf("got %+v", r)
			}
			for _, vm := range test.vms {
				if !r.VMs[vm] {
					t.Errorf("%s is not in %+v", vm, r)
				}
			}
		})
	}
}

func TestTerraformDoesNotTakeOverFromOpenTofu(t *testing.T) {
	w := workdir{cluster: t.TempDir()}
	write(t, w.state(), `{"resources":[{"mode":"managed","type":"x","provider":"provider[\"registry.opentofu.org/bpg/proxmox\"]","instances":[{}]}]}`)
	if err := checkFlavor(w, Binary{Flavor: Terraform}); err == nil || !strings.Contains(err.Error(), "--tofu-bin") {
		t.Errorf("got %v", err)
	}
	if err := checkFlavor(w, Binary{Flavor: OpenTofu}); err != nil {
		t.Error(err)
	}
}

func environmentOf(t *testing.T, o Options, flavor string) (workdir, map[string]string) {
	t.Helper()
	w := workdir{cluster: filepath.Join(t.TempDir(), "ci-1")}
	if err := w.prepare(); err != nil {
		t.Fatal(err)
	}
	env, err := New(o).environment(t.Context(), w, Binary{Flavor: flavor})
	if err != nil {
		t.Fatal(err)
	}
	return w, env
}

func TestEnvironmentIsBuiltNotInherited(t *testing.T) {
	home := t.TempDir()
	w, env := environmentOf(t, Options{
		OwnerID: "owner-id",
		Token:   testToken, SSHUser: "root", Insecure: true,
		Env: []string{
			"HOME=" + home, "PATH=/p", "TF_VAR_node_count=9", "TF_CLI_ARGS=-x", "TF_WORKSPACE=w", "AWS_SECRET_ACCESS_KEY=s",
			"https_proxy=http://proxy", "SSH_AUTH_SOCK=/agent", "TF_CLI_CONFIG_FILE=/missing", "TF_PLUGIN_CACHE_DIR=" + home, "PROXMOX_VE_API_TOKEN=other",
		},
	}, Terraform)
	want := map[string]string{
		"PATH": "/p", "HOME": w.home(), "CHECKPOINT_DISABLE": "1", ownerVariable: "owner-id", runVariable: process.Self().String(), "https_proxy": "http://proxy",
		"TF_CLI_CONFIG_FILE": w.cliConfig(), "TF_PLUGIN_CACHE_DIR": home,
		"PROXMOX_VE_API_TOKEN": testToken, "PROXMOX_VE_INSECURE": "true", "PROXMOX_VE_SSH_USERNAME": "root",
		"PROXMOX_VE_SSH_AGENT": "true", "SSH_AUTH_SOCK": "/agent",
	}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestInstallation(t *testing.T) {
	read := func(t *testing.T, path string) string {
		t.Helper()
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	t.Run("a mirror is the only source", func(t *testing.T) {
		home := t.TempDir()
		write(t, filepath.Join(home, ".tofurc"), "")
		w, env := environmentOf(t, Options{ProviderMirror: `/mirror/${odd} "dir"`, CacheDir: home, Env: []string{"HOME=" + home}}, OpenTofu)
		const want = "provider_installation {\n  filesystem_mirror {\n    path = \"/mirror/$${odd} \\\"dir\\\"\"\n  }\n}\n"
		if diff := cmp.Diff(want, read(t, w.cliConfig())); diff != "" || env["TF_CLI_CONFIG_FILE"] != w.cliConfig() {
			t.Errorf("%s: %s", env["TF_CLI_CONFIG_FILE"], diff)
		}
		if cache, ok := env["TF_PLUGIN_CACHE_DIR"]; ok {
			t.Errorf("a cache in front of a mirror keeps what the mirror no longer has: %s", cache)
		}
	})
	t.Run("the user's own file is used", func(t *testing.T) {
		home := t.TempDir()
		write(t, filepath.Join(home, ".terraformrc"), "")
		_, env := environmentOf(t, Options{CacheDir: filepath.Join(home, "c"), Env: []string{"HOME=" + home}}, OpenTofu)
		if env["TF_CLI_CONFIG_FILE"] != filepath.Join(home, ".terraformrc") || env["TF_PLUGIN_CACHE_DIR"] != filepath.Join(home, "c", "providers") {
			t.Errorf("%v", env)
		}
		write(t, filepath.Join(home, ".tofurc"), `plugin_cache_dir = "/own"`)
		_, env = environmentOf(t, Options{CacheDir: filepath.Join(home, "c"), Env: []string{"HOME=" + home}}, OpenTofu)
		if env["TF_CLI_CONFIG_FILE"] != filepath.Join(home, ".tofurc") || env["TF_PLUGIN_CACHE_DIR"] != "" {
			t.Errorf("%v", env)
		}
	})
}

func TestBundleHoldsTheCAAndTheSystems(t *testing.T) {
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("ours")})
	system := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("theirs")})
	write(t, filepath.Join(dir, "ca.pem"), string(ca))
	write(t, filepath.Join(dir, "system.pem"), string(system))
	w, env := environmentOf(t, Options{CAFile: filepath.Join(dir, "ca.pem"), Env: []string{"SSL_CERT_FILE=" + filepath.Join(dir, "system.pem")}}, OpenTofu)
	got, err := os.ReadFile(env["SSL_CERT_FILE"])
	if err != nil || env["SSL_CERT_FILE"] != w.caBundle() || !bytes.Equal(got, append(ca, system...)) {
		t.Errorf("%v\n%s", err, got)
	}
	fetched := Options{CAFile: "/nonexistent", FetchCA: func(context.Context) string { return filepath.Join(dir, "ca.pem") }, Env: []string{"SSL_CERT_FILE=" + filepath.Join(dir, "system.pem")}}
	_, env = environmentOf(t, fetched, OpenTofu)
	if got, err := os.ReadFile(env["SSL_CERT_FILE"]); err != nil || !bytes.Equal(got, append(ca, system...)) {
		t.Errorf("one that is fetched: %v\n%s", err, got)
	}
	write(t, filepath.Join(dir, "ca.pem"), "nothing of the kind")
	if _, err := New(Options{CAFile: filepath.Join(dir, "ca.pem")}).environment(t.Context(), w, Binary{}); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("got %v", err)
	}
}

func TestAMirrorWithoutTheProviderIsNamed(t *testing.T) {
	_, err := New(Options{ProviderMirror: t.TempDir()}).stamp(Binary{Flavor: OpenTofu})
	if err == nil || !strings.Contains(err.Error(), "holds no registry.opentofu.org/bpg/proxmox") {
		t.Errorf("got %v", err)
	}
}
