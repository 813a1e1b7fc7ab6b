package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"hive-test/pkg/engine"
	"hive-test/pkg/iac"
	"hive-test/pkg/progress"
)

func (a *app) testCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "run suites against a configured cluster and keep their results",
		Long: `test runs suites against a configured cluster and keeps their results.

A suite is "smoke" or "iac", which are built in, or any command: it runs under bash -o pipefail here, with HIVE_ENDPOINT,
HIVE_NODES, HIVE_SSH_*, all that AWS clients read (keys, profiles hive and spinifex, endpoints, CA) and ARTIFACTS (a
directory for its results) in its environment. With --on NODE it runs there: files and directories that it names are copied,
and removed afterwards, with the cluster's SSH key and CA. Its cases are those of JUnit files in ARTIFACTS, else those of Go
tests or of TAP on its output, else the command itself. Suites in the file hive-test.yaml have names, and say more of
themselves: docs/suites.md.

The suite iac lets Terraform's AWS provider make, change and delete stacks at the cluster's gateway, or with --endpoint at any
EC2 endpoint, without NAME: its keys, region and certificates are those that AWS clients take from the environment, and its
runs are kept under the name "endpoint". Where there is no provider it is skipped.`,
		Example: `  hive-test test dev1
  hive-test test dev1 --suite smoke --suite ./run-vpc-e2e.sh --junit junit.xml
  hive-test test dev1 --suite e2e --retries 2   # a suite of hive-test.yaml
  hive-test test dev1 --run '^health/'
  hive-test test dev1 --on 1 --suite './run-multinode-e2e.sh ${HIVE_NODES//,/ }'
  hive-test test --suite iac --endpoint https://10.0.0.1:9999`,
	}
	load := a.settings(cmd)
	endpoint := cmd.Flags().String("endpoint", "", "`URL` of an EC2 endpoint that suite iac is run against, without a cluster")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("endpoint") {
			return named(1)(cmd, args)
		}
		return withoutCluster(cmd, args)
	}
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("endpoint") {
			return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) {
				return e.Test(ctx, a.request(args[0], settings))
			}, nil)
		}
		at, err := a.endpoint(*endpoint)
		if err != nil {
			return usage(progress.WithHint(err, endpointHint))
		}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) {
			return e.TestEndpoint(ctx, a.request("", settings), at)
		}, nil)
	})
	return cmd
}

// endpoint is the one at an address, with the environment's keys.
func (a *app) endpoint(address string) (iac.Endpoint, error) {
	if address == "" {
		return iac.Endpoint{}, errors.New("--endpoint is empty: give the URL of an EC2 endpoint")
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return iac.Endpoint{}, errors.New("--endpoint: no keys belong into a URL")
	}
	return iac.EndpointOf(address, a.Getenv)
}

// withoutCluster refuses what makes no sense where only an endpoint is tested.
func withoutCluster(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("--endpoint is for tests without a cluster: leave out either it or %s", args[0]))
	}
	var problems []error
	for _, name := range []string{"on", "fault", "reset-between", "suite-env", "kill-leftovers", "lost-after", "keep"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			problems = append(problems, fmt.Errorf("--%s is about a cluster, which --endpoint has not", name))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return usage(err)
	}
	return nil
}
