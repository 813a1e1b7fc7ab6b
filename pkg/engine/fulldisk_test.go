package engine

import (
	"slices"
	"testing"

	"hive-test/pkg/progress"
)

// What a full disk does to files of the clusters directory is one warning, at the end; all else is told as it comes.
func TestFullDisk(t *testing.T) {
	const full = ": no space left on device"
	own := "writing /c/a/cluster.json: write /c/a/.cluster.json56" + full
	for _, tt := range []struct {
		name      string
		warnings  []string
		node      string
		now, last []string
	}{
		{"one", []string{own}, "", nil, []string{own}},
		{"one, twice", []string{own, own}, "", nil, []string{own}},
		{
			"several",
			[]string{own, "the reports are not complete: writing /c/.runs/a/1/report.md: write /c/x" + full + "\n" +
				"recording events: write /c/.runs/a/1/events.jsonl" + full},
			"", nil,
			[]string{"no space left on device: 3 files could not be written: cluster.json, events.jsonl, report.md"},
		},
		{"quota", []string{"write /c/a: disk quota exceeded"}, "", nil, []string{"write /c/a: disk quota exceeded"}},
		{"of a node", []string{own}, "a-1", []string{own}, nil},
		{"elsewhere", []string{"write /var/x" + full}, "", []string{"write /var/x" + full}, nil},
		{"another cause, too", []string{own + "\nwrite /c/b: bad file descriptor"}, "", []string{own + "\nwrite /c/b: bad file descriptor"}, nil},
		{"none", []string{"the clock of pve1 is off"}, "", []string{"the clock of pve1 is off"}, nil},
	} {
		var told progress.Memory
		d := &fullDisk{root: "/c", next: &told}
		for _, text := range tt.warnings {
			d.Emit(progress.Event{Kind: progress.Warning, Node: tt.node, Message: text})
		}
		now := len(told.Events())
		d.tell()
		d.tell()
		var got []string
		for _, e := range told.Events() {
			got = append(got, e.Message)
		}
		if !slices.Equal(got[:now], tt.now) || !slices.Equal(got[now:], tt.last) {
			t.Errorf("%s: told %q, and at the end %q", tt.name, got[:now], got[now:])
		}
	}
}
