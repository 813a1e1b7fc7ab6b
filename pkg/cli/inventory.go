package cli

import (
	"context"
	"errors"
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
		Short: "the nodes of a cluster as JSON, Ansible inventory, ssh_config or hosts file",
		Example: `  hive-test inventory dev1
  hive-test inventory dev1 --format ansible > hosts.ini`,
		Args: named(1),
	}
	load := a.settings(cmd)
	format := cmd.Flags().String(
		"format", "json", "`form`: "+strings.Join(inventoryForms(), ", ")+" (for up --hosts-file)",
	)
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		form, err := inventoryForm(cmd.Flags().Changed("format"), *format, settings)
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

// inventoryForm is the form that --format names or, where that is not given, -o does.
func inventoryForm(given bool, format string, settings config.Settings) (string, error) {
	asked := settings.Explicit("output")
	switch document := settings.Output == "json" || settings.Output == "yaml"; {
	case given && asked:
		return "", usage(errors.New("--format and -o both say what to print: use one of them"))
	case given:
	case document:
		return settings.Output, nil
	case asked:
		return "", usage(fmt.Errorf("-o %s is not possible here: use json, yaml or --format", settings.Output))
	}
	return format, nil
}

func inventoryForms() []string { return []string{"json", "yaml", "ansible", "ssh_config", "hosts"} }

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
	case "ssh_config":
		_, err := a.Stdout.Write(remote.SSHConfig(inv, located.KnownHosts))
		return err
	case "hosts":
		raw, err := yaml.Marshal(hostsDocument(inv))
		if err != nil {
			return err
		}
		_, err = a.Stdout.Write(raw)
		return err
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
func hostsDocument(inv cluster.Inventory) map[string]any {
	nodes := make([]map[string]string, 0, len(inv.Nodes))
	for _, node := range inv.Nodes {
		if !node.Management.IsValid() {
			continue
		}
		host := map[string]string{"name": node.Name, "management": node.Management.String()}
		if node.Data.IsValid() {
			host["data"] = node.Data.String()
		}
		nodes = append(nodes, host)
	}
	document := map[string]any{
		"ssh_user": inv.SSHUser, "ssh_key_path": inv.SSHKeyPath, "ssh_port": sshPort(inv.Nodes.Leader()),
		"nodes": nodes,
	}
	if len(inv.ProxyJump) > 0 {
		document["proxy_jump"] = inv.ProxyJump.String()
	}
	return document
}
