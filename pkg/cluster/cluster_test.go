package cluster

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseName(t *testing.T) {
	for _, tc := range []struct{ in, problem string }{
		{"a", ""},
		{"ci-123", ""},
		{"0", ""},
		{strings.Repeat("a", 40), ""},
		{"", "empty"},
		{"HIVE", "lower-case"},
		{"a_b", "lower-case"},
		{"../x", "lower-case"},
		{"-a", "both ends"},
		{"a-", "both ends"},
		{"a b", "lower-case"},
		{"ä", "lower-case"},
		{"a\n", "lower-case"},
		{strings.Repeat("a", 41), "41 characters"},
	} {
		name, err := ParseName(tc.in)
		if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("ParseName(%q) = %q, %v; want a problem with %q", tc.in, name, err, tc.problem)
		}
	}
}

func TestSpecValidateReportsEverything(t *testing.T) {
	spec := Spec{Deployer: "proxmox", NodeCount: 11, CPUCores: 0, MemoryMB: 1, DiskSizeGB: 1}
	problems := spec.Validate()
	if len(problems) != 4 {
		t.Errorf("got %d problems, want 4: %v", len(problems), problems)
	}
	good := Spec{
		Deployer: "proxmox", NodeCount: DefaultNodes, CPUCores: DefaultCPUCores, MemoryMB: DefaultMemoryMB,
		DiskSizeGB: DefaultDiskSizeGB, OSImage: "debian",
	}
	if problems := good.Validate(); len(problems) != 0 {
		t.Errorf("the defaults are not valid: %v", problems)
	}
}

func TestRecordPhases(t *testing.T) {
	r := &Record{}
	if p, _ := r.Current(); p != "" {
		t.Errorf("a new record is in phase %q", p)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.Begin(PhaseUp, "in", now)
	if r.Done(PhaseUp, "in") {
		t.Error("a phase that has only begun counts as done")
	}
	r.End(PhaseUp, nil, now.Add(time.Second))
	if !r.Done(PhaseUp, "in") || r.Done(PhaseUp, "other") {
		t.Error("done must mean: ended well, with the same inputs")
	}
	r.Begin(PhaseConfigure, "c", now.Add(2*time.Second))
	if p, s := r.Current(); p != PhaseConfigure || s != PhaseRunning {
		t.Errorf("current is %s %s, want configure running", p, s)
	}
}

func TestOwnerSurvivesPeopleAndProxmox(t *testing.T) {
	owner := Owner{ID: "2f0c1f6e-0000-4000-8000-000000000001", Expires: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	written := Description("ci-1", owner)
	if want := "Managed by Terraform - cluster: ci-1 - owner: " + owner.ID + " - expires: 2026-01-02T03:04:05Z"; written != want {
		t.Errorf("written as %q, want %q", written, want)
	}
	for _, tc := range []struct {
		name, text string
		ok         bool
	}{
		{"as written", written, true},
		{"as Proxmox VE gives it back", written + "\n", true},
		{"with a note below", written + "\nkept for Ann until Friday", true},
		{"with a note above", "do not touch\n" + written, true},
		{"without expiry", Description("ci-1", Owner{ID: owner.ID}), true},
		{"two owners", written + "\n" + Description("ci-2", owner), false},
		{"none", "web server", false},
		{"a name with a path", Description("../../etc", owner), false},
		{"a name of two lines", Description("ci-1\n../x", owner), false},
		{"a name that is an option", Description("-rf", owner), false},
		{"quoted in a sentence", "see '" + written + "'", false},
	} {
		name, id, ok := ParseOwner(tc.text)
		if ok != tc.ok || ok && (name != "ci-1" || id != owner.ID) {
			t.Errorf("%s: got %q %q %v", tc.name, name, id, ok)
		}
	}
}

func TestExpiryInTheDescription(t *testing.T) {
	owner := Owner{ID: "me", Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	written := Description("ci-1", owner)
	if name, read, ok := ParseDescription("kept for Ann\n" + written + "\n"); !ok || name != "ci-1" || read != owner {
		t.Errorf("read as %v %v %v", name, read, ok)
	}
	if _, read, ok := ParseDescription(Description("ci-1", Owner{ID: "me"}) + " - expires: tomorrow"); !ok ||
		!read.Expires.IsZero() {
		t.Errorf("what is no time was read as %v %v", read, ok)
	}
	later := Owner{ID: "me", Expires: owner.Expires.Add(time.Hour)}
	for text, want := range map[string]string{
		written:                         Description("ci-1", later),
		"above\n" + written + "\nbelow": "above\n" + Description("ci-1", later) + "\nbelow",
		"web server":                    "web server",
	} {
		if got := Redescribe(text, "ci-1", later); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestTagsOfAHeldCluster(t *testing.T) {
	if got := strings.Join(Owner{Held: true}.Tags("ci-1"), ";"); got != "ci-1;hive;hive-test;hive-test-hold;terraform" {
		t.Errorf("tagged %s", got)
	}
}

func TestShared(t *testing.T) {
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for name, tc := range map[string]struct {
		nodes Nodes
		want  []Shared
	}{
		"each its own":    {Nodes{{Name: "a", Management: one}, {Name: "b", Management: two}}, nil},
		"one NIC for all": {Nodes{{Name: "a", Management: one, Data: one}}, nil},
		"not known yet":   {Nodes{{Name: "a"}, {Name: "b"}}, nil},
		"two with one": {
			Nodes{{Name: "a", Management: one}, {Name: "b", Management: two, Data: one}}, []Shared{{"a", "b", one}},
		},
	} {
		if got := tc.nodes.Shared(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestInventoryEndpoint(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "https://192.0.2.1:9999", "fd00::2": "https://[fd00::2]:9999", "::1": "https://[::1]:9999",
	} {
		r := Record{Nodes: Nodes{{Name: "ci-1", Index: 1, Management: netip.MustParseAddr(address)}}}
		if got := r.Inventory().Endpoints["hive"]; got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	if got := (&Record{Nodes: Nodes{{Name: "ci-1", Index: 1}}}).Inventory().Endpoints; len(got) > 0 {
		t.Errorf("a node without an address has %v", got)
	}
}
