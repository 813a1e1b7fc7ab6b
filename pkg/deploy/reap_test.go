package deploy

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	orphan := func(edit func(*Orphan)) []Orphan {
		s := Orphan{
			VMRef: VMRef{VMID: 20000, Name: "ci-1-1", Hypervisor: "pve1"}, Cluster: "ci-1", Owner: "me",
			Created: now.Add(-5 * time.Hour),
		}
		if edit != nil {
			edit(&s)
		}
		return []Orphan{s}
	}
	expired := func(s *Orphan) { s.Expires = now }
	life := func(edit func(*RunStatus)) []RunStatus {
		l := RunStatus{
			Cluster: "ci-1", Owner: "me", What: "full of cluster ci-1 by me@host", Until: now.Add(time.Minute),
		}
		edit(&l)
		return []RunStatus{l}
	}
	lapsed := func(l *RunStatus) { l.Until = now }
	for _, tc := range []struct {
		name    string
		orphans []Orphan
		runs    []RunStatus
		rule    ReapRule
		action  ReapAction // of the first; empty: it is not looked at
		reason  string
	}{
		{"nothing is known against it", orphan(nil), nil, ReapRule{}, ReapKeep, "kept"},
		{"its time is not up", orphan(func(s *Orphan) { s.Expires = now.Add(time.Second) }), nil, ReapRule{}, ReapKeep, "kept"},
		{"its time is up", orphan(expired), nil, ReapRule{}, ReapDelete, "expired"},
		{"its time is up, and it is held", orphan(func(s *Orphan) { expired(s); s.Held = true }), nil, ReapRule{OlderThan: 1}, ReapSkip, "held"},
		{"its time is up, and it is protected", orphan(func(s *Orphan) { expired(s); s.Protected = true }), nil, ReapRule{}, ReapSkip, "protected"},
		{"its time is up, and a run is at work", orphan(expired), life(func(*RunStatus) {}), ReapRule{OlderThan: 1}, ReapSkip, "live"},
		{"a run whose mark cannot be read counts as at work", orphan(expired), life(func(l *RunStatus) { l.Until = time.Time{} }), ReapRule{}, ReapSkip, "live"},
		{"a run at work on another cluster says nothing", orphan(expired), life(func(l *RunStatus) { l.Owner = "other" }), ReapRule{}, ReapDelete, "expired"},
		{"its run died and would have destroyed it", orphan(nil), life(func(l *RunStatus) { l.Dead, l.Destroys = true, true }), ReapRule{}, ReapDelete, Orphaned},
		{"the mark of its run has lapsed", orphan(nil), life(func(l *RunStatus) { lapsed(l); l.Destroys = true }), ReapRule{}, ReapDelete, Orphaned},
		{"its run died half way through up", orphan(nil), life(func(l *RunStatus) { lapsed(l); l.Provisioning = true }), ReapRule{}, ReapDelete, Orphaned},
		{"its run died and meant to leave it", orphan(nil), life(lapsed), ReapRule{}, ReapKeep, "kept"},
		{"its run died, and it is held", orphan(func(s *Orphan) { s.Held = true }), life(func(l *RunStatus) { l.Dead, l.Destroys = true, true }), ReapRule{}, ReapSkip, "held"},
		{"one died, another is at work", orphan(nil), append(life(func(l *RunStatus) { l.Dead, l.Destroys = true, true }), life(func(*RunStatus) {})...), ReapRule{}, ReapSkip, "live"},
		{"old", orphan(nil), nil, ReapRule{OlderThan: 4 * time.Hour}, ReapDelete, "old"},
		{"not old enough", orphan(nil), nil, ReapRule{OlderThan: 5 * time.Hour}, ReapKeep, "kept"},
		{"of unknown age", orphan(func(s *Orphan) { s.Created = time.Time{} }), nil, ReapRule{OlderThan: 1}, ReapKeep, "kept"},
		{"old, and its time is not up", orphan(func(s *Orphan) { s.Expires = now.Add(time.Hour) }), nil, ReapRule{OlderThan: 1}, ReapDelete, "old"},
		{"of another name", orphan(expired), nil, ReapRule{Name: "ci-10"}, "", ""},
		{"of that name", orphan(expired), nil, ReapRule{Name: "ci-1"}, ReapDelete, "expired"},
		{"of a name that begins alike", orphan(func(s *Orphan) { expired(s); s.Cluster = "ci-10" }), nil, ReapRule{Name: "ci-1"}, "", ""},
		{"of a name with the prefix", orphan(expired), nil, ReapRule{Prefix: "ci-"}, ReapDelete, "expired"},
		{"of a name without the prefix", orphan(expired), nil, ReapRule{Prefix: "ci-1-"}, "", ""},
		{"one of its VMs is held", append(orphan(expired), orphan(func(s *Orphan) { expired(s); s.VMID, s.Held = 20001, true })...), nil, ReapRule{}, ReapSkip, "held"},
		{"one of its VMs is tagged as protected", append(orphan(expired), orphan(func(s *Orphan) { expired(s); s.VMID, s.Guarded = 20001, true })...), nil, ReapRule{OlderThan: 1}, ReapSkip, "protected"},
		{"one of its VMs has more time", append(orphan(expired), orphan(func(s *Orphan) { s.VMID, s.Expires = 20001, now.Add(time.Hour) })...), nil, ReapRule{}, ReapKeep, "kept"},
		{"one of its VMs has no end", append(orphan(expired), orphan(func(s *Orphan) { s.VMID = 20001 })...), nil, ReapRule{}, ReapKeep, "kept"},
		{"a VM of another owner, same name, is held", append(orphan(expired), orphan(func(s *Orphan) { s.VMID, s.Owner, s.Held = 20001, "other", true })...), nil, ReapRule{}, ReapDelete, "expired"},
	} {
		tc.rule.Now = now
		decisions := Evaluate(tc.orphans, tc.runs, tc.rule)
		switch {
		case tc.action == "" && len(decisions) != 0:
			t.Errorf("%s: looked at: %v", tc.name, decisions)
		case tc.action == "":
		case len(decisions) != len(tc.orphans):
			t.Errorf("%s: %d decisions on %d VMs", tc.name, len(decisions), len(tc.orphans))
		case decisions[0].Action != tc.action || decisions[0].Reason != tc.reason || decisions[0].Detail == "":
			t.Errorf("%s: %s, %s (%s)", tc.name, decisions[0].Action, decisions[0].Reason, decisions[0].Detail)
		}
	}
}

func TestEnded(t *testing.T) {
	now := time.Now()
	dead := RunStatus{Cluster: "ci-1", Owner: "me", Dead: true, Provisioning: true}
	seen := []Orphan{{Cluster: "ci-1", Owner: "me"}}
	for _, tc := range []struct {
		name    string
		orphans []Orphan
		runs    []RunStatus
		want    int
	}{
		{"died before anything was seen", nil, []RunStatus{dead}, 1},
		{"its VMs are seen: they are judged", seen, []RunStatus{dead}, 0},
		{"at work again", nil, []RunStatus{dead, {Cluster: "ci-1", Owner: "me", Until: now.Add(time.Hour)}}, 0},
		{"had nothing in hand", nil, []RunStatus{{Cluster: "ci-1", Owner: "me", Dead: true}}, 0},
		{"not asked for", nil, []RunStatus{{Cluster: "dev", Owner: "me", Dead: true, Provisioning: true}}, 0},
	} {
		if got := Ended(tc.orphans, tc.runs, ReapRule{Now: now, Prefix: "ci-"}); len(got) != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
