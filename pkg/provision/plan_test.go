package provision_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/provision"
)

func TestWhatAPlanNeeds(t *testing.T) {
	vm := func(action provision.Action) provision.Change {
		return provision.Change{Node: "ci-2", Address: "vm", VM: true, Action: action}
	}
	unfinished, restart := vm(provision.Replace), vm(provision.Update)
	unfinished.Unfinished, restart.Restarts = true, true
	for _, tc := range []struct {
		name    string
		change  provision.Change
		request provision.Request
		want    string
	}{
		{"a new VM", vm(provision.Create), provision.Request{}, ""},
		{"a change while it runs", vm(provision.Update), provision.Request{}, ""},
		{"what was never completed", unfinished, provision.Request{}, ""},
		{"a node that leaves", vm(provision.Delete), provision.Request{Leaving: []string{"ci-2"}}, ""},
		{"another node than the one that leaves", vm(provision.Delete), provision.Request{Leaving: []string{"ci-3"}}, "--allow-replace"},
		{"a node that leaves is not replaced", vm(provision.Replace), provision.Request{Leaving: []string{"ci-2"}}, "--allow-replace"},
		{"a replacement", vm(provision.Replace), provision.Request{Allow: provision.Allowed{Restart: true}}, "--allow-replace"},
		{"an allowed replacement", vm(provision.Replace), provision.Request{Allow: provision.Allowed{Replace: true}}, ""},
		{"a restart", restart, provision.Request{Allow: provision.Allowed{Replace: true}}, "--allow-restart"},
		{"an allowed restart", restart, provision.Request{Allow: provision.Allowed{Restart: true}}, ""},
	} {
		if got := tc.request.Needs(tc.change); got != tc.want {
			t.Errorf("%s needs %q, want %q", tc.name, got, tc.want)
		}
		refused := tc.request.Refused(provision.Plan{Changes: []provision.Change{tc.change}})
		if (len(refused) > 0) != (tc.want != "") {
			t.Errorf("%s: refused %v", tc.name, refused)
		}
	}
}

func TestARefusalNamesTheChangesAndTheWaysOn(t *testing.T) {
	err := &provision.RefusedError{Changes: []provision.Change{
		{Node: "ci-1", VM: true, Action: provision.Replace, Reason: "cannot_update", Attributes: []provision.Attribute{{Name: "disk.file_id", Before: "a", After: "b"}}},
		{Node: "ci-2", VM: true, Action: provision.Delete, Reason: "delete_because_each_key"},
		{Node: "ci-3", VM: true, Action: provision.Update, Restarts: true},
	}}
	const want = "replace ci-1 (disk.file_id a -> b); delete ci-2; update ci-3 (needs a restart)"
	if !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %s", err)
	}
	for _, flag := range []string{"--allow-replace", "--allow-restart"} {
		if !strings.Contains(err.Hint(), flag) {
			t.Errorf("the hint does not name %s: %s", flag, err.Hint())
		}
	}
}

func TestChangesAreToldByNode(t *testing.T) {
	changes := []provision.Change{{Node: "ci-10", VM: true}, {Node: "ci-2"}, {Node: "ci-2", VM: true}, {Node: "ci-1"}}
	provision.SortChanges(changes)
	want := []provision.Change{{Node: "ci-1"}, {Node: "ci-2", VM: true}, {Node: "ci-2"}, {Node: "ci-10", VM: true}}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Error(diff)
	}
}
