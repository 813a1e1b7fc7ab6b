package lifecycle

import (
	"maps"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/remote"
)

// Environment is what `env NAME`, env.sh and every suite get to know of a cluster. It holds no secrets.
func Environment(r *cluster.Record, store Store) map[string]string {
	var addresses, names []string
	for _, node := range r.Nodes {
		names = append(names, node.Name)
		if node.Management.IsValid() {
			addresses = append(addresses, node.Management.String())
		}
	}
	return map[string]string{
		"HIVE_CLUSTER":         r.Name.String(),
		"HIVE_ENDPOINT":        r.Inventory().Endpoints["hive"],
		"HIVE_NODES":           strings.Join(addresses, ","),
		"HIVE_NODE_NAMES":      strings.Join(names, ","),
		"HIVE_SSH_USER":        r.Spec.SSHUser,
		"HIVE_SSH_KEY":         r.SSHKeyPath,
		"HIVE_SSH_CONFIG":      store.Path(r.Name, sshConfigFile),
		"HIVE_SSH_KNOWN_HOSTS": store.Path(r.Name, knownHostsFile),
		"HIVE_INVENTORY":       store.Path(r.Name, "inventory.json"),
	}
}

// Exports renders variables as shell exports in name order.
func Exports(variables map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		text.WriteString("export " + name + "=" + remote.Quote(variables[name]) + "\n")
	}
	return text.String()
}
