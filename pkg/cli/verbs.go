package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/provision/tofu"
)

func configureKeys() []string {
	return []string{"binary", "tarball", "source_dir", "repo", "ref", "build", "scripts_dir", "hive.layout", "hive.init_flags", "hive.join_flags", "packages", "health_timeout", "hive.probe_timeout", "timeouts.configure"}
}

func testKeys() []string {
	return []string{"suite", "suite_on", "suite_env", "kill_leftovers", "junit", "lost_after", "timeouts.test"}
}

// existingKeys are the settings of a verb that works on a cluster that exists, and may have to destroy it when interrupted.
func existingKeys() []string {
	return []string{"keep", "wait", "timeouts.down", "tofu_bin", "parallelism", "lock_dir", "ssh.proxy_jump"}
}

func (a *app) configureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "configure NAME",
		Short: "install hive on every node, form the cluster, and wait until every node is healthy",
		Long: `configure installs hive on every node, forms the cluster, and waits until every node is healthy.

Its steps are cloud-init, os (only with --cloud-init none or --packages), install, stop, init, join, start and health. What was done with
the same program on the same machines is not done again: a second configure goes on where the first was stopped.

cloud-init, os and install are done on each node by itself; --only-nodes does them on some. init, join and health are of the
whole cluster always. stop and start are for the nodes on which something changed, or that --only-nodes names; where the cluster
is still to be formed, for all.`,
		Example: `  hive-test configure dev1 --binary ../hive/bin/hive
  hive-test configure dev1 --repo https://github.com/mulgadc/hive.git --ref main
  hive-test configure dev1 --source-dir ../hive
  hive-test configure dev1 --source-dir ../hive --build each
  hive-test configure dev1 --packages awscli,jq,netcat-openbsd
  hive-test configure dev1 --from install --only-nodes 2
  hive-test configure dev1 --force`,
		Args: named(1),
	}
	load := a.settings(cmd, append(configureKeys(), existingKeys()...)...)
	force := cmd.Flags().Bool("force", false, "form the cluster again, with its services stopped first")
	from := cmd.Flags().String("from", "", "begin with this step: "+strings.Join(hive.StepNames(), "|"))
	which := nodesFlag(cmd, "only-nodes", "do what is done on each node by itself on these only, like 2,3 (default all)")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if err := errors.Join(checkHive(settings, settings.Hive.Layout), checkCourse(*from, *which, *force)); err != nil {
			return err
		}
		var only cluster.Nodes
		find := func(s *session) (err error) {
			if err := s.load(); err != nil {
				return err
			}
			// The cluster remembers its layout, which may not go with what is named now.
			if layout := s.hiveOptions().Layout; layout != settings.Hive.Layout {
				if err := checkHive(settings, layout); err != nil {
					return err
				}
			}
			only, err = choose(s.record.Nodes, "only-nodes", *which)
			return err
		}
		return a.onFound(ctx, "configure", args[0], settings, find, func(r *lifecycle.Job) []phase.Entry {
			r.Force, r.From = *force, *from
			if *which != "" {
				r.Only = only.Names()
			}
			return lifecycle.Only(r, lifecycle.Configure(r), a.keepPolicy(settings, "configure"), settings.Given("keep"))
		})
	})
	return cmd
}

// checkHive refuses what cannot be installed in that layout.
func checkHive(settings config.Settings, layout string) error {
	options := installed(settings)
	options.Layout = layout
	if problems := options.Validate(); len(problems) > 0 {
		return usageError{errors.Join(problems...)}
	}
	return nil
}

// checkCourse refuses parts of configuring that make no sense.
func checkCourse(from, which string, force bool) error {
	order := hive.StepNames()
	after := func(step string) bool { return slices.Index(order, from) > slices.Index(order, step) }
	var problem error
	switch {
	case from != "" && hive.CheckStep(from) != nil:
		problem = fmt.Errorf("--from: %w", hive.CheckStep(from))
	case force && which != "":
		problem = errors.New("--force forms the cluster of all nodes anew: it does not go with --only-nodes")
	case force && after(hive.StepStop):
		problem = fmt.Errorf("--force forms the cluster anew, which begins with stopping hive: it does not go with --from %s", from)
	case which != "" && after(hive.StepStop) && from != hive.StepStart:
		problem = fmt.Errorf("%s is a step of the whole cluster: --from %s does not go with --only-nodes", from, from)
	}
	if problem != nil {
		return usageError{problem}
	}
	return nil
}

