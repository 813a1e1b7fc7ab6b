package cluster

import "slices"

// Formation is the hive that was formed last. Hive cannot add or remove members: another one takes forming it anew.
type Formation struct {
	// Size is the number of nodes that it was formed of.
	Size int `json:"size"`
	// Members are the names of those that are still there: not of nodes that are gone, or were made anew since.
	Members []string `json:"members"`
	// Half says that a configure has begun to change it and did not come to its end.
	Half bool `json:"half,omitempty"`
}

// Form notes that hive is formed of all nodes of the record.
func (r *Record) Form() { r.Formation = &Formation{Size: len(r.Nodes), Members: r.Nodes.Names()} }

// Unform notes that the hive that was formed is dropped.
func (r *Record) Unform() { r.Formation = &Formation{Members: []string{}} }

// KeepFormation notes the hive that was formed where an earlier version did not, before what tells of it is changed. Half
// says that a configure that did not come to its end has begun to change that hive.
func (r *Record) KeepFormation(half bool) {
	if formed, was := r.Formed(); was {
		formed.Half = formed.Half || half
		r.Formation = &formed
	}
}

// Formed returns the hive that was formed, and whether one was of which members are still there. Records of earlier
// versions tell only of which nodes configuring was begun.
func (r *Record) Formed() (Formation, bool) {
	if r.Formation != nil {
		return *r.Formation, len(r.Formation.Members) > 0
	}
	configured := r.Phases[PhaseConfigure]
	if r.AWS == nil && configured.Status != PhaseDone || len(configured.Nodes) == 0 {
		return Formation{}, false
	}
	var members []string
	for _, name := range r.Nodes.Names() {
		if _, known := configured.Nodes[name]; known {
			members = append(members, name)
		}
	}
	return Formation{Size: len(members), Members: members}, len(members) > 0
}

// Outsiders returns the names of the nodes that the hive that was formed does not know; none where none was formed.
func (r *Record) Outsiders() []string {
	formed, was := r.Formed()
	if !was {
		return nil
	}
	return slices.DeleteFunc(r.Nodes.Names(), func(name string) bool { return slices.Contains(formed.Members, name) })
}

// OtherMembers reports whether the hive that was formed has other members than the cluster has nodes.
func (r *Record) OtherMembers() bool {
	formed, was := r.Formed()
	return was && (formed.Size != len(formed.Members) || len(r.Outsiders()) > 0)
}

// forget forgets members that are gone or made anew.
func (f *Formation) forget(names []string) *Formation {
	if f == nil {
		return nil
	}
	left := *f
	left.Members = slices.DeleteFunc(
		slices.Clone(f.Members), func(name string) bool { return slices.Contains(names, name) },
	)
	return &left
}
