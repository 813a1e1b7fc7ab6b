package cloudinit_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"

	"hive-test/cloudinit"
)

var update = flag.Bool("update", false, "rewrite golden files")

func render(t *testing.T, p cloudinit.Params) []byte {
	t.Helper()
	data, err := cloudinit.VendorData(p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type document struct {
	Update   bool     `yaml:"package_update"`
	Upgrade  bool     `yaml:"package_upgrade"`
	Packages []string `yaml:"packages"`
	Timezone string   `yaml:"timezone"`
	Files    []struct {
		Path        string `yaml:"path"`
		Owner       string `yaml:"owner"`
		Permissions string `yaml:"permissions"`
		Content     string `yaml:"content"`
	} `yaml:"write_files"`
	Commands []string `yaml:"runcmd"`
}

func parse(t *testing.T, data []byte) document {
	t.Helper()
	var d document
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("vendor data is no YAML of the expected shape: %v\n%s", err, data)
	}
	return d
}

func TestVendorDataGolden(t *testing.T) {
	got := render(t, cloudinit.Params{User: "tf-user"})
	const golden = "testdata/vendor.golden.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("vendor data changed (-want +got), run with -update if that is meant:\n%s", diff)
	}
	if !strings.HasPrefix(string(got), "#cloud-config\n") {
		t.Error("cloud-init reads a document only if its first line is #cloud-config")
	}
}

func TestVendorDataIsYAMLOfTheOSOnly(t *testing.T) {
	d := parse(t, render(t, cloudinit.Params{User: "dev", Timezone: "Europe/Berlin", NoUpgrade: true, SocketBufferBytes: 8192}))
	if d.Timezone != "Europe/Berlin" || d.Upgrade || !slices.Contains(d.Packages, "qemu-guest-agent") {
		t.Errorf("settings are lost: %+v", d)
	}
	if len(d.Files) != 1 || d.Files[0].Content != "net.core.rmem_max = 8192\nnet.core.wmem_max = 8192\n" || d.Files[0].Permissions != "0644" {
		t.Errorf("sysctl file: %+v", d.Files)
	}
	want := []string{"mkdir -p /var/lib/hive-test", "touch " + cloudinit.MarkerPath}
	if got := d.Commands[len(d.Commands)-2:]; !slices.Equal(got, want) {
		t.Errorf("the last commands are %q, want the marker: %q", got, want)
	}
	for _, command := range d.Commands {
		if _, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(command), ""); err != nil {
			t.Errorf("command %q is no shell: %v", command, err)
		}
		if strings.Contains(command, "git clone") {
			t.Errorf("command %q belongs to the configure phase", command)
		}
	}
}

func TestVendorDataRefusesWhatWouldNotBeAValue(t *testing.T) {
	for name, p := range map[string]cloudinit.Params{
		"no user":            {},
		"user with a shell":  {User: "x; reboot"},
		"user with newline":  {User: "x\ny"},
		"package with space": {User: "x", Packages: []string{"a b"}},
		"package option":     {User: "x", Packages: []string{"--force"}},
		"time zone":          {User: "x", Timezone: "UTC\nruncmd: []"},
		"buffer":             {User: "x", SocketBufferBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if data, err := cloudinit.VendorData(p); err == nil {
				t.Errorf("accepted:\n%s", data)
			}
		})
	}
}
