package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// contradictions refuses flags of which one would not be used, whatever the cluster.
func (s *session) contradictions() error {
	given := s.Settings
	switch {
	case given.HostsFile != "" && given.Sim && given.Explicit("sim"):
		return usage(progress.WithHint(
			errors.New("--sim makes VMs on a simulator, and a cluster of a hosts file has none"), "leave one of both out",
		))
	case (given.TemplateID() != 0 || given.TemplateName() != "") && given.Explicit("template") && given.Explicit("os_image"):
		return usage(progress.WithHint(
			errors.New("nodes are made of an image or are clones of a template, and not both"),
			"leave --os-image or --template out",
		))
	}
	return nil
}

// value is a setting as a cluster has it, and as it is asked for.
type value struct{ made, asked any }

// kept returns, by key, the settings that no cluster can be changed in.
func (s *session) kept() map[string]value {
	made, asked, given := s.Record.Spec, s.Settings.Spec(), s.Settings
	if asked.Clone == cluster.CloneAuto { // whatever it came to
		asked.Clone = made.Clone
	}
	or := func(standard, made, asked string) value {
		return value{cmp.Or(made, standard), cmp.Or(asked, standard)}
	}
	port := given.NodeSSHPort
	if len(s.Record.Nodes) > 0 {
		port = cmp.Or(s.Record.Nodes[0].SSHPort, port)
	}
	return map[string]value{
		"template":               {templateAsked(made), templateAsked(asked)},
		"cloud_init":             or(cluster.CloudInitSnippet, made.CloudInit, asked.CloudInit),
		"network.addresses":      {made.Network.Addresses, asked.Network.Addresses},
		"network.data_addresses": {made.Network.DataAddresses, asked.Network.DataAddresses},
		"network.gateway":        {made.Network.Gateway, asked.Network.Gateway},
		"management_bridge":      {made.ManagementBridge, asked.ManagementBridge},
		"data_bridge":            {made.DataBridge, asked.DataBridge},
		"management_vlan":        {made.ManagementVLAN, asked.ManagementVLAN},
		"data_vlan":              {made.DataVLAN, asked.DataVLAN},
		"management_model":       or(cluster.DefaultNICModel, made.ManagementModel, asked.ManagementModel),
		"data_model":             or(cluster.DefaultNICModel, made.DataModel, asked.DataModel),
		"cpu_type":               or(cluster.DefaultCPUType, made.CPUType, asked.CPUType),
		"clone":                  or(cluster.CloneFull, made.Clone, asked.Clone),
		"ssh_user":               {made.SSHUser, asked.SSHUser},
		"ssh_private_key_path":   {s.Record.SSHKeyPath, config.Absolute(given.SSHPrivateKeyPath)},
		"ssh_public_key_path":    {s.Record.PublicKeyPath(), config.Absolute(given.SSHPublicKeyPath)},
		"node_ssh_port":          {port, given.NodeSSHPort},
		"deployer":               {made.Deployer, asked.Deployer},
		"proxmox.pool":           {placement.TargetOf(s.Record.Target).Pool, given.Proxmox.Pool},
		"proxmox.hypervisors":    {hypervisors(placement.Hypervisors(made)), hypervisors(given.Proxmox.Hypervisors)},
	}
}

// templateAsked is the template of a specification as it was asked for; empty: none was.
func templateAsked(s cluster.Spec) string {
	if s.TemplateName == "" && s.Template != 0 {
		return strconv.Itoa(s.Template)
	}
	return s.TemplateName
}

// hypervisors are those that VMs may land on, in words that differ where they do.
func hypervisors(list []placement.Hypervisor) string {
	var words []string
	for _, h := range list {
		h = h.WithDefaults()
		text := fmt.Sprintf(
			"%s (%s, port %d, %s, %s", h.Name, cmp.Or(h.Address, "no address"), h.Port, h.Datastore, h.SnippetStore,
		)
		if h.TemplateVMID != 0 {
			text += fmt.Sprintf(", template %d", h.TemplateVMID)
		}
		words = append(words, text+")")
	}
	return strings.Join(words, ", ")
}

// word is a value of a setting for people.
func word(v any) string {
	if v == "" || v == 0 {
		return "none"
	}
	return fmt.Sprint(v)
}

// explicit returns the rows of what was set for this run alone.
func (s *session) explicit() []config.Setting {
	return slices.DeleteFunc(config.Table(), func(row config.Setting) bool { return !s.Settings.Explicit(row.Key) })
}

// sameAsAsked refuses an up that asks, by flags, for what no cluster can be changed to. What a file or the environment
// asks for is for other clusters, too: of what this one is made of otherwise is told.
func (s *session) sameAsAsked(ctx context.Context) error {
	if err := s.meaningless(s.Record.Target.Simulated); err != nil {
		return err
	}
	var differences []string
	kept := s.kept()
	for _, row := range config.Table() {
		v, known := kept[row.Key]
		if !known || !s.Settings.Given(row.Key) || v.made == v.asked {
			continue
		}
		switch {
		case s.Settings.Explicit(row.Key):
			text := fmt.Sprintf("%s is %s, asked for %s", row.Flag, word(v.made), word(v.asked))
			differences = append(differences, text)
		case row.Existing == config.Fixed && s.Makes():
			progress.Warn(s.Sink, fmt.Sprintf(
				"cluster %s was made with %s %s, and keeps it: %s asks for %s",
				s.Name, row.Flag, word(v.made), s.Settings.Source(row.Key), word(v.asked),
			), "")
		}
	}
	hosts, err := s.otherHosts(ctx)
	if err != nil {
		return err
	}
	if differences = append(differences, hosts...); len(differences) == 0 {
		return s.CheckEndpoint()
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %q already exists with different settings: %s", s.Name, strings.Join(differences, "; ")),
		fmt.Sprintf("`hive-test down %s` first, or take another name", s.Name)))
}

