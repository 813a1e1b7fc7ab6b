package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/template"
)

const templateLong = `template builds templates that nodes are cloned from, so that they need not be installed each time. What a template was
made of, and which one is in use, stands in its own description on Proxmox VE.

Layers: base is the system and what hive needs, dev is hive on top of base, single is both at once. The config file can add to them,
and has layers of one's own, below templates.`

func (a *app) templateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "build, verify and promote the templates that nodes are cloned from",
		Long:  templateLong,
		Example: `  hive-test template build base
  hive-test template build dev --if-changed
  hive-test template list
  hive-test full ci-123 --template dev --clone linked`,
		Args: cobra.NoArgs,
		RunE: run(func(_ context.Context, cmd *cobra.Command, _ []string) error {
			return usage(progress.WithHint(
				errors.New("template needs a word: build, list, show, verify, promote, distribute, prune, rm or export-packer"), usageLine(cmd)))
		}),
	}
	cmd.AddCommand(
		a.templateBuildCommand(), a.templateListCommand(), a.templateShowCommand(), a.templateVerifyCommand(),
		a.templatePromoteCommand(), a.templateDistributeCommand(), a.templatePruneCommand(), a.templateRemoveCommand(),
		a.templateExportPackerCommand(),
	)
	return cmd
}

func (a *app) templateBuildCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "build LAYER",
		Short: "build a template, verify it and promote it",
		Long: `build makes a VM, installs the layer there, takes away what is that VM's own, makes a template of it, looks at two clones and
has clusters use it from now on. Where any of that fails, the template that is in use stays; the VM goes, unless --keep says otherwise.`,
		Example: `  hive-test template build base
  hive-test template build dev --binary ./bin/hive
  hive-test template build base --builder packer
  hive-test template build base --dry-run        # what would it be made of?
  hive-test template build base --if-changed     # in a nightly job`,
		Args: oneLayer,
	}
	ifChanged := cmd.Flags().Bool("if-changed", false, "build nothing where the template in use was made of the same")
	noPromote := cmd.Flags().Bool("no-promote", false, "leave the template that is in use in its place")
	noVerify := cmd.Flags().Bool("no-verify", false, "look at no clones, and do not promote")
	builder := cmd.Flags().String("builder", engine.BuilderBuiltIn, "what makes the VM: built-in, or packer")
	dryRun := cmd.Flags().Bool("dry-run", false, "build nothing, and show what would be, and what differs from the one in use")
	a.onTemplates(cmd, func(ctx context.Context, e *engine.Engine, settings config.Settings, args []string) error {
		request := engine.BuildTemplateRequest{
			Request: a.request(args[0], settings), IfChanged: *ifChanged, NoPromote: *noPromote, NoVerify: *noVerify,
			Builder: *builder,
		}
		if *dryRun {
			plan, err := e.PlanTemplateBuild(ctx, request)
			if err != nil {
				return err
			}
			return a.printTemplatePlan(settings, "build", plan)
		}
		built, err := e.BuildTemplate(ctx, request)
		word := "rebuilt"
		if built.Unchanged {
			word = "unchanged"
		}
		return a.printTemplateDone(settings, word, built.Identity, err)
	})
	return cmd
}

// onTemplates has a command do something with templates.
func (a *app) onTemplates(
	cmd *cobra.Command, do func(ctx context.Context, e *engine.Engine, settings config.Settings, args []string) error,
) {
	load := a.settingsOf(cmd, "template")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error { return do(ctx, e, settings, args) })
	})
}

// oneLayer wants the name of a layer.
func oneLayer(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return usage(progress.WithHint(errors.New("template build needs a layer: base, dev, single or one of the config file"), usageLine(cmd)))
}

// oneTemplate wants the name of a template.
func oneTemplate(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf("template %s needs a version, or a layer, as template list shows them", cmd.Name()), usageLine(cmd),
	))
}

// templateDoneJSON is the shape of `template build`, `verify`, `promote` and `rm` with -o json.
type templateDoneJSON struct {
	Schema int `json:"schema"`
	// Result is rebuilt, unchanged, verified, promoted, deleted, written or failed.
	Result   string            `json:"result"`
	Template template.Identity `json:"template"` // of what failed, as far as it is known
	Error    string            `json:"error,omitempty"`
	Faults   []template.Fault  `json:"faults,omitempty"` // that verifying has found
}