func (a *app) testCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "run suites against a configured cluster and keep their results",
		Long: `test runs suites against a configured cluster and keeps their results.

A suite is "smoke", which is built in, or any command: it runs under bash -o pipefail here, with HIVE_ENDPOINT, HIVE_NODES,
HIVE_SSH_*, all that AWS clients read (keys, profiles hive and spinifex, endpoints, CA) and ARTIFACTS (a directory for its
results) in its environment. With --on NODE it runs there: files and directories that it names are copied, and removed
afterwards, with the cluster's SSH key and CA. Its cases are those of JUnit files in ARTIFACTS, else the events of go test -json that it prints,
else the command itself.`,
		Example: `  hive-test test dev1
  hive-test test dev1 --suite smoke --suite ./tests/e2e/run-vpc-e2e.sh --junit junit.xml
  hive-test test dev1 --on 1 --suite './tests/e2e/run-multinode-e2e.sh ${HIVE_NODES//,/ }'`,
		Args: named(1),
	}
	load := a.settings(cmd, append(append(testKeys(), existingKeys()...), "hive.probe_timeout")...)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		find := func(s *session) error {
			if err := s.load(); err != nil {
				return err
			}
			return checkSuites(s)
		}
		return a.onFound(ctx, "test", args[0], settings, find, func(r *lifecycle.Job) []phase.Entry {
			return lifecycle.Only(r, lifecycle.Test(r), a.keepPolicy(settings, "test"), settings.Given("keep"))
		})
	})
	return cmd
}

// checkSuites refuses a node to run suites on that a cluster does not have, or will not have, and variables for them that are not set.
func checkSuites(s *session) error {
	nodes := s.record.Nodes
	for i := len(nodes) + 1; i <= s.record.Spec.NodeCount; i++ {
		nodes = append(slices.Clip(nodes), cluster.Node{Name: s.record.Name.Node(i), Index: i})
	}
	var problems []error
	if _, found := nodes.Named(s.settings.SuiteOn); !found && s.settings.SuiteOn != "" {
		problems = append(problems, fmt.Errorf("--on %s: there is no such node, the cluster has %d", s.settings.SuiteOn, len(nodes)))
	}
	for _, name := range s.settings.SuiteEnv {
		set := func(entry string) bool { return strings.HasPrefix(entry, name+"=") }
		if !strings.Contains(name, "=") && !slices.ContainsFunc(s.Environ, set) {
			problems = append(problems, fmt.Errorf("--suite-env %s: that variable is not set here: set it, or give %s=value", name, name))
		}
	}
	if len(problems) > 0 {
		return usageError{errors.Join(problems...)}
	}
	return nil
}

func (a *app) fullCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "full NAME",
		Short: "up, configure, test and down, whatever happens in between",
		Long: `full makes a cluster, configures it, tests it and destroys it, whatever happens in between. Its exit code is
that of the first phase that failed. What failed is explained by what every node could tell before it was destroyed.`,
		Example: `  hive-test full ci-123
  hive-test full demo --sim --node-count=1
  hive-test full hunt --suite ./flaky.sh --keep on-failure`,
		Args: named(1),
	}
	load := a.settings(cmd, append(append(upKeys(), configureKeys()...), testKeys()...)...)
	guard, leave := guardFlags(cmd), leaveFlags(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if err := checkHive(settings, settings.Hive.Layout); err != nil {
			return err
		}
		check := func(s *session) error { return errors.Join(checkSuites(s), leave.check(s)) }
		return a.provision(ctx, "full", args[0], settings, *guard, check, func(r *lifecycle.Job) []phase.Entry {
			r.Leave = leave.leave()
			return lifecycle.Full(r, a.keepPolicy(settings, "full"))
		})
	})
	return cmd
}

// onFound runs phases on a cluster whose record is found by find.
func (a *app) onFound(ctx context.Context, verb, name string, settings config.Settings, find func(*session) error, list func(*lifecycle.Job) []phase.Entry) (err error) {
	s, err := a.open(verb, name, settings)
	if err != nil {
		return err
	}
	defer s.close()
	defer func() { s.stopped(ctx, err) }()
	ctx, cancel := s.limited(ctx)
	defer cancel()
	fleet, err := s.take(ctx, find)
	if err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return s.elsewhere(err)
	}
	tofu.EndOrphans(ctx, s.record.Owner.ID, s.sink) // one that still makes VMs is in the way of all that follows
	r := s.job(fleet)
	return s.phases(ctx, r, list(r))
}

// take finds the record of a cluster that exists and holds the cluster, and returns where its machines are.
func (s *session) take(ctx context.Context, find func(*session) error) (lifecycle.Fleet, error) {
	if err := find(s); err != nil {
		return nil, err
	}
	if err := s.hold(ctx); err != nil {
		return nil, s.elsewhere(err)
	}
	if err := find(s); err != nil { // as it is now that nobody else changes it
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s.fleet()
}