// otherHosts returns what a hosts file that is named says otherwise than the cluster was made.
func (s *session) otherHosts(ctx context.Context) ([]string, error) {
	switch {
	case s.Settings.HostsFile == "":
		return nil, nil
	case !s.Makes():
		return s.compareHosts(ctx)
	case s.Settings.Explicit("hosts_file"):
		return []string{"it was not made of existing hosts"}, nil
	}
	return nil, nil
}

// meaningless refuses what was set for this run alone and means nothing for such a cluster: of hosts that are there, on
// a simulator, or elsewhere.
func (s *session) meaningless(simulated bool) error {
	var words []string
	ofHosts := s.ofHosts()
	for _, row := range s.explicit() {
		switch {
		case row.Flag == "":
		case !s.Makes() && row.OfVMs() && !ofHosts[row.Key] && row.Key != "sim", // of which load tells
			simulated && row.OfOwnProxmox() && !s.place(row.Key),
			!simulated && row.Key == "sim_hosts":
			words = append(words, "--"+row.Flag)
		}
	}
	if len(words) == 0 {
		return nil
	}
	what, hint := "not simulated", "leave it out"
	if !s.Makes() {
		what = "made of hosts that are there"
	} else if simulated {
		what = "simulated"
	}
	if len(words) > 1 {
		hint = "leave them out"
	}
	return usage(progress.WithHint(
		fmt.Errorf("%s would not be used: cluster %q is %s", strings.Join(words, ", "), s.Name, what), hint,
	))
}

// place reports whether a setting says where the cluster is that exists, as it may: another place is refused as such.
func (s *session) place(key string) bool {
	exists := len(s.Record.Phases) > 0
	return exists && (key == "proxmox.endpoint" || key == "proxmox.hypervisors")
}

// ofHosts are, by key, the settings of VMs that hosts have, too, where nothing else is asked for than they have.
func (s *session) ofHosts() map[string]bool {
	same := map[string]bool{}
	kept := s.kept()
	for key, v := range map[string]value{
		"node_count": {s.Record.Spec.NodeCount, s.Settings.NodeCount},
		"ssh_user":   kept["ssh_user"], "ssh_private_key_path": kept["ssh_private_key_path"],
		"ssh_public_key_path": kept["ssh_public_key_path"], "node_ssh_port": kept["node_ssh_port"],
	} {
		same[key] = v.made == v.asked
	}
	return same
}

// unusedImage refuses an image that was set for this run alone where all nodes are clones.
func (s *session) unusedImage() error {
	spec := s.Record.Spec
	list := placement.Hypervisors(spec)
	made := func(h placement.Hypervisor) bool { return placement.TemplateOf(spec, h.Name) == 0 }
	if !s.Makes() || s.template.asItIs() || !s.Settings.Explicit("os_image") || len(list) == 0 || slices.ContainsFunc(list, made) {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf("--os-image would not be used: the nodes of cluster %q are clones of a template", s.Name),
		"leave it out; a new cluster is made of it with --template 0, and hypervisors without template_vmid",
	))
}

// unusedByChange refuses what was set for this run alone and is for nodes that this run makes, where it makes none.
func (s *session) unusedByChange() error {
	if !s.Makes() {
		return nil
	}
	if err := s.unusedImage(); err != nil {
		return err
	}
	if s.Record.Spec.NodeCount > len(s.Record.Nodes) {
		return nil
	}
	var words []string
	for _, row := range s.explicit() {
		if row.Existing == config.NewNodes && !s.hasIDs(row.Key) {
			words = append(words, "--"+row.Flag)
		}
	}
	if len(words) == 0 {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf(
			"%s would not be used: the nodes of cluster %q have their ids, and no node is made",
			strings.Join(words, ", "), s.Name,
		),
		fmt.Sprintf("leave it out, or add nodes with --node-count, or `hive-test down %s` first", s.Name),
	))
}

// hasIDs reports whether the nodes have the ids that a setting asks for.
func (s *session) hasIDs(key string) bool {
	if key == "proxmox.vmid_base" {
		return s.Settings.Proxmox.VMIDBase == 0 || placement.Of(s.Record.Nodes[0]).VMID == s.Settings.Proxmox.VMIDBase
	}
	var first, last int
	_, _ = fmt.Sscanf(s.Settings.Proxmox.VMIDRange, "%d-%d", &first, &last) // its form was checked
	return !slices.ContainsFunc(s.Record.Nodes, func(n cluster.Node) bool {
		id := placement.Of(n).VMID
		return id < first || id > last
	})
}