// printTemplateDone prints what was done with a template, or, as a document, that it failed.
func (a *app) printTemplateDone(settings config.Settings, word string, identity template.Identity, failure error) error {
	document := templateDoneJSON{Schema: outputSchema, Result: word, Template: identity}
	if failure != nil {
		document.Result, document.Error = "failed", a.known.Mask(failure.Error())
	}
	if faulty, ok := errors.AsType[*lifecycle.FaultyError](failure); ok {
		document.Faults = faulty.Faults
	}
	structured, err := printAs(a.Stdout, settings.Output, document)
	if structured || err != nil || failure != nil {
		return errors.Join(failure, err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s %s\n", word, identity.Version)
	return err
}

func (a *app) templateListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [LAYER]",
		Short: "the templates that there are, the newest of each layer first",
		Long:  "list shows the templates that hive-test has made, as Proxmox VE has them now. Clusters use the one that was promoted last.",
		Example: `  hive-test template list
  hive-test template list base -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	a.onTemplates(cmd, func(ctx context.Context, e *engine.Engine, settings config.Settings, args []string) error {
		list, err := e.ListTemplates(ctx, a.request(strings.Join(args, ""), settings))
		if err != nil {
			return err
		}
		return a.printTemplates(settings, list)
	})
	return cmd
}

func (a *app) templateShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show TEMPLATE",
		Short: "what a template was made of, and what is on it",
		Long:  "show tells of a version, or of the one of a layer that is in use, what it was made of and what was found on it when it was built.",
		Example: `  hive-test template show base
  hive-test template show hive-base-20261128-3f2a9c1`,
		Args: oneTemplate,
	}
	a.onTemplates(cmd, func(ctx context.Context, e *engine.Engine, settings config.Settings, args []string) error {
		copies, err := e.FindTemplate(ctx, a.request(args[0], settings))
		if err != nil {
			return err
		}
		return a.printTemplate(settings, copies)
	})
	return cmd
}

func (a *app) templateVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify TEMPLATE",
		Short: "look at clones of a template, and note whether it is sound",
		Long: `verify makes two clones of a template, and one more of each further copy, and looks at them: whether each is a machine of its own, with
nothing left of the one that was built, and whether what was recorded is there. The clones go. What is found is noted in the template.`,
		Example: `  hive-test template verify base
  hive-test template verify hive-base-20261128-3f2a9c1 --clone linked`,
		Args: oneTemplate,
	}
	a.onTemplates(cmd, func(ctx context.Context, e *engine.Engine, settings config.Settings, args []string) error {
		verified, err := e.VerifyTemplate(ctx, a.request(args[0], settings))
		return a.printTemplateDone(settings, "verified", verified.Identity, err)
	})
	return cmd
}

func (a *app) templatePromoteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "promote TEMPLATE",
		Short:   "have clusters use a template that is verified",
		Long:    "promote has up and full use a template from now on where they are given its layer, as --template dev does. Clusters that are there stay as they are.",
		Example: `  hive-test template promote hive-base-20261128-3f2a9c1`,
		Args:    oneTemplate,
	}
	a.onTemplates(cmd, func(ctx context.Context, e *engine.Engine, settings config.Settings, args []string) error {
		promoted, err := e.PromoteTemplate(ctx, a.request(args[0], settings))
		return a.printTemplateDone(settings, "promoted", promoted, err)
	})
	return cmd
}

func (a *app) templateDistributeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "distribute TEMPLATE",
		Short: "copy a template to each hypervisor that cannot clone it where it is",
		Long: `distribute makes a full copy of a template on each hypervisor that has none, unless it is on shared storage: all at once. up clones
the copy that is on a node's own hypervisor then, and linked clones can be made on all of them. Where a copy fails, those that were made stay,
and the same command makes the others.`,
		Example: `  hive-test template distribute dev
  hive-test template distribute dev --avoid-hypervisor pve3`,
		Args: oneTemplate,
	}
	dryRun := cmd.Flags().Bool("dry-run", false, "copy nothing, and show what would be")
	a.onTemplates(cmd, func(ctx context.Context, e *engine.Engine, settings config.Settings, args []string) error {
		if *dryRun {
			plan, err := e.PlanDistribution(ctx, a.request(args[0], settings))
			if err != nil {
				return err
			}
			return a.printTemplatePlan(settings, "distribute", plan)
		}
		copies, err := e.DistributeTemplate(ctx, a.request(args[0], settings))
		if err != nil {
			return err
		}
		return a.printTemplates(settings, copies)
	})
	return cmd
}

func (a *app) templatePruneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "delete the templates that nobody needs",
		Long: `prune deletes, of each layer, the versions that are older than the one in use, but for the one that was in use before it, and for those
that linked clones need. It prints what it has deleted.`,
		Example: `  hive-test template prune --dry-run
  hive-test template prune`,
		Args: cobra.NoArgs,
	}
	dryRun := cmd.Flags().Bool("dry-run", false, "delete nothing, and show what would be")
	a.onTemplates(cmd, func(ctx context.Context, e *engine.Engine, settings config.Settings, _ []string) error {
		needless, err := e.PruneTemplates(ctx, a.request("", settings), *dryRun)
		if err != nil {
			return err
		}
		return a.printPruned(settings, needless, *dryRun)
	})
	return cmd
}

// templatePruneJSON is the shape of `template prune -o json`.
type templatePruneJSON struct {
	Schema    int            `json:"schema"`
	DryRun    bool           `json:"dry_run"`
	Templates []templateJSON `json:"templates"` // that nobody needs
}

func (a *app) printPruned(settings config.Settings, needless []template.Template, dryRun bool) error {
	document := templatePruneJSON{outputSchema, dryRun, templatesOf(needless).Templates}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	word := "deleted"
	if dryRun {
		word = "would be deleted"
	}
	for _, t := range needless {
		if _, err := fmt.Fprintf(a.Stdout, "%s: %s\n", word, t.VM); err != nil {
			return err
		}
	}
	if len(needless) == 0 {
		fmt.Fprintln(a.Stderr, "there is no template that nobody needs")
	}
	return nil
}

func (a *app) templateRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm VERSION",
		Short:   "delete a template",
		Long:    "rm deletes all copies of a version. One that linked clones need stays, and, unless it is forced, the one of a layer that is in use.",
		Example: `  hive-test template rm hive-base-20261128-3f2a9c1`,
		Args:    oneTemplate,
	}
	force := cmd.Flags().Bool("force", false, "delete it though it is in use")
	a.onTemplates(cmd, func(ctx context.Context, e *engine.Engine, settings config.Settings, args []string) error {
		gone, err := e.RemoveTemplate(ctx, a.request(args[0], settings), *force)
		return a.printTemplateDone(settings, "deleted", gone, err)
	})
	return cmd
}

// templatesJSON is the shape of `template list` and `show` with -o json.
type templatesJSON struct {
	Schema    int            `json:"schema"`
	Templates []templateJSON `json:"templates"`
}

type templateJSON struct {
	template.Identity
	VMID       int    `json:"vmid"`
	Hypervisor string `json:"hypervisor"`
	Shared     bool   `json:"shared"` // every hypervisor can clone it
	Clones     []int  `json:"clones"` // VMs whose disks need the template's
}

func templatesOf(list []template.Template) templatesJSON {
	document := templatesJSON{outputSchema, []templateJSON{}}
	for _, t := range list {
		one := templateJSON{t.Identity, t.VM.VMID, t.VM.Hypervisor, t.VM.Shared, t.VM.Clones}
		if one.Clones == nil {
			one.Clones = []int{}
		}
		document.Templates = append(document.Templates, one)
	}
	return document
}

func (a *app) printTemplates(settings config.Settings, list []template.Template) error {
	if structured, err := printAs(a.Stdout, settings.Output, templatesOf(list)); structured {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(a.Stderr, "there are no templates: hive-test template build base makes one")
		return nil
	}
	var rows [][]string
	for _, t := range list {
		rows = append(rows, []string{
			t.Version, strconv.Itoa(t.VM.VMID), t.VM.Hypervisor, aboutDuration(max(time.Since(t.Built), 0)), standing(list, t),
			strconv.Itoa(len(t.VM.Clones)),
		})
	}
	return a.page(a.Stdout, settings).table([]column{
		{name: "TEMPLATE"},
		{name: "VMID", right: true},
		{name: "HYPERVISOR", drop: 1},
		{name: "AGE", right: true},
		{name: "STATUS"},
		{name: "LINKED CLONES", right: true, drop: 2},
	}, rows)
}

// standing is what may be done with a template.
func standing(list []template.Template, t template.Template) string {
	switch used := template.Find(list, t.Layer); {
	case len(used) > 0 && used[0].Version == t.Version:
		return "in use"
	case !t.Promoted.IsZero():
		return "was in use"
	case t.Verified:
		return "verified"
	}
	return "not verified"
}

func (a *app) printTemplate(settings config.Settings, copies []template.Template) error {
	if structured, err := printAs(a.Stdout, settings.Output, templatesOf(copies)); structured {
		return err
	}
	identity := copies[0].Identity
	page := a.page(a.Stdout, settings)
	rows := [][]string{{"template", identity.Version}, {"layer", identity.Layer}, {"built", identity.Built.Format(time.RFC3339)}}
	rows = append(rows, []string{"by", identity.Builder}, []string{"status", standing(copies, copies[0])})
	for _, t := range copies {
		rows = append(rows, []string{"copy", t.VM.String()})
	}
	for _, part := range []struct {
		name   string
		values template.Inputs
	}{{"made of", identity.Inputs}, {"found", identity.Versions}} {
		for _, name := range slices.Sorted(maps.Keys(part.values)) {
			rows = append(rows, []string{part.name, name + ": " + part.values[name]})
		}
	}
	return page.table([]column{{name: "WHAT"}, {name: "VALUE"}}, rows)
}
