package engine

import (
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/template"
)

// onEachCopy wants two clones of one copy of a template, for they must differ, and one of each other, each where its copy is. Where only
// hypervisors that are avoided have copies, there are two clones wherever they go.
func (s *session) onEachCopy(copies []template.Template) error {
	hosts := hostsOfCopies(placement.Hypervisors(s.Record.Spec), copies)
	if len(hosts) == 0 {
		return nil
	}
	s.Record.Spec.NodeCount, s.Record.Spec.PlaceBy = len(hosts)+1, ""
	return s.onlyOn(hosts)
}

// hostsOfCopies are hypervisors that new nodes go to, one for each copy that they can clone where it is.
func hostsOfCopies(hosts []placement.Hypervisor, copies []template.Template) []string {
	var names []string
	seen := map[int]bool{}
	can, _ := whoCanClone(hosts, copies)
	for _, name := range can {
		if own, _ := template.On(copies, name); !seen[own.VM.VMID] {
			seen[own.VM.VMID] = true
			names = append(names, name)
		}
	}
	return names
}
