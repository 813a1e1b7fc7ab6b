package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/template"
)

func copyOn(vmid int, hypervisor string, shared bool) template.Template {
	return template.Template{VM: deploy.Template{VMRef: deploy.VMRef{VMID: vmid, Name: "hive-dev-1", Hypervisor: hypervisor}, Shared: shared}}
}

// Each copy that can be cloned is looked at where it is, one on shared storage once, and what is avoided is left alone.
func TestEachCopyIsLookedAt(t *testing.T) {
	local := []template.Template{copyOn(9001, "pve1", false), copyOn(9003, "pve3", false)}
	shared := []template.Template{copyOn(9001, "pve2", true)}
	for name, test := range map[string]struct {
		avoid   []string
		copies  []template.Template
		want    []string
		lacking []string
	}{
		"two of three":           {nil, local, []string{"pve1", "pve3"}, []string{"pve2"}},
		"one is avoided":         {[]string{"pve1"}, local, []string{"pve3"}, []string{"pve2"}},
		"what lacks one is, too": {[]string{"pve2"}, local, []string{"pve1", "pve3"}, nil},
		"all that have one are":  {[]string{"pve1", "pve3"}, local, nil, []string{"pve2"}},
		"shared":                 {nil, shared, []string{"pve1"}, nil},
	} {
		hosts, err := placement.Avoid([]placement.Hypervisor{{Name: "pve1"}, {Name: "pve2"}, {Name: "pve3"}}, test.avoid)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostsOfCopies(hosts, test.copies); !slices.Equal(got, test.want) {
			t.Errorf("%s: clones go to %v, want %v", name, got, test.want)
		}
		if _, lacking := whoCanClone(hosts, test.copies); !slices.Equal(lacking, test.lacking) {
			t.Errorf("%s: copies are made on %v, want %v", name, lacking, test.lacking)
		}
	}
	if why := whyNone(local); why != "each hypervisor that nodes go to has one" {
		t.Error(why)
	}
	if why := whyNone(shared); why != "the disk of VM 9001 hive-dev-1 on pve2 is on storage that all hypervisors share" {
		t.Error(why)
	}
}

func TestAwayErrorSaysWhatToDo(t *testing.T) {
	none := errors.New("there is no template dev")
	if err := awayError(nil, none); err != none {
		t.Errorf("with none away it is %v", err)
	}
	err := awayError([]deploy.Template{{
		VMRef: deploy.VMRef{VMID: 9001, Hypervisor: "pve1"}, Tags: []string{"hive-dev", deploy.TemplateTag},
	}}, none)
	if hint := progress.HintOf(err); !strings.Contains(err.Error(), "VM 9001 (dev) on pve1") ||
		!strings.Contains(hint, "start pve1") || !strings.Contains(hint, "template build dev --avoid-hypervisor pve1") {
		t.Errorf("%v; hint: %s", err, hint)
	}
}
