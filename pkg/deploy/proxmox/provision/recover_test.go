package provision

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

const (
	recoverableState = `{"resources": [
	  {"mode": "managed", "type": "proxmox_virtual_environment_file", "instances": [
	    {"index_key": "ci-1", "attributes": {"node_name": "pve1", "datastore_id": "snips"}}]},
	  {"mode": "managed", "type": "proxmox_virtual_environment_vm", "instances": [
	    {"index_key": "ci-10", "attributes": {"name": "ci-10", "vm_id": 20009, "node_name": "pve2", "pool_id": "p", "description": "Managed by Terraform - cluster: ci - owner: o1", "disk": [{"datastore_id": "fast"}]}},
	    {"index_key": "ci-1", "attributes": {"name": "ci-1", "vm_id": 20000, "node_name": "pve1", "pool_id": "p", "description": "Managed by Terraform - cluster: ci - owner: o1", "disk": [{"datastore_id": "fast"}]}}]}]}`
	recoverableVariables = `{"endpoint": "https://pve:8006", "cluster_name": "ci", "owner_id": "o1", "pool_id": "p", "cloud_init": "snippet", "nodes": [
	  {"name": "ci-1", "index": 1, "vmid": 20000, "hypervisor": "pve1", "datastore_id": "fast", "snippet_store": "snips"},
	  {"name": "ci-10", "index": 2, "vmid": 20009, "hypervisor": "pve2", "datastore_id": "fast", "snippet_store": "snips"}]}`
	othersState = `{"resources": [{"mode": "managed", "type": "proxmox_virtual_environment_vm", "instances": [
	  {"attributes": {"name": "a", "vm_id": 1, "description": "Managed by Terraform - cluster: ci - owner: o1"}},
	  {"attributes": {"name": "b", "vm_id": 2, "description": "Managed by Terraform - cluster: ci - owner: o2"}}]}]}`
)

func TestRecoverTellsWhoseTheVMsAre(t *testing.T) {
	want := deploy.Recorded{
		Name: "ci", OwnerID: "o1", Pool: "p", CloudInit: cluster.CloudInitSnippet,
		Hypervisors: []placement.Hypervisor{{Name: "pve1", Datastore: "fast", SnippetStore: "snips"}, {
			Name: "pve2", Datastore: "fast",
		}},
		Nodes: cluster.Nodes{{Name: "ci-1", Index: 1, Placement: placement.VM{VMID: 20000, Hypervisor: "pve1"}.Document()}, {
			Name: "ci-10", Index: 2, Placement: placement.VM{VMID: 20009, Hypervisor: "pve2"}.Document(),
		}},
	}
	for _, tc := range []struct {
		name     string
		files    map[string]string
		endpoint string
		fails    string
	}{
		{"the variables", map[string]string{"terraform.tfvars.json": recoverableVariables, "terraform.tfstate": "{"}, "https://pve:8006", ""},
		{"the state", map[string]string{"terraform.tfvars.json": "{", "terraform.tfstate": recoverableState}, "", ""},
		{"the state before", map[string]string{"terraform.tfstate": "", "terraform.tfstate.backup": recoverableState}, "", ""},
		{"a state of nobody", map[string]string{"terraform.tfvars.json": "{}", "terraform.tfstate": "{}"}, "", "names no VM"},
		{"a state of two owners", map[string]string{"terraform.tfstate": othersState}, "", "does not say whose"},
		{"nothing", nil, "", "names no VM"},
	} {
		dir := t.TempDir()
		for name, content := range tc.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Recover(dir)
		if tc.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: got %+v, %v", tc.name, got, err)
			}
			continue
		}
		if err != nil || got.Endpoint != tc.endpoint {
			t.Errorf("%s: endpoint %q, %v", tc.name, got.Endpoint, err)
		}
		if tc.endpoint != "" {
			got.Hypervisors[1].SnippetStore = "" // the variables tell of it, the state of pve1 only
		}
		if diff := cmp.Diff(
			want, got, cmpopts.IgnoreFields(deploy.Recorded{}, "Endpoint"), cmpopts.EquateComparable(cluster.Node{}),
		); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}
