package cli

import (
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/lifecycle"
)

// Parts of the time that full gives the VMs that it destroys at its end.
const (
	fullMargin = time.Hour
	// unlimitedPhase stands for a phase without a limit.
	unlimitedPhase = 24 * time.Hour
)

// destroys tells whether the verb destroys the cluster at its end, whatever happens.
func (a *app) destroys(verb string, settings config.Settings) bool {
	return verb == "down" || verb == "full" && a.keepPolicy(settings, verb) == lifecycle.KeepNever
}

// lifetime is how long the VMs of a new cluster are meant to exist; 0 is for ever.
func (a *app) lifetime(verb string, settings config.Settings) time.Duration {
	if settings.Given("ttl") || !a.destroys(verb, settings) {
		return settings.TTL
	}
	total := fullMargin
	for _, p := range []cluster.Phase{cluster.PhaseUp, cluster.PhaseConfigure, cluster.PhaseTest, cluster.PhaseDown} {
		limit := settings.PhaseTimeout(string(p))
		if limit <= 0 {
			limit = unlimitedPhase
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
