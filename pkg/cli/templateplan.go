package cli

import (
	"fmt"
	"strings"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/template"
)

// templatePlanJSON is the shape of `template build` and `distribute` with --dry-run -o json.
type templatePlanJSON struct {
	Schema  int    `json:"schema"`
	Verb    string `json:"verb"` // template build or template distribute
	DryRun  bool   `json:"dry_run"`
	Changed bool   `json:"changed"` // something would be made
	Layer   string `json:"layer"`
	Version string `json:"version"` // that would be built or copied
	// InUse is the version of the layer that clusters use; Differences are the inputs that a build would have others of.
	InUse       string                `json:"in_use,omitempty"`
	Differences []template.Difference `json:"differences,omitempty"`
	VMs         []plannedVM           `json:"vms"` // that would become templates
	// Leftover is the cluster of an earlier run that would be removed first.
	Leftover string `json:"leftover,omitempty"`
}

type plannedVM struct {
	VMID       int    `json:"vmid"`
	Hypervisor string `json:"hypervisor"`
}

// printTemplatePlan prints what a verb would do.
func (a *app) printTemplatePlan(settings config.Settings, verb string, plan engine.TemplatePlan) error {
	document := templatePlanJSON{
		Schema: outputSchema, Verb: "template " + verb, DryRun: true, Changed: len(plan.VMs) > 0, Layer: plan.Layer,
		Version: plan.Version, InUse: plan.InUse, Differences: plan.Differences, VMs: []plannedVM{}, Leftover: plan.Leftover,
	}
	for _, vm := range plan.VMs {
		document.VMs = append(document.VMs, plannedVM{vm.VMID, vm.Hypervisor})
	}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured || err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Stdout, strings.Join(document.lines(), "\n"))
	return err
}

// lines say for people what would be done.
func (d templatePlanJSON) lines() []string {
	if !d.Changed {
		return []string{"unchanged " + d.Version}
	}
	var lines []string
	if d.Leftover != "" {
		lines = append(lines, "would be removed first, for an earlier run has left it: cluster "+d.Leftover)
	}
	word := map[string]string{"template build": "built", "template distribute": "copied"}[d.Verb]
	for _, vm := range d.VMs {
		lines = append(lines, fmt.Sprintf("would be %s: %s as VM %d on %s", word, d.Version, vm.VMID, vm.Hypervisor))
	}
	if d.InUse != "" && len(d.Differences) == 0 {
		lines = append(lines, "nothing differs from what is in use, "+d.InUse)
	}
	for _, difference := range d.Differences {
		lines = append(lines, fmt.Sprintf("differs from what is in use, %s: %s", d.InUse, difference))
	}
	return lines
}
