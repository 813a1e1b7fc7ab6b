package engine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/target"
	"hive-test/pkg/template"
)

// Whatever a template is made of: where that changes, it alone is named.
func TestEachInputThatChangesIsNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sum := func(digit string) string { return template.HashOf(digit) }
	type made struct {
		settings config.Settings
		record   cluster.Record
		layer    config.Layer
		parent   string
	}
	fresh := func() *made {
		m := &made{layer: config.Layer{
			Name: "mine", Packages: []string{"tcpdump"}, Hive: true, Scripts: []string{write("install.sh", "true")},
			Downloads: []config.Download{{File: "guest.img", SHA256: sum("1")}},
			Files:     []config.LayerFile{{From: write("bench", "1"), To: "bench"}},
		}}
		m.record.Spec.OSImage = "local:iso/a.img"
		m.settings.Binary = write("hive", "#!/bin/sh\n")
		return m
	}
	inputs := func(m *made) template.Inputs {
		t.Helper()
		m.settings.Layers = []config.Layer{m.layer}
		layer, err := buildable(Request{Name: "mine", Settings: m.settings})
		if err != nil {
			t.Fatal(err)
		}
		s := &session{Target: &target.Target{Settings: m.settings, Record: &m.record}, run: &run{}}
		s.template.layer = layer
		var parent *cluster.TemplateUsed
		if m.parent != "" {
			parent = &cluster.TemplateUsed{Version: m.parent}
		}
		list, err := s.templateInputs(t.Context(), layer, parent)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	was := inputs(fresh())
	onParent := fresh()
	onParent.parent = "hive-base-1"
	wasOnParent := inputs(onParent)
	for name, test := range map[string]struct {
		was    template.Inputs
		change func(m *made)
		want   []string
	}{
		"nothing":                {was, func(*made) {}, nil},
		"image":                  {was, func(m *made) { m.record.Spec.OSImage = "local:iso/b.img" }, []string{"image"}},
		"packages":               {was, func(m *made) { m.layer.Packages = []string{"tcpdump", "strace"} }, []string{"packages"}},
		"download":               {was, func(m *made) { m.layer.Downloads[0].SHA256 = sum("2") }, []string{"download guest.img"}},
		"file":                   {was, func(*made) { write("bench", "2") }, []string{"file bench"}},
		"script":                 {was, func(*made) { write("install.sh", "false") }, []string{"script install.sh"}},
		"program":                {was, func(*made) { write("hive", "#!/bin/bash\n") }, []string{"step install"}},
		"source":                 {was, func(m *made) { m.settings.Binary = write("hive2", "#!/bin/sh\n") }, []string{"hive"}},
		"packages of every node": {was, func(m *made) { m.record.Packages = []string{"jq"} }, []string{"step os"}},
		"parent":                 {wasOnParent, func(m *made) { m.parent = "hive-base-2" }, []string{"parent"}},
	} {
		m := fresh()
		test.change(m)
		var got []string
		for _, d := range test.was.Differences(inputs(m)) {
			got = append(got, d.Input)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v differ, want %v", name, got, test.want)
		}
	}
}

// An image of the same name that is another one is told of, and where it is not to be known, nothing is said.
func TestImagesAreComparedWhereTheyAreKnown(t *testing.T) {
	image := func(content string) template.Inputs {
		inputs := template.Inputs{"image": "local:iso/a.img"}
		if content != "" {
			inputs[imageContent] = content
		}
		return inputs
	}
	for name, test := range map[string]struct {
		was, now string
		want     int
	}{"another": {"1 bytes", "2 bytes", 1}, "the same": {"1 bytes", "1 bytes", 0}, "not known now": {"1 bytes", "", 0}, "not known then": {"", "1 bytes", 0}} {
		if got := differences(image(test.was), image(test.now)); len(got) != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Which Makefile makes the system ready for hive: that of the source that is named, where it can.
func TestUpstreamIsThatOfTheSource(t *testing.T) {
	dir := t.TempDir()
	makefile := func(text string) config.Settings {
		if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Settings{SourceDir: dir}
	}
	input := func(settings config.Settings, layer string) string {
		t.Helper()
		found, err := template.FindLayer(withUpstream(template.Layers(nil), settings), layer)
		if err != nil {
			t.Fatal(err)
		}
		return upstreamInput(found.Upstream)
	}
	const targets = "install-system:\ninstall-go:\ninstall-aws:\n"
	for name, test := range map[string]struct {
		settings config.Settings
		layer    string
		want     string
	}{
		"none named":    {config.Settings{}, "base", ""},
		"no targets":    {makefile("build:\n"), "base", ""},
		"repository":    {config.Settings{Repo: "https://me:secret@host/hive", Ref: "v1"}, "base", "repository https://host/hive at v1"},
		"another layer": {config.Settings{Repo: "https://host/hive", Ref: "v1"}, "dev", ""},
	} {
		if got := input(test.settings, test.layer); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	for _, layer := range []string{"base", "single"} {
		first := input(makefile(targets), layer)
		if second := input(makefile(targets+"# changed\n"), layer); first != template.HashOf(targets) || second == first {
			t.Errorf("%s: %s, and with another Makefile %s", layer, first, second)
		}
	}
}
