package engine

import (
	"cmp"
	"fmt"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/progress"
)

// protect refuses a verb that destroys where the cluster of the request is protected, by the settings or as it was made,
// unless --i-know names it. It reads what is here only, and touches nothing.
func (e *Engine) protect(verb string, request Request) error {
	return protection(verb, request.Name, request.Settings, e.recordHere(request))
}

// recordHere is the record of the request's cluster, or the spare copy of it; nil: there is none here that can be read.
func (e *Engine) recordHere(request Request) *cluster.Record {
	name, store, err := e.storeOf(request.Name, request.Settings)
	if err != nil {
		return nil
	}
	record, err := store.Load(name)
	if err != nil {
		if record, err = store.Backup(name); err != nil {
			return nil
		}
	}
	return record
}

// protect is Engine.protect for a session that has found the record, which may have been elsewhere.
func (s *session) protect() error { return protection(s.verb, s.Name.String(), s.Settings, s.Record) }

// protection is why a verb that destroys is refused; nil: it is not. A record of nil is that of no cluster.
func protection(verb, name string, settings config.Settings, record *cluster.Record) error {
	made := record != nil && record.Owner.Protected
	if !made && !settings.Protected || settings.IKnow == name {
		return nil
	}
	why := settings.Source("protected")
	if made {
		why = "it was made so"
		if record.Environment != "" {
			why += ", in environment " + record.Environment
		}
	}
	refused := fmt.Errorf("%s is protected (%s): %s was refused, and nothing was done", name, why, verb)
	if settings.IKnow != "" {
		refused = fmt.Errorf("%w: --i-know names %s", refused, settings.IKnow)
	}
	return usage(progress.WithHint(refused, "if it shall be, add --i-know "+name))
}

// protectAll is protect for a verb on all clusters that it finds: what must be named is the environment.
func protectAll(verb string, settings config.Settings) error {
	return protection(verb, cmp.Or(settings.Environment, everything), settings, nil)
}

// everything is what --i-know names where all clusters are meant and no environment is chosen.
const everything = "all"

// takeSettings are the verbs that do to a cluster what settings say. Others go by its record.
func takeSettings() []string {
	return []string{"up", "full", "configure", "test", "plan", "apply", "ensure"}
}

// goesByRecord reports whether a cluster of an environment can be worked on where none is chosen: what is needed of settings
// is recorded, or is there all the same.
func (s *session) goesByRecord(record *cluster.Record) bool {
	unread := !record.State.IsZero() && s.Settings.StatePassphrase.Empty() // what encrypts its state is in the environment
	return !slices.Contains(takeSettings(), s.verb) && (!unread || slices.Contains(withoutBackend(), s.verb))
}

// environmentAsMade refuses to work on a cluster in another environment than it was made in.
func (s *session) environmentAsMade(record *cluster.Record) error {
	made, chosen := record.Environment, s.Settings.Environment
	if made == "" || made == chosen || chosen == "" && s.goesByRecord(record) {
		return nil
	}
	now := "none is chosen"
	if chosen != "" {
		now = fmt.Sprintf("%s is chosen (%s)", chosen, s.Settings.Source("environment"))
	}
	hint := "add --env " + made
	if !slices.Contains(config.EnvironmentNames(s.Settings.Environments), made) {
		hint = fmt.Sprintf("name with --config the file that has environment %s, and add --env %s", made, made)
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %q is of environment %s, and %s: nothing was done", s.Name, made, now), hint,
	))
}

// protectAsAsked notes in the record of a cluster that up makes or changes which environment it is of, and whether it is
// protected. That is taken off only where it is said, and --i-know names the cluster.
func (s *session) protectAsAsked() error {
	s.Record.Environment = s.Settings.Environment
	switch {
	case s.verb == "full" && s.before == nil: // it is made to be destroyed, by reap if need be
	case s.Settings.Protected:
		s.Record.Owner.Protected = true
	case s.Record.Owner.Protected && s.Settings.Given("protected"):
		if err := s.protect(); err != nil {
			return err
		}
		s.Record.Owner.Protected = false
	}
	return nil
}

// protectFromChange refuses an up that deletes nodes of a protected cluster, or may.
func (s *session) protectFromChange(replaces bool) error {
	if s.before == nil || !replaces && len(s.before.Nodes) <= s.Record.Spec.NodeCount {
		return nil
	}
	return protection(s.verb+" that deletes nodes", s.Name.String(), s.Settings, s.before)
}

// protectCells refuses a matrix of which a cell is protected, unless --i-know names that cell's environment. Each full may
// then destroy the cluster that it makes.
func protectCells(cells []PlannedCell) error {
	for i := range cells {
		cell := &cells[i].Settings
		if !cell.Protected {
			continue
		}
		if err := protectAll(matrixVerb, *cell); err != nil {
			return err
		}
		cell.IKnow = cells[i].Name
	}
	return nil
}
