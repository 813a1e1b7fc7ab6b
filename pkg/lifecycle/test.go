package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"hive-test/pkg/cluster"
	"hive-test/pkg/hive"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/suite"
)

// ErrNotConfigured means that test was asked of a cluster that has not been configured.
var ErrNotConfigured = errors.New("the cluster is not configured")

// ErrTestsFailed means that at least one case failed, or that none ran.
var ErrTestsFailed = progress.WithCode(errors.New("tests failed"), "tests-failed")

// test runs the suites and keeps their results.
type test struct{ *Job }

// Test is the phase that runs suites.
func Test(r *Job) phase.Phase { return collectOnFailure{Phase: test{r}, run: r} }

// Name is the phase's name.
func (t test) Name() string { return string(cluster.PhaseTest) }

// Run runs every suite, also after one has failed.
func (t test) Run(ctx context.Context) error {
	if _, begun := t.Record.Phases[cluster.PhaseConfigure]; !begun { // nobody is asked
		return progress.WithHint(ErrNotConfigured, t.ConfigureCommand())
	}
	why := t.unconfigured()
	if err := t.locate(ctx); err != nil {
		return err
	}
	if why != nil {
		return t.notTested(why)
	}
	return t.recorded(ctx, cluster.PhaseTest, "", t.suites)
}

// notTested is why no suite runs on a cluster whose last configure has not come to its end. What is to be mended before
// configuring is told first.
func (t test) notTested(why error) error {
	for _, node := range t.Record.Nodes {
		if command := t.MendingCommand(t.unreached[node.Name]); command != "" {
			err := progress.WithNodes(fmt.Errorf("%w; %w", why, t.unreached[node.Name]), node.Name)
			return progress.WithHint(err, command)
		}
	}
	return progress.WithHint(why, t.ConfigureCommand())
}

func (t test) suites(ctx context.Context) error {
	sink := t.sink(cluster.PhaseTest)
	watched := t.watchMachines(ctx, reachPatience)
	defer watched.Stop()
	handle, err := t.hiveWithin(sink, watched.Monitor)
	if err != nil {
		return err
	}
	var learning sync.WaitGroup
	learning.Go(func() { handle.LearnSecrets(ctx) }) // suites may print them
	access, err := handle.Credentials(ctx)
	learning.Wait()
	watched.Stop() // the loss monitor has its own
	if err != nil {
		return fmt.Errorf("reading the cluster's credentials: %w", err)
	}
	if err := t.keepAccess(ctx, access); err != nil {
		return fmt.Errorf("keeping the cluster's credentials: %w", err)
	}
	// A run that is stopped half-way leaves no results that could be taken for whole, and none of an earlier run for
	// its own.
	if err := t.Evidence.DropResults(); err != nil {
		return fmt.Errorf("forgetting the last results: %w", err)
	}
	credentials := suite.Credentials{
		AccessKey: access.AccessKeyID, SecretKey: access.SecretAccessKey, Region: access.Region,
		CAPEM: string(access.CA), Profile: access.Profile,
	}
	results, err := t.withResets(ctx, sink, func(s *resets) (results suite.Results, err error) {
		err = t.watchNodes(ctx, sink, handle, func(ctx context.Context, l *lossMonitor) (err error) {
			results, err = suite.Run(ctx, suite.Options{
				Fault: l.fault,
				On:    l.host, Reset: l.resetWith(s), Inherit: t.Environ, Lacks: l.lacks,
				Suites: t.Suites.Specs, Run: t.Suites.Run, Skip: t.Suites.Skip, Quarantine: t.Suites.Quarantine,
				AllowFlaky: t.Suites.AllowFlaky, RequireAll: t.Suites.RequireAll,
				Nodes: t.Record.Nodes, Now: l.where, ArtifactsDir: t.Evidence.Path("suites"),
				Health:      func(ctx context.Context) []suite.NodeHealth { return healthFacts(l.check(ctx)) },
				Credentials: credentials,
				Builtins: t.Suites.builtins(Access{
					URL:         suite.URL(t.Record.Nodes.Leader().Management, suite.GatewayPort),
					Credentials: credentials, Dial: t.remote.DialContext,
				}),
				PrivateDir: t.Store.Path(t.Record.Name, suiteDir),
				SuiteEnv:   t.SuiteEnv, KillLeftovers: t.KillLeftovers,
				Secrets: t.Secrets.Values(), Sink: sink, Dial: t.remote.DialContext,
				RequestTimeout: max(suite.DefaultRequestTimeout, t.Hive.ProbeTimeout),
			})
			return err
		})
		return results, err
	})
	t.healFaults(ctx, sink)
	if ctx.Err() == nil {
		if keepErr := t.Evidence.KeepResults(t.Evidence.Path("suites")); keepErr != nil {
			err = errors.Join(err, fmt.Errorf("keeping the results: %w", keepErr))
		}
	}
	if err != nil {
		return err
	}
	return verdict(results, t.Suites)
}

// healthFacts tells the smoke suite which of its two facts holds for each node, why not, and which nodes need not be
// asked at all.
func healthFacts(health hive.Health) []suite.NodeHealth {
	facts := make([]suite.NodeHealth, len(health.Nodes))
	for i, node := range health.Nodes {
		facts[i].Node, facts[i].Unreachable = node.Name, node.Unreachable()
		if node.Code != http.StatusOK || node.Status != "running" || node.Self != node.Name {
			facts[i].Health = errors.New(node.Error)
		} else if problem := node.OwnProblem(); problem != "" { // such as a service that is dead
			facts[i].Health = errors.New(problem)
		}
		switch want := len(health.Nodes) - 1; node.Peers {
		case want:
		case hive.PeersUnknown:
			facts[i].Peers = errors.New("its peers are not known: " + node.Error)
		default:
			facts[i].Peers = fmt.Errorf("it sees %d of %s", node.Peers, progress.Count(want, "peer"))
		}
	}
	return facts
}

// verdict is nil only if at least one case ran, or was skipped for what the cluster lacks, and none failed, or is flaky.
func verdict(results suite.Results, asked Suites) error {
	all, failed := 0, 0
	first, flaky := "", ""
	for _, s := range results.Suites {
		for _, c := range s.Cases {
			all++
			name := progress.CaseName(s.Name, "", c.Name)
			if c.Failed() {
				failed++
				first = cmp.Or(first, name)
			}
			if c.Status == progress.Flaky {
				flaky = cmp.Or(flaky, name)
			}
		}
	}
	switch {
	case all == 0 && asked.Run+asked.Skip != "":
		return progress.WithHint(
			fmt.Errorf("%w: no case is chosen by %s", ErrTestsFailed, asked.choice()), "without it, test runs and names them all")
	case all == 0:
		return fmt.Errorf("%w: no test ran", ErrTestsFailed)
	case failed > 0:
		return fmt.Errorf("%w: %d of %d, first %s", ErrTestsFailed, failed, all, first)
	case flaky != "" && !asked.AllowFlaky:
		return progress.WithHint(
			fmt.Errorf("%w: %s flaky, first %s", ErrTestsFailed, progress.Count(results.Flaky(), "case"), flaky),
			"--allow-flaky lets them pass; what is known to fail goes into quarantine in hive-test.yaml, with the reason")
	case results.Failed():
		return ErrTestsFailed
	}
	return nil
}
