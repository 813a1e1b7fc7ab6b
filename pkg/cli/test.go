package cli

import (
	"context"

	"hive-test/pkg/engine"

	"github.com/spf13/cobra"
)

func (a *app) testCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "run suites against a configured cluster and keep their results",
		Long: `test runs suites against a configured cluster and keeps their results.

A suite is "smoke", which is built in, or any command: it runs under bash -o pipefail here, with HIVE_ENDPOINT, HIVE_NODES,
HIVE_SSH_*, all that AWS clients read (keys, profiles hive and spinifex, endpoints, CA) and ARTIFACTS (a directory for its
results) in its environment. With --on NODE it runs there: files and directories that it names are copied, and removed
afterwards, with the cluster's SSH key and CA. Its cases are those of JUnit files in ARTIFACTS, else those of Go tests or of
TAP on its output, else the command itself. Suites in the file hive-test.yaml have names, and say more of themselves:
docs/suites.md.`,
		Example: `  hive-test test dev1
  hive-test test dev1 --suite smoke --suite ./run-vpc-e2e.sh --junit junit.xml
  hive-test test dev1 --suite e2e --retries 2   # a suite of hive-test.yaml
  hive-test test dev1 --run '^health/'
  hive-test test dev1 --on 1 --suite './run-multinode-e2e.sh ${HIVE_NODES//,/ }'`,
		Args: named(1),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) {
			return e.Test(ctx, a.request(args[0], settings))
		}, nil)
	})
	return cmd
}
