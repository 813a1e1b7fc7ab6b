package cluster

import "maps"

// SnapshotRecord is what was known of hive when a snapshot of the VMs was made: with the disks it comes back.
type SnapshotRecord struct {
	// Configure is the phase as it was; nil: nothing was configured yet.
	Configure *PhaseRecord `json:"configure,omitempty"`
	Formation *Formation   `json:"formation,omitempty"`
	AWS       *AWS         `json:"aws,omitempty"`
	Packages  []string     `json:"packages,omitempty"`
	Layout    string       `json:"layout,omitempty"`
	// Machines tell, by node, the machines that the snapshot was made of from those that take their place.
	Machines map[string]string `json:"machines,omitempty"`
}

// Restoring is a restore that was begun and has not ended.
type Restoring struct {
	Tag string `json:"tag"`
	// Protected are the nodes whose VMs were protected before: a rollback takes that away.
	Protected []string `json:"protected,omitempty"`
}

// NoteSnapshot remembers what is known of hive now, by the tag of a snapshot.
func (r *Record) NoteSnapshot(tag string) {
	noted := SnapshotRecord{Formation: r.Formation, AWS: r.AWS, Packages: r.Packages, Layout: r.Layout}
	if entry, begun := r.Phases[PhaseConfigure]; begun {
		noted.Configure = &entry
	}
	for name, progress := range r.Phases[PhaseUp].Nodes {
		if progress.Machine == "" {
			continue
		}
		if noted.Machines == nil {
			noted.Machines = map[string]string{}
		}
		noted.Machines[name] = progress.Machine
	}
	r.Snapshots = maps.Clone(r.Snapshots)
	if r.Snapshots == nil {
		r.Snapshots = map[string]SnapshotRecord{}
	}
	r.Snapshots[tag] = noted
}

// ForgetSnapshot forgets what was known of hive then.
func (r *Record) ForgetSnapshot(tag string) {
	r.Snapshots = maps.Clone(r.Snapshots)
	delete(r.Snapshots, tag)
}

// ReturnTo makes known of hive again what was known when that snapshot was made. Where that was not noted, as by a
// record that was recovered, what is known now stays.
func (r *Record) ReturnTo(tag string) {
	noted, known := r.Snapshots[tag]
	if !known {
		return
	}
	r.Formation, r.AWS, r.Packages, r.Layout = noted.Formation, noted.AWS, noted.Packages, noted.Layout
	r.Phases = maps.Clone(r.Phases)
	delete(r.Phases, PhaseConfigure)
	if noted.Configure != nil {
		r.Phases[PhaseConfigure] = *noted.Configure
	}
}
