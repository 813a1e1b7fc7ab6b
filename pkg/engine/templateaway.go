package engine

import (
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
	"hive-test/pkg/template"
)

// warnOfAway tells of templates that cannot be read now: what follows goes on without them.
func (s *session) warnOfAway(away []deploy.Template) {
	if err := awayError(away, nil); err != nil {
		progress.Warn(s.Sink, err.Error(), progress.HintOf(err))
	}
}

// awayError says that templates cannot be read, and what can be done: to build another one, too, where otherwise there is an error.
// Where there are none of them it is that error.
func awayError(away []deploy.Template, otherwise error) error {
	if len(away) == 0 {
		return otherwise
	}
	var places, hosts []string
	for _, t := range away {
		places = append(places, fmt.Sprintf("VM %d (%s) on %s", t.VMID, strings.Join(layersIn(t.Tags), ", "), t.Hypervisor))
		if !slices.Contains(hosts, t.Hypervisor) {
			hosts = append(hosts, t.Hypervisor)
		}
	}
	hint := fmt.Sprintf("start %s; see: pvecm status", strings.Join(hosts, ", "))
	if layers := layersIn(away[0].Tags); otherwise != nil && len(layers) > 0 {
		hint += fmt.Sprintf(
			"; or make another one meanwhile: hive-test template build %s --avoid-hypervisor %s", layers[0], strings.Join(hosts, ","),
		)
	}
	return progress.WithHint(fmt.Errorf(
		"%s cannot be read, for the hypervisor is offline: %s", progress.Count(len(away), "template"), strings.Join(places, ", "),
	), hint)
}

// whyNone says why a template needs no further copies.
func whyNone(copies []template.Template) string {
	for _, t := range copies {
		if t.VM.Shared {
			return fmt.Sprintf("the disk of %s is on storage that all hypervisors share", t.VM)
		}
	}
	return "each hypervisor that nodes go to has one"
}

// layersIn are the layers that tags of a template name.
func layersIn(tags []string) []string {
	var layers []string
	for _, tag := range tags {
		if layer, ok := strings.CutPrefix(tag, "hive-"); ok && tag != deploy.TemplateTag {
			layers = append(layers, layer)
		}
	}
	return layers
}
