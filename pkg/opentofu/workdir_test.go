package opentofu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/process"
)

func TestPrepareLeavesOneModule(t *testing.T) {
	w := workdir{root: filepath.Join(t.TempDir(), "ci-1")}
	if err := os.MkdirAll(w.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, w.file("old.tf"), "# of an earlier release")
	for range 2 {
		if err := w.prepare(sample(), Backend{}); err != nil {
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
	if diff := cmp.Diff([]string{"main.tf", "variables.tf"}, found); diff != "" {
		t.Errorf("files: %s", diff)
	}
}

func TestReadState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "terraform.tfstate")
	for name, test := range map[string]struct {
		content string
		want    []Resource
		bad     bool
	}{
		"missing":   {},
		"empty":     {content: "\n"},
		"destroyed": {content: `{"version":4,"resources":[]}`},
		"damaged":   {content: `{"version":4,`, bad: true},
		"instances": {
			content: `{"resources":[
			{"mode":"data","type":"x","instances":[{}]},
			{"mode":"managed","type":"file","instances":[{"index_key":"a-1"},{"index_key":0}]},
			{"mode":"managed","type":"vm","provider":"p","instances":[{"index_key":"a-1","status":"tainted","attributes":{"id":1}}]}]}`,
			want: []Resource{{Type: "file", Key: "a-1"}, {Type: "file"}, {
				Type: "vm", Key: "a-1", Tainted: true, Provider: "p", Attributes: []byte(`{"id":1}`),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(path)
			if test.content != "" {
				write(t, path, test.content)
			}
			r, err := ReadState(path)
			if (err != nil) != test.bad {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, r); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTerraformDoesNotTakeOverFromOpenTofu(t *testing.T) {
	w := workdir{root: t.TempDir()}
	write(
		t, w.state(),
		`{"resources":[{"mode":"managed","type":"x","provider":"provider[\"registry.opentofu.org/bpg/proxmox\"]","instances":[{}]}]}`,
	)
	if err := checkFlavor(w, Binary{Flavor: Terraform}); err == nil || !strings.Contains(err.Error(), "--tofu-bin") {
		t.Errorf("got %v", err)
	}
	if err := checkFlavor(w, Binary{Flavor: OpenTofu}); err != nil {
		t.Error(err)
	}
}

func environmentOf(t *testing.T, o Options, flavor string) (workdir, map[string]string) {
	t.Helper()
	w := workdir{root: filepath.Join(t.TempDir(), "ci-1")}
	if err := w.prepare(sample(), Backend{}); err != nil {
		t.Fatal(err)
	}
	env, _, err := New(o).environment(t.Context(), w, Binary{Flavor: flavor})
	if err != nil {
		t.Fatal(err)
	}
	return w, env
}

func TestEnvironmentIsBuiltNotInherited(t *testing.T) {
	home := t.TempDir()
	w, env := environmentOf(t, Options{
		OwnerID: "owner-id",
		Env: []string{
			"HOME=" + home, "PATH=/p", "TF_VAR_node_count=9", "TF_CLI_ARGS=-x", "TF_WORKSPACE=w",
			"AWS_SECRET_ACCESS_KEY=s",
			"https_proxy=http://proxy", "SSH_AUTH_SOCK=/agent", "TF_CLI_CONFIG_FILE=/missing",
			"TF_PLUGIN_CACHE_DIR=" + home, "CLOUD_TOKEN=other",
		},
		Environment: func(_ context.Context, dir string) (Environment, error) {
			return Environment{Variables: map[string]string{
					"CLOUD_TOKEN": "ours", "CLOUD_FILE": filepath.Join(dir, "file"),
				}},
				nil
		},
	}, Terraform)
	want := map[string]string{
		"PATH": "/p", "HOME": w.home(), "CHECKPOINT_DISABLE": "1", ownerVariable: "owner-id",
		runVariable: process.Self().String(), "https_proxy": "http://proxy",
		"TF_CLI_CONFIG_FILE": w.cliConfig(), "TF_PLUGIN_CACHE_DIR": home, "CLOUD_TOKEN": "ours",
		"CLOUD_FILE": w.file("file"),
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
		w, env := environmentOf(
			t, Options{ProviderMirror: `/mirror/${odd} "dir"`, CacheDir: home, Env: []string{"HOME=" + home}}, OpenTofu,
		)
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
		if env["TF_CLI_CONFIG_FILE"] != filepath.Join(home, ".terraformrc") ||
			env["TF_PLUGIN_CACHE_DIR"] != filepath.Join(home, "c", "providers") {
			t.Errorf("%v", env)
		}
		write(t, filepath.Join(home, ".tofurc"), `plugin_cache_dir = "/own"`)
		_, env = environmentOf(t, Options{CacheDir: filepath.Join(home, "c"), Env: []string{"HOME=" + home}}, OpenTofu)
		if env["TF_CLI_CONFIG_FILE"] != filepath.Join(home, ".tofurc") || env["TF_PLUGIN_CACHE_DIR"] != "" {
			t.Errorf("%v", env)
		}
	})
}

func TestAMirrorWithoutTheProviderIsNamed(t *testing.T) {
	mirror := t.TempDir()
	o := Options{Module: sample(), ProviderMirror: mirror, Provider: Provider{"some/thing", "1.0.0"}}
	_, err := New(o).stamp(Binary{Flavor: OpenTofu})
	if err == nil || err.Error() != "the provider mirror "+mirror+" holds no registry.opentofu.org/some/thing" {
		t.Errorf("got %v", err)
	}
}
