package template_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"

	"hive-test/pkg/deploy"
	"hive-test/pkg/template"
)

var day = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func identity(layer string, inputs template.Inputs) template.Identity {
	return template.NewIdentity(layer, inputs, "me@here", day)
}

func TestVersionsTellDayAndInputs(t *testing.T) {
	a := identity("base", template.Inputs{"image": "a.img", "script x": "1"})
	if !strings.HasPrefix(a.Version, "hive-base-20261128-") || len(a.Version) != len("hive-base-20261128-3f2a9c1") {
		t.Errorf("version %s", a.Version)
	}
	b := identity("base", template.Inputs{"script x": "1", "image": "a.img"})
	c := identity("base", template.Inputs{"image": "a.img", "script x": "2"})
	if a.Version != b.Version || a.Version == c.Version {
		t.Errorf("%s, %s and %s: equal inputs give equal versions, and others do not", a.Version, b.Version, c.Version)
	}
}

// What is written is read again, whatever people and Proxmox VE have made of the rest.
func TestDescriptionsAreReadAgain(t *testing.T) {
	i := identity("dev", template.Inputs{"parent": "hive-base-1", "script install.sh": "abc", "packages": "a b"})
	i.Versions = template.Inputs{"go": "go1.26.0", "os": "debian 12", "image-x.img": "f00"}
	i.Verified, i.Promoted = true, day.Add(1500*time.Millisecond)
	for name, text := range map[string]string{
		"as written":   i.Description(),
		"with a note":  "kept for the release\n" + i.Description() + "\nask me first\n",
		"CRLF":         strings.ReplaceAll(i.Description(), "\n", "\r\n"),
		"blanks after": strings.ReplaceAll(i.Description(), "\n", " \n"),
	} {
		got, ok := template.ParseDescription(text)
		if diff := cmp.Diff(i, got); !ok || diff != "" {
			t.Errorf("%s: ok %v (-want +got):\n%s", name, ok, diff)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "none": "a template of mine", "two": i.Description() + i.Description(),
		"no time": strings.Replace(i.Description(), "2026-11-28T12:00:00Z", "today", 1),
	} {
		if _, ok := template.ParseDescription(text); ok {
			t.Errorf("%s is taken for a template's description", name)
		}
	}
}

// What Proxmox VE would refuse at the end of a build is never written.
func TestDescriptionsHaveRoom(t *testing.T) {
	i := identity("base", template.Inputs{"image": "a.img"})
	i.Versions = template.Inputs{}
	for n := range 500 {
		i.Versions["package-"+strconv.Itoa(n)] = strings.Repeat("1", 30)
	}
	text := i.Description()
	if len(text) > 8192-1000 {
		t.Errorf("%d bytes", len(text))
	}
	if got, ok := template.ParseDescription(text); !ok || got.Version != i.Version || len(got.Versions) < 100 {
		t.Errorf("ok %v, %d versions", ok, len(got.Versions))
	}
}

func TestRedescribeKeepsWhatPeopleWrote(t *testing.T) {
	i := identity("base", template.Inputs{"image": "a.img"})
	text := "mine\n" + i.Description() + "also mine\n"
	i.Verified = true
	now := template.Redescribe(text, i)
	if got, ok := template.ParseDescription(now); !ok || !got.Verified {
		t.Errorf("it is not verified now:\n%s", now)
	}
	if !strings.HasPrefix(now, "mine\n") || !strings.HasSuffix(now, "also mine\n") {
		t.Errorf("what people wrote is gone:\n%s", now)
	}
}

func FuzzParseDescription(f *testing.F) {
	f.Add(identity("base", template.Inputs{"image": "a.img"}).Description())
	f.Add("Template of hive-test - layer: x")
	f.Fuzz(func(t *testing.T, text string) {
		i, ok := template.ParseDescription(text)
		if !ok {
			return
		}
		if again, ok := template.ParseDescription(i.Description()); !ok || again.Version != i.Version {
			t.Errorf("%q is read, and written as what cannot be read:\n%s", text, i.Description())
		}
	})
}

// Each input that changes is named, and no other.
func TestDifferencesNameEachInput(t *testing.T) {
	long := strings.Repeat("a", 64)
	was := template.Inputs{"image": "a.img", "script x": long, "step os": "1", "gone": "1"}
	now := template.Inputs{"image": "b.img", "script x": strings.Repeat("b", 64), "step os": "2", "new": "2"}
	var got []string
	for _, d := range was.Differences(now) {
		got = append(got, d.String())
	}
	want := []string{
		"gone is gone: it was 1", "image was a.img and is b.img", "new is new: 2", "script x has changed", "step os has changed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d := was.Differences(was); len(d) > 0 {
		t.Errorf("nothing has changed, and %v", d)
	}
}

// at is a copy of a version of a layer that was built and promoted in that order; 0: never.
func at(layer string, built, promoted, vmid int, host string, clones ...int) template.Template {
	i := identity(layer, template.Inputs{"n": strconv.Itoa(built)})
	i.Built = day.Add(time.Duration(built) * time.Hour)
	i.Version = "hive-" + layer + "-" + strconv.Itoa(built)
	if promoted > 0 {
		i.Verified, i.Promoted = true, day.Add(time.Duration(promoted)*time.Hour)
	}
	return template.Template{Identity: i, VM: deploy.Template{VMRef: deploy.VMRef{VMID: vmid, Hypervisor: host}, Clones: clones}}
}

func versions(list []template.Template) []string {
	var names []string
	for _, t := range list {
		names = append(names, t.Version)
	}
	return names
}

func TestFindTakesTheOnePromotedLast(t *testing.T) {
	list := []template.Template{
		at("base", 1, 1, 9001, "pve1"), at("base", 2, 5, 9002, "pve1"), at("base", 2, 5, 9003, "pve2"), at("base", 3, 4, 9004, "pve1"),
		at("base", 4, 0, 9005, "pve1"), at("dev", 9, 0, 9006, "pve1"),
	}
	for name, want := range map[string][]string{
		"base": {"hive-base-2", "hive-base-2"}, "hive-base": {"hive-base-2", "hive-base-2"}, "hive-base-4": {"hive-base-4"},
		"dev": nil, "nope": nil, "hive-dev-9": {"hive-dev-9"},
	} {
		if diff := cmp.Diff(want, versions(template.Find(list, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	copies := template.Find(list, "base")
	if own, ok := template.On(copies, "pve2"); !ok || own.VM.VMID != 9003 {
		t.Errorf("pve2 clones %v", own.VM)
	}
	if _, ok := template.On(copies, "pve3"); ok {
		t.Error("pve3 has no copy, and none is shared")
	}
	copies[1].VM.Shared = true
	if shared, ok := template.On(copies, "pve3"); !ok || shared.VM.VMID != copies[1].VM.VMID {
		t.Errorf("pve3 clones %v, and not what is shared", shared.VM)
	}
}

// What is in use, what was in use before it, what is newer and what clones need stays.
func TestPrunable(t *testing.T) {
	list := []template.Template{
		at("base", 1, 1, 9001, "pve1"), at("base", 2, 2, 9002, "pve1"), at("base", 3, 3, 9003, "pve1"),
		at("base", 4, 4, 9004, "pve1"), at("base", 4, 4, 9005, "pve2"), at("base", 5, 0, 9006, "pve1"),
		at("base", 0, 0, 9007, "pve1"), at("base", 2, 2, 9008, "pve2", 20001), at("dev", 1, 0, 9009, "pve1"),
	}
	var ids []int
	for _, t := range template.Prunable(list) {
		ids = append(ids, t.VM.VMID)
	}
	slices.Sort(ids)
	if want := []int{9001, 9002, 9007}; !slices.Equal(ids, want) {
		t.Errorf("nobody needs %v, want %v", ids, want)
	}
	if none := template.Prunable(list[8:]); len(none) > 0 {
		t.Errorf("of a layer of which none is promoted, %v go", versions(none))
	}
}

// Of what cannot be read now, what may be meant by a name is told by its tags.
func TestAwayTellsWhatMayBeMeant(t *testing.T) {
	list := []deploy.Template{
		{VMRef: deploy.VMRef{VMID: 1}, Tags: []string{"hive-base", deploy.TemplateTag}, Away: true},
		{VMRef: deploy.VMRef{VMID: 2}, Tags: []string{"hive-base-x", deploy.TemplateTag}, Away: true},
		{VMRef: deploy.VMRef{VMID: 3}, Tags: []string{"hive-base", deploy.TemplateTag}},
	}
	for name, want := range map[string][]int{
		"": {1, 2}, "base": {1}, "hive-base": {1}, "hive-base-20261128-3f2a9c1": {1}, "base-x": {2},
		"hive-base-x-20261128-3f2a9c1": {1, 2}, "dev": nil,
	} {
		var got []int
		for _, one := range template.Away(list, name) {
			got = append(got, one.VMID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q may mean %v, want %v", name, got, want)
		}
	}
}

func TestLayersAddToTheBuiltIn(t *testing.T) {
	all := template.Layers([]template.Layer{
		{Name: "base", Packages: []string{"tcpdump"}, Scripts: []template.Script{{Name: "a", Text: "true"}}},
		{Name: "bench", Parent: "dev"},
	})
	base, err := template.FindLayer(all, "base")
	if err != nil || !slices.Contains(base.Packages, "tcpdump") || !slices.Contains(base.Packages, "nbdkit") || len(base.Scripts) != 1 {
		t.Errorf("base is %+v, %v", base, err)
	}
	again, _ := template.FindLayer(template.Layers(nil), "base")
	if slices.Contains(again.Packages, "tcpdump") {
		t.Error("what was added stays for others")
	}
	if _, err := template.FindLayer(all, "bench"); err != nil {
		t.Error(err)
	}
	if _, err := template.FindLayer(all, "nope"); err == nil || !strings.Contains(err.Error(), "base, dev, single, bench") {
		t.Errorf("an unknown layer gives %v", err)
	}
}

// Each kind of fault is found, and only it.
func TestFaultsNameWhatIsWrong(t *testing.T) {
	i := identity("base", template.Inputs{})
	i.Versions = template.Inputs{"go": "go1.26.0", "package-nbdkit": "1.32"}
	clone := func(name string, change func(c *template.Clone)) template.Clone {
		c := template.Clone{Name: name, Versions: template.Inputs{"go": "go1.26.0", "package-nbdkit": "1.32", "hive": "1"}}
		c.ParseCheck("own machine-id " + name + "\nown host-key ssh-ed25519 " + name + "\n")
		if change != nil {
			change(&c)
		}
		return c
	}
	for name, test := range map[string]struct {
		change func(c *template.Clone)
		want   []string
	}{
		"sound":         {nil, nil},
		"left":          {func(c *template.Clone) { c.Left = []string{"log /var/log/x"} }, []string{"log: /var/log/x is left of the machine that was built"}},
		"wrong version": {func(c *template.Clone) { c.Versions["go"] = "go1.25" }, []string{"version: go was go1.26.0 and is go1.25"}},
		"lacks a package": {
			func(c *template.Clone) { delete(c.Versions, "package-nbdkit") },
			[]string{"version: package-nbdkit is gone: it was 1.32"},
		},
		"same machine-id": {func(c *template.Clone) { c.Own["machine-id"] = []string{"b"} }, []string{"machine-id: a and b have the same"}},
		"same host key": {
			func(c *template.Clone) { c.Own["host-key"] = []string{"ssh-ed25519 b"} }, []string{"host-key: a and b have the same"},
		},
	} {
		var got []string
		for _, f := range i.Faults([]template.Clone{clone("a", test.change), clone("b", nil)}) {
			got = append(got, f.String())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What one copy alone has is told with where that is; what all have is not.
func TestFaultsNameTheCopy(t *testing.T) {
	i := identity("base", template.Inputs{})
	clone := func(name, on string, left ...string) template.Clone {
		return template.Clone{Name: name, On: on, Left: left}
	}
	for name, test := range map[string]struct {
		clones []template.Clone
		want   []string
	}{
		"one copy": {[]template.Clone{clone("a", "pve1", "log /x"), clone("b", "pve1", "log /x")}, []string{"log: /x is left of the machine that was built"}},
		"one of two": {
			[]template.Clone{clone("a", "pve1"), clone("b", "pve2", "log /x"), clone("c", "pve1")},
			[]string{"log: /x is left of the machine that was built (the copy on pve2)"},
		},
		"two of three": {
			[]template.Clone{clone("a", "pve1", "log /x"), clone("b", "pve2"), clone("c", "pve3", "log /x")},
			[]string{"log: /x is left of the machine that was built (the copy on pve1, pve3)"},
		},
		"all": {[]template.Clone{clone("a", "pve1", "log /x"), clone("b", "pve2", "log /x")}, []string{"log: /x is left of the machine that was built"}},
	} {
		var got []string
		for _, f := range i.Faults(test.clones) {
			got = append(got, f.String())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestScriptsAreBash(t *testing.T) {
	for _, name := range []string{
		template.ScriptDownload, template.ScriptUpstream, template.ScriptVersions, template.ScriptGeneralise, template.ScriptCheck,
	} {
		text, err := template.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), name); err != nil {
			t.Error(err)
		}
	}
}

func TestParseVersions(t *testing.T) {
	got := template.ParseVersions("os debian 12\ngo go1.26.0\nodd\n\n")
	if diff := cmp.Diff(template.Inputs{"os": "debian 12", "go": "go1.26.0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
