package deploy

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	stray := func(edit func(*Orphan)) []Orphan {
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
		name   string
		strays []Orphan
		lives  []RunStatus
		rule   ReapRule
		action ReapAction // of the first; empty: it is not looked at
		reason string
	}{
		{"nothing is known against it", stray(nil), nil, ReapRule{}, ReapKeep, "kept"},
		{"its time is not up", stray(func(s *Orphan) { s.Expires = now.Add(time.Second) }), nil, ReapRule{}, ReapKeep, "kept"},
		{"its time is up", stray(expired), nil, ReapRule{}, ReapDelete, "expired"},
		{"its time is up, and it is held", stray(func(s *Orphan) { expired(s); s.Held = true }), nil, ReapRule{OlderThan: 1}, ReapSkip, "held"},
		{"its time is up, and it is protected", stray(func(s *Orphan) { expired(s); s.Protected = true }), nil, ReapRule{}, ReapSkip, "protected"},
		{"its time is up, and a run is at work", stray(expired), life(func(*RunStatus) {}), ReapRule{OlderThan: 1}, ReapSkip, "live"},
		{"a run whose mark cannot be read counts as at work", stray(expired), life(func(l *RunStatus) { l.Until = time.Time{} }), ReapRule{}, ReapSkip, "live"},
		{"a run at work on another cluster says nothing", stray(expired), life(func(l *RunStatus) { l.Owner = "other" }), ReapRule{}, ReapDelete, "expired"},
		{"its run died and would have destroyed it", stray(nil), life(func(l *RunStatus) { l.Dead, l.Destroys = true, true }), ReapRule{}, ReapDelete, Orphaned},
		{"the mark of its run has lapsed", stray(nil), life(func(l *RunStatus) { lapsed(l); l.Destroys = true }), ReapRule{}, ReapDelete, Orphaned},
		{"its run died half way through up", stray(nil), life(func(l *RunStatus) { lapsed(l); l.Provisioning = true }), ReapRule{}, ReapDelete, Orphaned},
		{"its run died and meant to leave it", stray(nil), life(lapsed), ReapRule{}, ReapKeep, "kept"},
		{"its run died, and it is held", stray(func(s *Orphan) { s.Held = true }), life(func(l *RunStatus) { l.Dead, l.Destroys = true, true }), ReapRule{}, ReapSkip, "held"},
		{"one died, another is at work", stray(nil), append(life(func(l *RunStatus) { l.Dead, l.Destroys = true, true }), life(func(*RunStatus) {})...), ReapRule{}, ReapSkip, "live"},
		{"old", stray(nil), nil, ReapRule{OlderThan: 4 * time.Hour}, ReapDelete, "old"},
		{"not old enough", stray(nil), nil, ReapRule{OlderThan: 5 * time.Hour}, ReapKeep, "kept"},
		{"of unknown age", stray(func(s *Orphan) { s.Created = time.Time{} }), nil, ReapRule{OlderThan: 1}, ReapKeep, "kept"},
		{"old, and its time is not up", stray(func(s *Orphan) { s.Expires = now.Add(time.Hour) }), nil, ReapRule{OlderThan: 1}, ReapDelete, "old"},
		{"of another name", stray(expired), nil, ReapRule{Name: "ci-10"}, "", ""},
		{"of that name", stray(expired), nil, ReapRule{Name: "ci-1"}, ReapDelete, "expired"},
		{"of a name that begins alike", stray(func(s *Orphan) { expired(s); s.Cluster = "ci-10" }), nil, ReapRule{Name: "ci-1"}, "", ""},
		{"of a name with the prefix", stray(expired), nil, ReapRule{Prefix: "ci-"}, ReapDelete, "expired"},
		{"of a name without the prefix", stray(expired), nil, ReapRule{Prefix: "ci-1-"}, "", ""},
		{"one of its VMs is held", append(stray(expired), stray(func(s *Orphan) { expired(s); s.VMID, s.Held = 20001, true })...), nil, ReapRule{}, ReapSkip, "held"},
		{"one of its VMs has more time", append(stray(expired), stray(func(s *Orphan) { s.VMID, s.Expires = 20001, now.Add(time.Hour) })...), nil, ReapRule{}, ReapKeep, "kept"},
		{"one of its VMs has no end", append(stray(expired), stray(func(s *Orphan) { s.VMID = 20001 })...), nil, ReapRule{}, ReapKeep, "kept"},
		{"a VM of another owner, same name, is held", append(stray(expired), stray(func(s *Orphan) { s.VMID, s.Owner, s.Held = 20001, "other", true })...), nil, ReapRule{}, ReapDelete, "expired"},
	} {
		tc.rule.Now = now
		verdicts := Evaluate(tc.strays, tc.lives, tc.rule)
		switch {
		case tc.action == "" && len(verdicts) != 0:
			t.Errorf("%s: looked at: %v", tc.name, verdicts)
		case tc.action == "":
		case len(verdicts) != len(tc.strays):
			t.Errorf("%s: %d verdicts on %d VMs", tc.name, len(verdicts), len(tc.strays))
		case verdicts[0].Action != tc.action || verdicts[0].Reason != tc.reason || verdicts[0].Detail == "":
			t.Errorf("%s: %s, %s (%s)", tc.name, verdicts[0].Action, verdicts[0].Reason, verdicts[0].Detail)
		}
	}
}

func TestEnded(t *testing.T) {
	now := time.Now()
	dead := RunStatus{Cluster: "ci-1", Owner: "me", Dead: true, Provisioning: true}
	seen := []Orphan{{Cluster: "ci-1", Owner: "me"}}
	for _, tc := range []struct {
		name   string
		strays []Orphan
		lives  []RunStatus
		want   int
	}{
		{"died before anything was seen", nil, []RunStatus{dead}, 1},
		{"its VMs are seen: they are judged", seen, []RunStatus{dead}, 0},
		{"at work again", nil, []RunStatus{dead, {Cluster: "ci-1", Owner: "me", Until: now.Add(time.Hour)}}, 0},
		{"had nothing in hand", nil, []RunStatus{{Cluster: "ci-1", Owner: "me", Dead: true}}, 0},
		{"not asked for", nil, []RunStatus{{Cluster: "dev", Owner: "me", Dead: true, Provisioning: true}}, 0},
	} {
		if got := Ended(tc.strays, tc.lives, ReapRule{Now: now, Prefix: "ci-"}); len(got) != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
