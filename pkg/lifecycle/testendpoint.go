package lifecycle

import (
	"context"

	"hive-test/pkg/cluster"
	"hive-test/pkg/phase"
	"hive-test/pkg/suite"
)

// TestEndpoint is the phase that runs suites which need no cluster, by what options say of them besides the suites.
func TestEndpoint(asked Suites, o suite.Options) phase.Phase { return endpointTest{asked, o} }

type endpointTest struct {
	asked   Suites
	options suite.Options
}

// Name is the phase's name.
func (endpointTest) Name() string { return string(cluster.PhaseTest) }

// Run runs every suite, also after one has failed.
func (t endpointTest) Run(ctx context.Context) error {
	o := t.options
	o.Suites, o.Run, o.Skip, o.Quarantine = t.asked.Specs, t.asked.Run, t.asked.Skip, t.asked.Quarantine
	o.AllowFlaky, o.RequireAll = t.asked.AllowFlaky, t.asked.RequireAll
	results, err := suite.Run(ctx, o)
	if err != nil {
		return err
	}
	return verdict(results, t.asked)
}
