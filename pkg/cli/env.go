package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"hive-test/pkg/engine"
	"hive-test/pkg/remote"

	"github.com/spf13/cobra"
)

const envLong = `env prints what shells and programs need to use a cluster: addresses, SSH key and configuration, and,
once hive is formed, all that AWS clients read: region, endpoints, CA, and the names of the files with the keys (no key
itself). What would make them use other keys is unset; until hive is formed they find none.

--format bash is for every POSIX shell, github for the file that $GITHUB_ENV names in a job. github and dotenv can
take no variable away: what should not be there is empty.

The AWS CLI takes its endpoint from there from 1.29 and 2.13 on; an older one needs --endpoint-url "$HIVE_ENDPOINT".`

func (a *app) envCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env NAME",
		Short: "variables for shells and programs that use a cluster, AWS clients included",
		Long:  envLong,
		Example: `  eval "$(hive-test env dev1)"; aws ec2 describe-instance-types
  hive-test env dev1 --format fish | source
  hive-test env ci-123 --format github >>"$GITHUB_ENV"`,
		Args: named(1),
	}
	load := a.settings(cmd)
	format := cmd.Flags().String("format", "bash", "`form`: "+strings.Join(envForms(), ", "))
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		form, err := printedForm(cmd.Flags().Changed("format"), *format, settings)
		if err != nil {
			return err
		}
		if err := checkEnvFormat(form); err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			located, err := e.Locate(ctx, "env", a.request(args[0], settings))
			if err != nil {
				return err
			}
			if located.Keyless {
				a.warn(fmt.Sprintf(
					"hive is not formed on %s yet: until it is, by hive-test configure %[1]s, AWS clients find no keys", args[0],
				))
			}
			return printEnvironment(a.Stdout, located.Environment, form)
		})
	})
	return cmd
}

// checkEnvFormat refuses forms that are not known, before a cluster is read.
func checkEnvFormat(format string) error {
	if slices.Contains(envForms(), format) {
		return nil
	}
	return usage(fmt.Errorf("--format %s is not possible: use %s", format, strings.Join(envForms(), ", ")))
}

func envForms() []string { return []string{"bash", "fish", "github", "dotenv", "json", "yaml"} }

func printEnvironment(w io.Writer, env remote.Environment, format string) error {
	var text string
	var err error
	switch format {
	case "fish":
		text, err = env.Fish()
	case "github":
		text, err = env.GitHub()
	case "dotenv":
		text, err = env.Dotenv()
	case "json", "yaml":
		_, err = printAs(w, format, envJSON{Schema: outputSchema, variables: env.Set})
	default:
		text, err = env.Bash()
	}
	if err == nil && text != "" {
		_, err = io.WriteString(w, text)
	}
	return err
}

// envJSON is the shape of `env --format json` and `env -o json`: the variables stand beside schema.
type envJSON struct {
	Schema    int `json:"schema"`
	variables map[string]string
}

// MarshalJSON returns schema and the variables as one object.
func (e envJSON) MarshalJSON() ([]byte, error) {
	members := map[string]any{"schema": e.Schema}
	for name, value := range e.variables {
		members[name] = value
	}
	return json.Marshal(members)
}
