package deploy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
)

func TestWhatAPlanNeeds(t *testing.T) {
	vm := func(action deploy.Action) deploy.Change {
		return deploy.Change{Node: "ci-2", Address: "vm", VM: true, Action: action}
	}
	unfinished, restart := vm(deploy.Replace), vm(deploy.Update)
	unfinished.Unfinished, restart.Restarts = true, true
	for _, tc := range []struct {
		name    string
		change  deploy.Change
		request deploy.Request
		want    string
	}{
		{"a new VM", vm(deploy.Create), deploy.Request{}, ""},
		{"a change while it runs", vm(deploy.Update), deploy.Request{}, ""},
		{"what was never completed", unfinished, deploy.Request{}, ""},
		{"a node that leaves", vm(deploy.Delete), deploy.Request{Leaving: []string{"ci-2"}}, ""},
		{"another node than the one that leaves", vm(deploy.Delete), deploy.Request{Leaving: []string{"ci-3"}}, "--allow-replace"},
		{"a node that leaves is not replaced", vm(deploy.Replace), deploy.Request{Leaving: []string{"ci-2"}}, "--allow-replace"},
		{"a replacement", vm(deploy.Replace), deploy.Request{Allow: deploy.Allowed{Restart: true}}, "--allow-replace"},
		{"an allowed replacement", vm(deploy.Replace), deploy.Request{Allow: deploy.Allowed{Replace: true}}, ""},
		{"a restart", restart, deploy.Request{Allow: deploy.Allowed{Replace: true}}, "--allow-restart"},
		{"an allowed restart", restart, deploy.Request{Allow: deploy.Allowed{Restart: true}}, ""},
	} {
		if got := tc.request.Needs(tc.change); got != tc.want {
			t.Errorf("%s needs %q, want %q", tc.name, got, tc.want)
		}
		refused := tc.request.Refused(deploy.Plan{Changes: []deploy.Change{tc.change}})
		if (len(refused) > 0) != (tc.want != "") {
			t.Errorf("%s: refused %v", tc.name, refused)
		}
	}
}

func TestARefusalNamesTheChangesAndTheWaysOn(t *testing.T) {
	err := &deploy.RefusedError{Changes: []deploy.Change{
		{Node: "ci-1", VM: true, Action: deploy.Replace, Reason: "cannot_update", Attributes: []deploy.Attribute{{Name: "disk.file_id", Before: "a", After: "b"}}},
		{Node: "ci-2", VM: true, Action: deploy.Delete, Reason: "delete_because_each_key"},
		{Node: "ci-3", VM: true, Action: deploy.Update, Restarts: true},
		{Node: "ci-4", VM: true, Action: deploy.Update, Attributes: []deploy.Attribute{{Name: "started", Before: "false", After: "true"}}},
		{Node: "ci-5", VM: true, Action: deploy.Update, Restarts: true},
		{Node: "ci-6", VM: true, Action: deploy.Update, Attributes: []deploy.Attribute{
			{Name: "memory.dedicated", Before: "8192", After: "4096"}, {Name: "disk.size", Before: "16", After: "32"},
		}},
	}}
	const want = "replace ci-1 (disk.file_id a -> b); delete ci-2; update ci-3, ci-5 (needs a restart); update ci-4 (starts); " +
		"update ci-6 (memory 8192 -> 4096 MiB, disk 16 -> 32 GiB)"
	if !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %s", err)
	}
	for _, flag := range []string{"--allow-replace", "--allow-restart"} {
		if !strings.Contains(err.Hint(), flag) {
			t.Errorf("the hint does not name %s: %s", flag, err.Hint())
		}
	}
}

func TestDescriptionsAreComparedInWords(t *testing.T) {
	mine := cluster.Owner{ID: "0195"}
	timed, other := mine, cluster.Owner{ID: "0196"}
	timed.Expires = time.Date(2026, 11, 29, 23, 24, 23, 0, time.UTC)
	for _, tc := range []struct{ before, after, want string }{
		{cluster.Description("tty", mine), cluster.Description("tty", timed), "expires - -> 2026-11-29T23:24:23Z"},
		{cluster.Description("tty", timed) + "\n", cluster.Description("tty", mine), "expires 2026-11-29T23:24:23Z -> -"},
		{cluster.Description("tty", mine), cluster.Description("tty", other), "owner 0195 -> 0196"},
		{
			"of Ann\n" + cluster.Description("tty", mine), cluster.Description("tty", timed),
			"expires - -> 2026-11-29T23:24:23Z, the rest of the description",
		},
		{"of Ann", cluster.Description("tty", mine), "description of Ann -> " + cluster.Description("tty", mine)},
	} {
		a := deploy.Attribute{Name: "description", Before: tc.before, After: tc.after}
		if got := a.String(); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.before, got, tc.want)
		}
	}
}

func TestChangesAreReportedInNode(t *testing.T) {
	changes := []deploy.Change{{Node: "ci-10", VM: true}, {Node: "ci-2"}, {Node: "ci-2", VM: true}, {Node: "ci-1"}}
	deploy.SortChanges(changes)
	want := []deploy.Change{{Node: "ci-1"}, {Node: "ci-2", VM: true}, {Node: "ci-2"}, {Node: "ci-10", VM: true}}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Error(diff)
	}
}

func TestTotalsCountVMs(t *testing.T) {
	plan := deploy.Plan{Changes: []deploy.Change{
		{Node: "a-1", Action: deploy.Create},
		{Node: "a-1", Action: deploy.Create, VM: true},
		{Node: "a-2", Action: deploy.Replace, VM: true},
		{Node: "a-2", Action: deploy.Replace},
		{Node: "a-3", Action: deploy.Replace}, // its snippet
		{Node: "a-4", Action: deploy.Delete, VM: true},
		{Node: "a-5", Action: deploy.Update, VM: true},
	}}
	if got, want := plan.Totals().String(), "2 to create, 2 to change, 2 to destroy"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
