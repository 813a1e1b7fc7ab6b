package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

// stateListJSON is the shape of `state list -o json`.
type stateListJSON struct {
	Schema    int                 `json:"schema"`
	Cluster   string              `json:"cluster"`
	Backend   string              `json:"backend"` // type of the backend; local: a file in the cluster's directory
	Serial    uint64              `json:"serial"`  // 0: there is no state
	Lineage   string              `json:"lineage"`
	Program   string              `json:"program"` // version of the OpenTofu or Terraform that has written it
	Resources []stateResourceJSON `json:"resources"`
}

type stateResourceJSON struct {
	Address string `json:"address"`
	Type    string `json:"type"`
	ID      string `json:"id"`
	Tainted bool   `json:"tainted"` // it was not made to the end
}

func (a *app) stateListCommand() *cobra.Command {
	return a.onState(&cobra.Command{
		Use:   "list NAME",
		Short: "the resources that the state of a cluster holds",
		Example: `  hive-test state list dev1
  hive-test state list dev1 -o json`,
		Args: named(1),
	}, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		state, err := e.State(ctx, a.request(args[0], settings))
		if err != nil {
			return err
		}
		document := stateListJSON{
			Schema: outputSchema, Cluster: args[0], Backend: state.Backend, Serial: state.Serial, Lineage: state.Lineage,
			Program: state.Program, Resources: []stateResourceJSON{},
		}
		for _, r := range state.Resources {
			document.Resources = append(document.Resources, stateResourceJSON{r.Address, r.Type, r.ID, r.Tainted})
		}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		return document.print(a.page(a.Stdout, settings))
	})
}

func (d stateListJSON) print(p page) error {
	if len(d.Resources) == 0 {
		return p.line("the state of cluster "+d.Cluster+" holds no resources", "  ")
	}
	var rows [][]string
	for _, r := range d.Resources {
		note := "-"
		if r.Tainted {
			note = "tainted"
		}
		rows = append(rows, []string{r.Address, dash(r.ID), note})
	}
	return p.table([]column{{name: "ADDRESS", least: 20}, {name: "ID", least: 8}, {name: "NOTE"}}, rows)
}

// stateShowJSON is the shape of `state show -o json`.
type stateShowJSON struct {
	Schema  int    `json:"schema"`
	Cluster string `json:"cluster"`
	stateResourceJSON
	// Attributes are those that are set, by path, as text; sensitive ones are hidden.
	Attributes map[string]string `json:"attributes"`
}

func (a *app) stateShowCommand() *cobra.Command {
	return a.onState(&cobra.Command{
		Use:   "show NAME ADDRESS",
		Short: "the attributes of one resource in the state of a cluster",
		Example: `  hive-test state show dev1 'proxmox_virtual_environment_vm.node["dev1-1"]'
  hive-test state show dev1 dev1-1`,
		Args: named(2),
	}, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		if len(args) < 2 {
			return usage(errors.New("name a resource, by its address or by the node whose VM it is: state list lists them"))
		}
		state, err := e.State(ctx, a.request(args[0], settings))
		if err != nil {
			return err
		}
		resource, err := resourceOf(state, args[1])
		if err != nil {
			return usage(err)
		}
		document := stateShowJSON{
			Schema: outputSchema, Cluster: args[0], Attributes: resource.Attributes,
			stateResourceJSON: stateResourceJSON{resource.Address, resource.Type, resource.ID, resource.Tainted},
		}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		var rows [][]string
		for _, name := range slices.Sorted(maps.Keys(resource.Attributes)) {
			rows = append(rows, []string{name, resource.Attributes[name]})
		}
		return a.page(a.Stdout, settings).table([]column{{name: "ATTRIBUTE", least: 16}, {name: "VALUE", least: 16}}, rows)
	})
}

// resourceOf finds a resource by its address, or a VM by the name of its node.
func resourceOf(state engine.State, name string) (found engine.StateResource, err error) {
	for _, r := range state.Resources {
		if r.Address == name || r.Key == name && strings.HasSuffix(r.Type, "_vm") {
			return r, nil
		}
	}
	return found, fmt.Errorf("the state holds no %s: state list lists the %s that it holds", name,
		progress.Count(len(state.Resources), "resource"))
}

// stateOutputJSON is the shape of `state output -o json`.
type stateOutputJSON struct {
	Schema  int            `json:"schema"`
	Cluster string         `json:"cluster"`
	Outputs map[string]any `json:"outputs"` // by name, those that are not sensitive
}

func (a *app) stateOutputCommand() *cobra.Command {
	return a.onState(&cobra.Command{
		Use:   "output NAME [OUTPUT]",
		Short: "the outputs of the module that has made a cluster's VMs",
		Long:  `output prints the outputs in the state of a cluster as JSON, or one of them alone. Those that are sensitive are left out.`,
		Example: `  hive-test state output dev1
  hive-test state output dev1 inventory`,
		Args: named(2),
	}, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		state, err := e.State(ctx, a.request(args[0], settings))
		if err != nil {
			return err
		}
		document := stateOutputJSON{Schema: outputSchema, Cluster: args[0], Outputs: map[string]any{}}
		for name, output := range state.Outputs {
			if !output.Sensitive {
				document.Outputs[name] = output.Value
			}
		}
		if len(args) > 1 {
			value, ok := document.Outputs[args[1]]
			if !ok {
				return usage(fmt.Errorf("there is no output %s: there are %s", args[1],
					dash(strings.Join(slices.Sorted(maps.Keys(document.Outputs)), ", "))))
			}
			document.Outputs = map[string]any{args[1]: value}
		}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		return printJSON(a.Stdout, document.value(args[1:]))
	})
}

// value is what is printed for people and pipes: all outputs, or the one that is named.
func (d stateOutputJSON) value(named []string) any {
	if len(named) > 0 {
		return d.Outputs[named[0]]
	}
	return d.Outputs
}

func (a *app) statePullCommand() *cobra.Command {
	return a.onState(&cobra.Command{
		Use:     "pull NAME",
		Short:   "the state of a cluster, whole and without encryption",
		Long:    `pull prints the state as OpenTofu keeps it. It may hold secrets, and says everything of the VMs: keep it where nobody else reads.`,
		Example: `  hive-test state pull dev1 >dev1.tfstate`,
		Args:    named(1),
	}, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		if settings.Explicit("output") {
			return usage(fmt.Errorf("-o %s is not possible here: a state is JSON of its own", settings.Output))
		}
		state, err := e.State(ctx, a.request(args[0], settings))
		if err != nil {
			return err
		}
		if strings.TrimSpace(state.Text) == "" {
			return engine.Error{Code: engine.ExitNotFound, Err: fmt.Errorf("cluster %q has no state yet", args[0])}
		}
		_, err = fmt.Fprint(a.Stdout, state.Text)
		return err
	})
}
