package engine

import (
	"context"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/remote"
)

// Located is a cluster with its nodes where they are now.
type Located struct {
	Inventory  cluster.Inventory
	KnownHosts string // path
	SSHConfig  string // path
	// Environment is what programs need to use the cluster.
	Environment remote.Environment
	// Keyless says that AWS clients find no keys there: hive is not formed yet.
	Keyless bool
}

// Locate reads a cluster: what DHCP has moved is told and written down. Where its hypervisors cannot be asked, or take
// their time, the record stands. Verb is what events name it.
func (e *Engine) Locate(ctx context.Context, verb string, request Request) (Located, error) {
	s, err := e.recorded(ctx, verb, request)
	if err != nil {
		return Located{}, err
	}
	defer s.close()
	if s.connect(ctx) == nil {
		if deployer, err := s.Deployer(); err == nil {
			lifecycle.Follow(ctx, s.looking(deployer), lifecycle.FollowTime)
		} else {
			s.warnOfToken()
		}
	}
	vars := lifecycle.Environment(s.Record, s.Store)
	return Located{
		Inventory: s.Record.Inventory(), KnownHosts: s.Store.Path(s.Name, "known_hosts"),
		SSHConfig:   s.Store.Path(s.Name, "ssh_config"),
		Environment: remote.Environment{Set: vars, Unset: lifecycle.ForeignVariables(vars)},
		Keyless:     s.Record.AWS == nil,
	}, nil
}
