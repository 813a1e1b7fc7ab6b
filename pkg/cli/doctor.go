package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

const doctorLong = `doctor checks, all at once, and in seconds where nothing is slow, everything that is known to make up fail, and changes nothing: OpenTofu and its
provider, the API's address, certificate and clock, the token, its privileges and the tags it may set, the hypervisors and their quorum, the image
or template, storages, bridges, SSH to the hypervisors, VM ids, and room for the whole cluster. Each failure comes with the
command or the setting that mends it. Flags and settings are those of up. With NAME, that cluster is looked at, whether its
VMs run included, and what is left of an earlier one of that name; what up would refuse to change in it is refused. Each answer may take --proxmox-call-timeout, and all of it --timeout, or else two minutes; what was
not asked by then is told as not checked.

up makes the same checks first; within a minute after a doctor that found nothing, it relies on that.`

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "check everything that is known to make up fail, each failure with its fix",
		Long:  doctorLong,
		Example: `  hive-test doctor
  hive-test doctor --node-count=10 --memory-mb=16384
  hive-test doctor dev1 -o json
  hive-test doctor --print-role > role.sh`,
		Args: nameOrNone,
	}
	load := a.settings(cmd)
	role := cmd.Flags().Bool(
		"print-role", false,
		"print the commands that make a role, a user and a token for hive-test on Proxmox VE 8 and 9, "+
			"and do nothing else",
	)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if *role {
			if err := noDocument(settings, "--print-role prints commands"); err != nil {
				return err
			}
			return printRole(a.Stdout, settings.WithToken(ctx))
		}
		name := ""
		if len(args) == 1 {
			name = args[0]
			if _, err := cluster.ParseName(name); err != nil {
				return usage(err)
			}
		}
		return a.doctor(ctx, name, settings)
	})
	return cmd
}

// printRole prints what an administrator runs, for both versions; the token is the one that is set, if any.
func printRole(w io.Writer, settings config.Settings) error {
	for i, major := range []int{8, 9} {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if _, err := io.WriteString(w, engine.RoleScript(major, settings)); err != nil {
			return err
		}
	}
	return nil
}

// doctorJSON is the shape of `doctor -o json`.
type doctorJSON struct {
	Schema  int              `json:"schema"`
	Cluster string           `json:"cluster,omitempty"` // the one that was looked at
	OK      bool             `json:"ok"`
	Checks  []deploy.Finding `json:"checks"`
}

func (a *app) doctor(ctx context.Context, name string, settings config.Settings) error {
	return a.work(settings, func(e *engine.Engine) error {
		checkup, err := e.Doctor(ctx, a.request(name, settings))
		if err != nil {
			return err
		}
		document := doctorJSON{Schema: outputSchema, Cluster: name, OK: checkup.OK, Checks: checkup.Findings}
		structured, err := printAs(a.Stdout, settings.Output, document)
		if !structured {
			err = document.print(a.page(a.Stdout, settings))
		}
		if err = a.unlessUnread(err); err == nil && !document.OK {
			return engine.Error{Code: engine.ExitConfig}
		}
		return err
	})
}

// doctorGroups are the checks by what they are about, in the order in which people read them. A check that is in none is
// shown at the end.
func doctorGroups() []doctorGroup {
	return []doctorGroup{
		{"This machine", []string{"settings", "tofu", "provider", "credentials", "ssh-key", "locks"}},
		{"Proxmox VE API", []string{
			"pve-endpoint", "pve-token", "pve-tls", "pve-tls-name", "pve-access", "clock", "pve-privileges", "pve-tags",
			"pve-pool", deploy.NotRun,
		}},
		{"Hypervisors", []string{
			"pve-hypervisors", "pve-quorum", "pve-ssh", "node-cpus", "pve-cpu", "pve-memory", "pve-disk",
		}},
		{"Images and storages", []string{"pve-image", "pve-template", "pve-datastore", "pve-snippets"}},
		{"Networks and ids", []string{"pve-bridges", "pve-addresses", "pve-vmids", "pve-ids", "leftovers"}},
		{"Cluster", []string{"cluster-vms"}},
		{"Others", nil},
	}
}

