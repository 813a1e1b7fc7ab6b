package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/engine"
	"hive-test/pkg/hive"
)

func configureKeys() []string {
	return []string{"binary", "tarball", "source_dir", "repo", "ref", "build", "scripts_dir", "hive.layout", "hive.init_flags", "hive.join_flags", "packages", "health_timeout", "hive.probe_timeout", "timeouts.configure"}
}

func testKeys() []string {
	return []string{"suite", "suite_on", "suite_env", "kill_leftovers", "junit", "lost_after", "timeouts.test"}
}

// existingKeys are the settings of a verb that works on a cluster that exists, and may have to destroy it when
// interrupted.
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
		request := engine.ConfigureRequest{Request: a.request(args[0], settings), Force: *force, From: *from, OnlyNodes: *which}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) { return e.Configure(ctx, request) })
	})
	return cmd
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
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) {
			return e.Test(ctx, a.request(args[0], settings))
		})
	})
	return cmd
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
		request := engine.FullRequest{UpRequest: engine.UpRequest{Request: a.request(args[0], settings), Allow: *guard}, Leave: *leave}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) { return e.Full(ctx, request) })
	})
	return cmd
}
