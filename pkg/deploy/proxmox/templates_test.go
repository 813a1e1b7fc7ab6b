package proxmox

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/wait"
)

// template makes a template with a description on a hypervisor's storage.
func (s *site) template(vmid int, hypervisor, storage string) {
	s.t.Helper()
	of := fmt.Sprintf("/nodes/%s/qemu", hypervisor)
	s.wait(s.must("POST", of, url.Values{
		"vmid": {fmt.Sprint(vmid)}, "name": {"hive-dev-1"}, "description": {"mine"}, "tags": {deploy.TemplateTag + ";hive-dev"},
		"virtio0": {storage + ":1"},
	}))
	s.wait(s.must("POST", fmt.Sprintf("%s/%d/template", of, vmid), nil))
}

// wait waits for the end of the task that an answer names.
func (s *site) wait(upid any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	for range (wait.Backoff{First: 5 * time.Millisecond, Max: 50 * time.Millisecond}).Tries(ctx) {
		task, _ := s.must("GET", "/nodes/"+strings.Split(fmt.Sprint(upid), ":")[1]+"/tasks/"+url.PathEscape(fmt.Sprint(upid))+"/status", nil).(map[string]any)
		if task["status"] == "stopped" {
			if task["exitstatus"] != "OK" {
				s.t.Fatalf("%v: %v", upid, task["exitstatus"])
			}
			return
		}
	}
	s.t.Fatalf("%v does not end", upid)
}

// Which templates are shared, which cannot be read for their hypervisor is offline, and that they are there again once it is back.
func TestTemplates(t *testing.T) {
	s := newSite(t)
	s.must("POST", "/storage", url.Values{
		"storage": {"nas"}, "type": {"nfs"}, "server": {"10.0.0.9"}, "export": {"/srv/vms"}, "content": {"images"},
	})
	for vmid, at := range map[int][2]string{9001: {"pve1", "local-lvm"}, 9002: {"pve2", "local-lvm"}, 9003: {"pve3", "nas"}} {
		s.template(vmid, at[0], at[1])
	}
	fleet := s.machine(t.TempDir(), api.IDRange{First: 9100, Last: 9199}).fleet
	see := func() []string {
		t.Helper()
		list, err := fleet.Templates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, one := range list {
			seen = append(seen, fmt.Sprintf("%d %s %q away=%v shared=%v %v", one.VMID, one.Hypervisor, one.Description, one.Away, one.Shared,
				slices.Contains(one.Tags, "hive-dev")))
		}
		return seen
	}
	want := []string{
		`9001 pve1 "mine" away=false shared=false true`, `9002 pve2 "mine" away=false shared=false true`,
		`9003 pve3 "mine" away=false shared=true true`,
	}
	if diff := cmp.Diff(want, see()); diff != "" {
		t.Errorf("all are there (-want +got):\n%s", diff)
	}
	if err := s.server.SetOnline("pve2", false); err != nil {
		t.Fatal(err)
	}
	away := slices.Clone(want)
	away[1] = `9002 pve2 "" away=true shared=false true`
	if diff := cmp.Diff(away, see()); diff != "" {
		t.Errorf("pve2 is away (-want +got):\n%s", diff)
	}
	if err := s.server.SetOnline("pve2", true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, see()); diff != "" {
		t.Errorf("pve2 is back (-want +got):\n%s", diff)
	}
}

// An image is told from another one of its name by what the storage of the first hypervisor lists.
func TestImageContent(t *testing.T) {
	s := newSite(t)
	fleet := s.machine(t.TempDir(), api.IDRange{First: 9100, Last: 9199}).fleet
	spec := cluster.Spec{
		OSImage: placement.DefaultImage, Hosts: placement.Hosts([]placement.Hypervisor{{Name: "pve2"}, {Name: "pve1"}}),
	}
	known := fleet.ImageContent(t.Context(), spec)
	if !regexp.MustCompile(`^size [1-9][0-9]*, date 20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$`).MatchString(known) {
		t.Errorf("the image is %q", known)
	}
	if again := fleet.ImageContent(t.Context(), spec); again != known {
		t.Errorf("it was %s, and is %s", known, again)
	}
	for name, change := range map[string]func(*cluster.Spec){
		"no such image":   func(s *cluster.Spec) { s.OSImage = "local:iso/none.img" },
		"no such storage": func(s *cluster.Spec) { s.OSImage = "none:iso/debian.img" },
		"no hypervisors":  func(s *cluster.Spec) { s.Hosts = placement.Hosts(nil) },
		"no volume":       func(s *cluster.Spec) { s.OSImage = "debian.img" },
	} {
		other := spec
		change(&other)
		if got := fleet.ImageContent(t.Context(), other); got != "" {
			t.Errorf("%s: the image is %q", name, got)
		}
	}
}
