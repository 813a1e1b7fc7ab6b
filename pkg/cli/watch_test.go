package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"hive-test/pkg/progress"
)

func looked(power, problem string) statusJSON {
	return statusJSON{Schema: outputSchema, Cluster: "dev1", Phase: "configure", State: "done", Formed: problem == "", Nodes: []nodeStatusJSON{
		{Name: "dev1-1", Power: power, Management: "10.0.0.1", SSH: "ok", Error: problem, Health: healthJSON{200, "running"}},
	}}
}

func TestWatchTellsChangesOnce(t *testing.T) {
	for _, tt := range []struct {
		format string
		lines  []int // after each look
	}{{"table", []int{2, 2, 4, 4, 5}}, {"json", []int{1, 1, 2, 2, 3}}} {
		var out bytes.Buffer
		w := &watcher{out: &out, format: tt.format, before: map[string]string{}}
		for i, document := range []statusJSON{
			looked("running", ""), looked("running", ""),
			looked("running", "read tcp 10.0.0.9:40001->10.0.0.1:4432: reset"),
			looked("running", "read tcp 10.0.0.9:40002->10.0.0.1:4432: reset"),
			looked("stopped", "read tcp 10.0.0.9:40003->10.0.0.1:4432: reset"),
		} {
			if err := w.show(document); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(out.String(), "\n"); got != tt.lines[i] {
				t.Errorf("%s, look %d: %d lines, want %d:\n%s", tt.format, i, got, tt.lines[i], out.String())
			}
		}
		if err := w.end(true, "dev1"); err != nil || !strings.Contains(out.String(), "gone") {
			t.Errorf("%s: the end: %v\n%s", tt.format, err, out.String())
		}
	}
}

func TestWatchTellsOfNodesThatLeave(t *testing.T) {
	var out bytes.Buffer
	w := &watcher{out: &out, format: "table", before: map[string]string{}}
	all := looked("running", "")
	none := all
	none.Nodes = nil
	if err := errors.Join(w.show(all), w.show(none), w.show(none)); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "dev1-1: no node of the cluster any more") != 1 {
		t.Error(out.String())
	}
}

// On a terminal the table is drawn over the last one, on a screen of its own, and the last one stays when that is left.
func TestWatchDrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	w := &watcher{out: &out, format: "table", screen: true, before: map[string]string{}, size: func() (page, int) { return page{}, 0 }}
	w.notes(progress.Discard).Emit(progress.Event{Kind: progress.Warning, Message: "DHCP has moved dev1-1"})
	if err := errors.Join(
		w.show(looked("running", "")), w.show(looked("stopped", "refused")), w.end(false, "dev1"),
	); err != nil {
		t.Fatal(err)
	}
	drawn, last, _ := strings.Cut(out.String(), leaveScreen)
	if strings.Count(drawn, enterScreen) != 1 || strings.Count(drawn, home) != 2 ||
		strings.Count(drawn, clearBelow) != 2 {
		t.Errorf("%q", drawn)
	}
	if strings.Contains(last, "\x1b") || !strings.Contains(last, "stopped") || strings.Contains(last, "running  10") ||
		!strings.Contains(last, "DHCP has moved") {
		t.Errorf("%q", last)
	}
}
