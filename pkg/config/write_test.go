package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/deploy/placement"
)

// What is rendered is read as it was meant, whatever it looks like in YAML.
func TestRenderedIsLoaded(t *testing.T) {
	hypervisors := []placement.Hypervisor{
		{Name: "pve1", Address: "10.0.0.1", Port: 22, Datastore: "local-lvm", SnippetStore: "local"},
		{Name: "no", Port: 2222, Datastore: "1e3", SnippetStore: "local", TemplateVMID: 9000},
	}
	text, err := Render(".", "two\n\nlines", []Entry{
		{Key: "proxmox.hypervisors", Value: hypervisors},
		{Key: "node_count", Value: 5},
		{Key: "node_count", Value: 7},
		{Key: "proxmox.fingerprint", Value: "11:22:33", Note: "of pve1"},
		{Key: "proxmox.insecure", Value: true},
		{Key: "management_bridge", Value: "yes"},
		{Key: "os_image", Value: "local:iso/a # b.img"},
		{Key: "ssh_user", Value: "10"},
		{Key: "ttl", Value: 36 * time.Hour},
		{Key: "hive.init_flags", Value: []string{"--a=b: c", "#d"}},
		{Key: "proxmox.ca_file", Value: "ca.pem"},
	}, "node_count", "disk_size_gb")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(LoadOptions{ConfigPath: path, Env: func(string) string { return "" }})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got := []any{
		s.NodeCount, s.Proxmox.Fingerprint, s.Proxmox.Insecure, s.ManagementBridge, s.OSImage, s.SSHUser, s.TTL,
		s.Hive.InitFlags, s.Proxmox.Hypervisors, filepath.Base(s.Proxmox.CAFile),
	}
	want := []any{
		7, "11:22:33", true, "yes", "local:iso/a # b.img", "10", 36 * time.Hour,
		[]string{"--a=b: c", "#d"},
		hypervisors, "ca.pem",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, text)
	}
	for _, line := range []string{
		"# two", "#", "# number of nodes", "  # of pve1", "# disk_size_gb: 32 # root disk per node in GiB",
		`    - {name: pve1, address: 10.0.0.1, datastore_id: local-lvm, snippet_store: local}`,
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("there is no line %q in\n%s", line, text)
		}
	}
	if strings.Contains(string(text), "# node_count:") {
		t.Errorf("node_count is set, and to be filled in:\n%s", text)
	}
}

func TestRenderRefusesWhatIsNoSetting(t *testing.T) {
	if _, err := Render(".", "", []Entry{{Key: "nodes", Value: 1}}); err == nil {
		t.Error("a key that is no setting was rendered")
	}
}

// A path that is relative here is right in a file elsewhere.
func TestRenderedPaths(t *testing.T) {
	elsewhere := t.TempDir()
	for path, want := range map[string]string{
		"ca.pem": Absolute("ca.pem"), "/a/ca.pem": "/a/ca.pem", "~/ca.pem": "~/ca.pem", "": "",
	} {
		if got := inFile(path, elsewhere); got != want {
			t.Errorf("%q is %q in a file elsewhere, want %q", path, got, want)
		}
		if got := inFile(path, "."); got != path {
			t.Errorf("%q is %q in a file here", path, got)
		}
	}
}

func TestEntriesAreWhatWasGiven(t *testing.T) {
	env := map[string]string{
		"TF_VAR_node_count": "4", "HIVE_TEST_TTL": "2d", "PROXMOX_VE_API_TOKEN": "a@b!c=secret",
		"HIVE_TEST_OUTPUT": "json", "TF_VAR_nodes": `[{name="pve1"}]`,
	}
	s, err := Load(LoadOptions{Env: func(name string) string { return env[name] }, ConfigPath: os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, e := range s.Entries(func(source string) bool { return source != "environment HIVE_TEST_TTL" }) {
		got[e.Key] = e.Value
	}
	want := map[string]any{
		"node_count":          4,
		"proxmox.hypervisors": []placement.Hypervisor{placement.Hypervisor{Name: "pve1"}.WithDefaults()},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".env")
	for _, test := range []struct{ text, problem string }{
		{text: "# a\n\nexport PROXMOX_VE_API_TOKEN='u@r!n=s' # b\nOTHER=1\nTF_VAR_nodes='[\n {name=\"a\"},\n]'\n"},
		{text: "A=1\nPROXMOX_VE_API_TOKEN u@r!n=s\n", problem: path + ":2: it is not of the form NAME=value"},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		values, unknown, err := ReadEnvFile(path)
		if test.problem != "" {
			if err == nil || err.Error() != test.problem {
				t.Errorf("%q: %v", test.text, err)
			}
			continue
		}
		want := map[string]string{
			"PROXMOX_VE_API_TOKEN": "u@r!n=s", "OTHER": "1", "TF_VAR_nodes": "[\n {name=\"a\"},\n]",
		}
		if diff := cmp.Diff(want, values); err != nil || diff != "" || len(unknown) != 1 || unknown[0] != "OTHER" {
			t.Errorf("%v, unknown %v\n%s", err, unknown, diff)
		}
	}
}
