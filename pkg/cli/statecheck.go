package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

// stateCheckJSON is the shape of what `state init`, `validate` and `fmt` print with -o json.
type stateCheckJSON struct {
	Schema    int              `json:"schema"`
	Cluster   string           `json:"cluster"`
	Verb      string           `json:"verb"` // init, validate or fmt
	OK        bool             `json:"ok"`
	Dir       string           `json:"dir,omitempty"`     // of init: where OpenTofu works
	Backend   string           `json:"backend,omitempty"` // of init: type of the backend that the state is in
	Resources int              `json:"resources"`         // of init: that the state holds
	Problems  []deploy.Problem `json:"problems"`          // of validate
	Files     []string         `json:"files"`             // of fmt: those that are not formatted
}

// stateCheck is a verb that looks at the module in a cluster's directory.
type stateCheck struct {
	verb, short, long string
	check             func(ctx context.Context, e *engine.Engine, request engine.Request, found *stateCheckJSON) error
	good              func(stateCheckJSON) string
}

func stateInit() stateCheck {
	return stateCheck{
		verb: "init", short: "make a cluster's directory ready for OpenTofu, and read its state",
		long: `init writes the module and the settings of the backend, fetches the provider, and reads the state, as every run does before it works. It
shows whether the backend can be reached, with what is in force. A state that an earlier run could not write is written.`,
		check: func(ctx context.Context, e *engine.Engine, request engine.Request, found *stateCheckJSON) error {
			dir, state, err := e.StateInit(ctx, request)
			found.Dir, found.Backend, found.Resources = dir, state.Backend, len(state.Resources)
			return err
		},
		good: func(d stateCheckJSON) string {
			return fmt.Sprintf("ready: OpenTofu works in %s, the state (%s) holds %s", d.Dir, d.Backend, progress.Count(d.Resources, "resource"))
		},
	}
}

func stateValidate() stateCheck {
	return stateCheck{
		verb: "validate", short: "whether OpenTofu and the provider that are installed accept the module",
		long: `validate lets OpenTofu check the module that makes a cluster's VMs with the provider that is installed: it finds versions that do not
go together. Exit 3 where there is a mistake.`,
		check: func(ctx context.Context, e *engine.Engine, request engine.Request, found *stateCheckJSON) error {
			problems, err := e.StateValidate(ctx, request)
			found.Problems = append(found.Problems, problems...)
			return err
		},
		good: func(stateCheckJSON) string { return "the module is valid" },
	}
}

func stateFormat() stateCheck {
	return stateCheck{
		verb: "fmt", short: "whether the files of the module are written as OpenTofu formats them",
		long: `fmt lists the files of the module in a cluster's directory that OpenTofu would format otherwise, and changes none: they are
hive-test's own. Exit 3 where there are any.`,
		check: func(ctx context.Context, e *engine.Engine, request engine.Request, found *stateCheckJSON) error {
			files, err := e.StateFormat(ctx, request)
			found.Files = append(found.Files, files...)
			return err
		},
		good: func(stateCheckJSON) string { return "the module is formatted" },
	}
}

func (a *app) stateCheckCommand(c stateCheck) *cobra.Command {
	return a.onState(&cobra.Command{
		Use: c.verb + " NAME", Short: c.short, Long: c.long, Example: "  hive-test state " + c.verb + " dev1", Args: named(1),
	}, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		found := stateCheckJSON{Schema: outputSchema, Cluster: args[0], Verb: c.verb, Problems: []deploy.Problem{}, Files: []string{}}
		if err := c.check(ctx, e, a.request(args[0], settings), &found); err != nil {
			return err
		}
		found.OK = len(found.Problems)+len(found.Files) == 0
		structured, err := printAs(a.Stdout, settings.Output, found)
		if !structured {
			_, err = fmt.Fprintln(a.Stdout, found.text(c.good))
		}
		if err == nil && !found.OK {
			err = engine.Error{Code: engine.ExitConfig}
		}
		return err
	})
}

// text is what was found, for people.
func (d stateCheckJSON) text(good func(stateCheckJSON) string) string {
	if d.OK {
		return good(d)
	}
	lines := append([]string{}, d.Files...)
	for _, p := range d.Problems {
		lines = append(lines, strings.TrimSpace(p.Summary+" "+p.Hint))
	}
	return strings.Join(lines, "\n")
}
