package provision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/opentofu"
)

// Recover reads from a cluster's directory whose VMs were made there and where, for the case that nothing else tells:
// from the variables, else from the state, else from the state before that. Its error says what is wrong with each.
func Recover(dir string) (deploy.Recorded, error) {
	state := opentofu.StatePath(dir)
	var faults []error
	for _, source := range []func() (deploy.Recorded, error){
		func() (deploy.Recorded, error) { return recoverVariables(opentofu.VariablesPath(dir)) },
		func() (deploy.Recorded, error) { return recoverState(state) },
		func() (deploy.Recorded, error) { return recoverState(state + ".backup") },
	} {
		r, err := source()
		if err == nil {
			return r, nil
		}
		faults = append(faults, err)
	}
	return deploy.Recorded{}, errors.Join(faults...)
}

func recoverVariables(path string) (deploy.Recorded, error) {
	v, err := readVariables(path)
	if err != nil {
		return deploy.Recorded{}, err
	}
	if v.ClusterName == "" || v.OwnerID == "" {
		return deploy.Recorded{}, fmt.Errorf("%s does not say whose VMs there are", path)
	}
	r := deploy.Recorded{
		Name: cluster.Name(v.ClusterName), OwnerID: v.OwnerID, Endpoint: v.Endpoint, Pool: v.PoolID,
		CloudInit: v.CloudInit,
	}
	for _, n := range v.Nodes {
		r.Nodes = append(r.Nodes, cluster.Node{
			Name: n.Name, Index: n.Index, Placement: placement.VM{
				VMID: n.VMID, Hypervisor: n.Hypervisor, ManagementMAC: n.ManagementMAC, DataMAC: n.DataMAC,
			}.Document(),
		})
		r.Hypervisors = withStores(r.Hypervisors, n.Hypervisor, n.DatastoreID, n.SnippetStore)
	}
	return r, nil
}

// withStores adds what is known of where a hypervisor's volumes are.
func withStores(list []placement.Hypervisor, name, datastore, snippets string) []placement.Hypervisor {
	i := slices.IndexFunc(list, func(h placement.Hypervisor) bool { return h.Name == name })
	if i < 0 {
		list, i = append(list, placement.Hypervisor{Name: name}), len(list)
	}
	list[i].Datastore = cmp.Or(list[i].Datastore, datastore)
	list[i].SnippetStore = cmp.Or(list[i].SnippetStore, snippets)
	return list
}

// attributes are what a state says of the module's resources.
type attributes struct {
	Name        string `json:"name"`
	VMID        int    `json:"vm_id"`
	NodeName    string `json:"node_name"`
	Description string `json:"description"`
	PoolID      string `json:"pool_id"`
	DatastoreID string `json:"datastore_id"`
	Disks       []struct {
		DatastoreID string `json:"datastore_id"`
	} `json:"disk"`
}

func recoverState(path string) (deploy.Recorded, error) {
	made, err := opentofu.ReadState(path)
	if err != nil {
		return deploy.Recorded{}, err
	}
	r := deploy.Recorded{CloudInit: cluster.CloudInitNone}
	for _, resource := range made {
		var a attributes
		if err := json.Unmarshal(resource.Attributes, &a); err != nil {
			return deploy.Recorded{}, fmt.Errorf("%s is damaged: %w", path, err)
		}
		switch resource.Type {
		case fileType:
			r.CloudInit = cluster.CloudInitSnippet
			r.Hypervisors = withStores(r.Hypervisors, a.NodeName, "", a.DatastoreID)
		case vmType:
			name, owner, ok := cluster.ParseOwner(a.Description)
			if !ok || r.OwnerID != "" && (name != r.Name || owner != r.OwnerID) {
				return deploy.Recorded{}, fmt.Errorf("%s does not say whose VMs there are", path)
			}
			r.Name, r.OwnerID, r.Pool = name, owner, a.PoolID
			r.Nodes = append(r.Nodes, cluster.Node{
				Name: a.Name, Placement: placement.VM{VMID: a.VMID, Hypervisor: a.NodeName}.Document(),
			})
			datastore := ""
			if len(a.Disks) > 0 {
				datastore = a.Disks[0].DatastoreID
			}
			r.Hypervisors = withStores(r.Hypervisors, a.NodeName, datastore, "")
		}
	}
	if len(r.Nodes) == 0 {
		return deploy.Recorded{}, fmt.Errorf("%s names no VM", filepath.Clean(path))
	}
	for i, name := range deploy.SortNodes(r.Nodes.Names()) {
		at := slices.IndexFunc(r.Nodes, func(n cluster.Node) bool { return n.Name == name })
		r.Nodes[i], r.Nodes[at] = r.Nodes[at], r.Nodes[i]
		r.Nodes[i].Index = i + 1
	}
	return r, nil
}
