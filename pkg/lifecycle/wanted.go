package lifecycle

import "hive-test/pkg/cluster"

// UpAsWanted reports whether the last up has ended well, and has made what the record asks for now.
func UpAsWanted(r *cluster.Record) bool { return r.Done(cluster.PhaseUp, UpInputs(r)) }

// ConfiguredAsWanted reports whether the last configure has ended well, and has put on the nodes what is asked for now. What
// only the nodes can tell, as the commit of a branch, is not known to be the same; where nothing is named there is nothing
// else to put on them.
func ConfiguredAsWanted(r *Job) (bool, error) {
	inputs, err := (&configure{Job: r}).wanted()
	if err != nil {
		return false, err
	}
	if inputs == "" {
		last := r.Record.Phases[cluster.PhaseConfigure]
		return !r.Hive.Source.Named() && last.Status == cluster.PhaseDone && last.Inputs == "", nil
	}
	return r.Record.Done(cluster.PhaseConfigure, inputs), nil
}
