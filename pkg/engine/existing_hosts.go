package engine

import (
	"context"
	"fmt"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// createExisting takes the nodes of a hosts file.
func (s *session) createExisting(ctx context.Context) error {
	hosts, err := config.LoadHosts(ctx, s.Settings.HostsFile, s.Settings.SSH.Config)
	if err != nil {
		return err
	}
	s.Record.Spec = cluster.Spec{
		Deployer: deploy.Existing, NodeCount: len(hosts.Nodes), SSHUser: hosts.SSHUser,
	}
	s.Record.Nodes, s.Record.SSHKeyPath = hosts.Nodes, config.Absolute(hosts.SSHKeyPath)
	s.Record.ProxyJump, s.Record.SSHAgent = hosts.ProxyJump, hosts.SSHAgent
	s.Record.HostsFile = &cluster.HostsFile{Path: config.Absolute(s.Settings.HostsFile), Hash: hosts.Hash}
	s.jumpAsAsked()
	return s.CheckHosts()
}

// compareHosts reads the hosts file again and returns what it says otherwise than when the cluster was made; where that
// is nothing, the record takes the file for its own.
func (s *session) compareHosts(ctx context.Context) ([]string, error) {
	if hash, err := config.HashHosts(s.Settings.HostsFile); err == nil && s.Record.HostsFile != nil &&
		s.Record.HostsFile.Hash == hash {
		return nil, nil // whatever its names stand for now
	}
	hosts, err := config.LoadHosts(ctx, s.Settings.HostsFile, s.Settings.SSH.Config)
	if err != nil {
		return nil, err
	}
	differences := hostDifferences(s.Record, hosts, s.Settings.Given("ssh.proxy_jump"))
	if len(differences) == 0 {
		s.Record.HostsFile = &cluster.HostsFile{Path: config.Absolute(s.Settings.HostsFile), Hash: hosts.Hash}
	}
	return differences, nil
}

// hostDifferences are in words. jumpGiven says that the jump hosts were named elsewhere, so that the file's do not
// count.
func hostDifferences(r *cluster.Record, hosts config.Hosts, jumpGiven bool) []string {
	var differences []string
	differs := func(what string, made, says any) {
		if made, says := fmt.Sprint(made), fmt.Sprint(says); made != says {
			differences = append(differences, fmt.Sprintf("%s is %s, and the hosts file says %s", what, made, says))
		}
	}
	differs("the number of nodes", len(r.Nodes), len(hosts.Nodes))
	for i := range min(len(r.Nodes), len(hosts.Nodes)) {
		made, says := r.Nodes[i], hosts.Nodes[i]
		differs(fmt.Sprintf("node %d", i+1), made.Name, says.Name)
		differs("management of "+made.Name, made.Management, says.Management)
		differs("data of "+made.Name, made.Data, says.Data)
		if says.SSHPort != 0 {
			differs("the SSH port of "+made.Name, made.SSHPort, says.SSHPort)
		}
	}
	differs("the SSH user", r.Spec.SSHUser, hosts.SSHUser)
	differs("the SSH key", r.SSHKeyPath, config.Absolute(hosts.SSHKeyPath))
	differs("the SSH agent", r.SSHAgent, hosts.SSHAgent)
	if !jumpGiven {
		differs("the way by jump hosts", r.ProxyJump, hosts.ProxyJump)
	}
	return differences
}

// hostsChanged says once that the hosts file is another than it was when the cluster was made of it. One that is not
// there any more, as on another machine, is missed by nobody.
func (s *session) hostsChanged() {
	made := s.Record.HostsFile
	if made == nil || s.lock != nil || s.Settings.HostsFile != "" || s.verb == string(cluster.PhaseDown) {
		return
	}
	if hash, err := config.HashHosts(made.Path); err != nil || hash == made.Hash {
		return
	}
	progress.Warn(
		s.Sink, fmt.Sprintf("%s was changed since up: cluster %s is still as it was", made.Path, s.Name),
		fmt.Sprintf("hive-test up %s --hosts-file %s says what differs", s.Name, remote.Quote(made.Path)),
	)
}
