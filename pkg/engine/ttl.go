package engine

import (
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/target"
)

// fullMargin is the part of the time that full gives the VMs that it destroys at its end, beside that of its phases.
const fullMargin = time.Hour

// destroys reports whether the run destroys the cluster at its end, whatever happens.
func (s *session) destroys() bool {
	return s.verb == "down" || (s.verb == "full" || s.verb == templateVerb) && s.keep() == lifecycle.KeepNever
}

// lifetime is how long the VMs of a new cluster are meant to exist; 0 is for ever.
func (s *session) lifetime() time.Duration {
	if s.Settings.Given("ttl") || !s.destroys() {
		return s.Settings.TTL
	}
	total := fullMargin
	for _, p := range []cluster.Phase{cluster.PhaseUp, cluster.PhaseConfigure, cluster.PhaseTest, cluster.PhaseDown} {
		limit := s.Settings.PhaseTimeout(string(p))
		if limit <= 0 {
			limit = target.UnlimitedPhase
		}
		total += limit
	}
	return (total + time.Hour - 1).Truncate(time.Hour)
}

// expiryAfter is the end of a lifetime that begins now; zero for one that has no end.
func expiryAfter(now time.Time, lifetime time.Duration) time.Time {
	if lifetime <= 0 {
		return time.Time{}
	}
	return now.Add(lifetime).UTC().Truncate(time.Second)
}
