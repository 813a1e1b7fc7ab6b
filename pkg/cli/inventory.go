package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/remote"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

func (a *app) inventoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inventory NAME",
		Short: "the nodes of a cluster as JSON, Ansible inventory, ssh_config, hosts file or variables for Terraform",
		Example: `  hive-test inventory dev1
  hive-test inventory dev1 --format ansible > hosts.ini
  hive-test inventory dev1 --format terraform > hive.auto.tfvars.json`,
		Args: named(1),
	}
	load := a.settings(cmd)
	format := cmd.Flags().String("format", "json", "`form`: "+strings.Join(inventoryForms(), ", ")+
		" (hosts is for up --hosts-file, terraform has values of variables)")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		form, err := printedForm(cmd.Flags().Changed("format"), *format, settings)
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			located, err := e.Locate(ctx, "inventory", a.request(args[0], settings))
			if err != nil {
				return err
			}
			return a.inventory(located, form)
		})
	})
	return cmd
}

// inventoryForms are the forms that help names. ssh_config, as ssh-config was called first, is taken, too.
func inventoryForms() []string {
	return []string{"json", "yaml", "ansible", "ssh-config", "hosts", "terraform"}
}

func (a *app) inventory(located engine.Located, format string) error {
	inv := located.Inventory
	switch format {
	case "json":
		return printJSON(a.Stdout, inv)
	case "yaml":
		return printYAML(a.Stdout, inv)
	case "ansible":
		_, err := fmt.Fprint(a.Stdout, ansible(inv, located.SSHConfig))
		return err
	case "ssh-config", "ssh_config":
		_, err := a.Stdout.Write(remote.SSHConfig(inv, located.KnownHosts))
		return err
	case "hosts":
		raw, err := yaml.Marshal(hostsDocument(inv))
		if err != nil {
			return err
		}
		_, err = a.Stdout.Write(raw)
		return err
	case "terraform":
		return printJSON(a.Stdout, terraformVariables(inv, located.SSHConfig))
	}
	return usage(fmt.Errorf("--format %s is not possible: use %s", format, strings.Join(inventoryForms(), ", ")))
}

// ansible renders an INI inventory with one group, named after the cluster, and its leader in another. How nodes are
// reached is in the cluster's ssh_config, which takes any path: Ansible hands ansible_ssh_private_key_file to ssh where
// % begins a token. Nodes without an address are left out, as they are there.
func ansible(inv cluster.Inventory, sshConfig string) string {
	var out strings.Builder
	group := strings.ReplaceAll(inv.ClusterName.String(), "-", "_") // a hyphen is no part of a group's name there
	fmt.Fprintf(&out, "[%s]\n", group)
	for _, node := range inv.Nodes {
		if !node.Management.IsValid() {
			continue
		}
		fmt.Fprintf(&out, "%s ansible_host=%s ansible_port=%d", node.Name, node.Management, sshPort(node))
		if node.Data.IsValid() {
			fmt.Fprintf(&out, " hive_data_address=%s", node.Data)
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "\n[%s_leader]\n", group)
	if leader := inv.Nodes.Leader(); leader.Management.IsValid() {
		out.WriteString(leader.Name + "\n")
	}
	fmt.Fprintf(
		&out, "\n[%s:vars]\nansible_user=%s\nansible_ssh_common_args=%s\n", group, strconv.Quote(inv.SSHUser),
		strconv.Quote("-F "+remote.Quote(sshConfig)),
	)
	if !strings.ContainsAny(inv.SSHKeyPath, "\"\n") {
		fmt.Fprintf(
			&out, "ansible_ssh_private_key_file=%s\n", strconv.Quote(strings.ReplaceAll(inv.SSHKeyPath, "%", "%%")),
		)
	}
	return out.String()
}

func sshPort(node cluster.Node) int {
	if node.SSHPort == 0 {
		return 22
	}
	return node.SSHPort
}

// hostsDocument is the inventory in the shape of a hosts file, of the nodes that have an address.
func hostsDocument(inv cluster.Inventory) config.HostsFile {
	file := config.HostsFile{
		SSHUser: inv.SSHUser, SSHKeyPath: inv.SSHKeyPath, SSHPort: sshPort(inv.Nodes.Leader()),
		ProxyJump: inv.ProxyJump.String(), Nodes: []config.HostLine{},
	}
	for _, node := range inv.Nodes {
		if !node.Management.IsValid() {
			continue
		}
		host := config.HostLine{Name: node.Name, Management: node.Management.String()}
		if node.Data.IsValid() {
			host.Data = node.Data.String()
		}
		file.Nodes = append(file.Nodes, host)
	}
	return file
}

// terraformJSON is the shape of `inventory --format terraform`: values of variables, as a file *.auto.tfvars.json
// gives them.
type terraformJSON struct {
	Cluster    string `json:"hive_cluster"`
	Endpoint   string `json:"hive_endpoint"` // of node 1's gateway; empty: not known yet
	SSHUser    string `json:"hive_ssh_user"`
	SSHKeyPath string `json:"hive_ssh_key_path"`
	SSHConfig  string `json:"hive_ssh_config"` // the file that says how nodes are reached
	// Nodes are those that have an address, by name.
	Nodes map[string]terraformNode `json:"hive_nodes"`
}

// terraformNode has every field of every node: they are objects of one type.
type terraformNode struct {
	Index      int    `json:"index"`
	Management string `json:"management"`
	Data       string `json:"data"` // empty: not known
	SSHPort    int    `json:"ssh_port"`
}

func terraformVariables(inv cluster.Inventory, sshConfig string) terraformJSON {
	out := terraformJSON{
		Cluster: inv.ClusterName.String(), Endpoint: inv.Endpoints["hive"], SSHUser: inv.SSHUser,
		SSHKeyPath: inv.SSHKeyPath, SSHConfig: sshConfig, Nodes: map[string]terraformNode{},
	}
	for _, node := range inv.Nodes {
		if !node.Management.IsValid() {
			continue
		}
		entry := terraformNode{Index: node.Index, Management: node.Management.String(), SSHPort: sshPort(node)}
		if node.Data.IsValid() {
			entry.Data = node.Data.String()
		}
		out.Nodes[node.Name] = entry
	}
	return out
}