type doctorGroup struct {
	title  string
	checks []string
}

// print writes the checks for people: what did not pass has its id, and its fix below it.
func (d doctorJSON) print(p page) error {
	groups := doctorGroups()
	grouped := make([][]deploy.Finding, len(groups))
	for _, f := range d.Checks {
		i := slices.IndexFunc(groups, func(g doctorGroup) bool { return slices.Contains(g.checks, f.ID) })
		if i < 0 {
			i = len(groups) - 1
		}
		grouped[i] = append(grouped[i], f)
	}
	fixes := deploy.ShortFixes(slices.Concat(grouped...)) // in the order in which they are read
	for i, group := range groups {
		if len(grouped[i]) == 0 {
			continue
		}
		if _, err := fmt.Fprintln(p, p.paint(progress.Bold, group.title)); err != nil {
			return err
		}
		for _, f := range grouped[i] {
			f.Fix, fixes = fixes[0], fixes[1:]
			if err := printFinding(p, f); err != nil {
				return err
			}
		}
	}
	return p.marked(d.verdict(p), "", "  ")
}

func printFinding(p page, f deploy.Finding) error {
	mark, color := findingMark(f.Status)
	text := f.Title
	if f.Status == deploy.Fail || f.Status == deploy.Warn {
		text += " (" + f.ID + ")"
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	if err := p.marked("  "+p.paint(color, mark)+" ", text, "  "); err != nil || f.Fix == "" {
		return err
	}
	return p.marked("    "+p.paint(progress.Yellow, "fix:")+" ", f.Fix, "  ")
}

func findingMark(status deploy.Status) (string, progress.Color) {
	switch status {
	case deploy.Pass:
		return "✓", progress.Green
	case deploy.Fail:
		return "✗", progress.Red
	case deploy.Warn:
		return "!", progress.Yellow
	}
	return "-", progress.Dim
}

// verdict says what came of all checks, with how many there are of each outcome. A check counts once, however many
// things it has found.
func (d doctorJSON) verdict(p page) string {
	checks, unmade, rest := map[string]deploy.Status{}, map[string]bool{}, ""
	for _, f := range d.Checks {
		if f.ID == deploy.NotRun {
			rest = ", and the others were not run"
			continue
		}
		if known, seen := checks[f.ID]; !seen || weight(f.Status) > weight(known) {
			checks[f.ID] = f.Status
		}
		if f.Unmade {
			unmade[f.ID] = true
		}
	}
	counts := map[deploy.Status]int{}
	for _, status := range checks {
		counts[status]++
	}
	mark, text := p.paint(progress.Green, "✓"), "all checks passed"
	if counts[deploy.Warn] > 0 {
		text = "no check failed"
	}
	if len(unmade) > 0 {
		mark = p.paint(progress.Yellow, "!")
		text = fmt.Sprintf("all checks that were made passed, and %d of %d were not made", len(unmade), len(checks))
	}
	if failed := counts[deploy.Fail]; failed > 0 {
		mark = p.paint(progress.Red, "✗")
		text = fmt.Sprintf("%d of %s failed", failed, progress.Count(len(checks), "check")) + rest
	}
	return fmt.Sprintf(
		"%s %s (%d passed, %d failed, %s, %d skipped)", mark, text, counts[deploy.Pass], counts[deploy.Fail],
		progress.Count(counts[deploy.Warn], "warning"), counts[deploy.Skip],
	)
}

// weight orders what one check has found: the worst is what came of it.
func weight(s deploy.Status) int {
	return slices.Index([]deploy.Status{deploy.Skip, deploy.Pass, deploy.Warn, deploy.Fail}, s)
}
