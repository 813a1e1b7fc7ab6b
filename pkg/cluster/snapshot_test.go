package cluster_test

import (
	"strings"
	"testing"
	"time"

	"hive-test/pkg/cluster"
)

func TestSnapshotTags(t *testing.T) {
	for tag, valid := range map[string]bool{
		"clean": true, "S1_a-b": true, "ab": true, strings.Repeat("a", 40): true,
		"": false, "a": false, "1st": false, "_x": false, "a b": false, "a.b": false, strings.Repeat("a", 41): false,
		"current": false, "Current": false, "pending": false, "vzdump": true,
	} {
		if err := cluster.CheckSnapshotTag(tag); (err == nil) != valid {
			t.Errorf("%q: %v, want valid %v", tag, err, valid)
		}
	}
}

// A snapshot is a cluster's only if it names the cluster and its owner, once.
func TestOwnsSnapshot(t *testing.T) {
	mine := cluster.SnapshotDescription("dev", "01a2")
	for text, owned := range map[string]bool{
		mine: true, mine + "\nkept for Bob": true, mine + "\n": true,
		"": false, "by hand": false, mine + "\n" + mine: false, cluster.SnapshotDescription("other", "01a2"): false,
		cluster.SnapshotDescription("dev", "01a3"): false, cluster.Description("dev", cluster.Owner{ID: "01a2"}): false,
	} {
		if cluster.OwnsSnapshot(text, "dev", "01a2") != owned {
			t.Errorf("%q: owned %v, want %v", text, !owned, owned)
		}
	}
	if cluster.OwnsSnapshot(cluster.SnapshotDescription("dev", ""), "dev", "") {
		t.Error("a cluster without an owner id owns a snapshot")
	}
}

// What was known of hive when a snapshot was made comes back with it, and nothing of it is shared with what is known now.
func TestReturnTo(t *testing.T) {
	r := &cluster.Record{Phases: map[cluster.Phase]cluster.PhaseRecord{}}
	r.NoteSnapshot("bare")
	r.Begin(cluster.PhaseConfigure, "inputs", time.Unix(1, 0))
	r.End(cluster.PhaseConfigure, nil, time.Unix(2, 0))
	r.AWS, r.Layout = &cluster.AWS{Region: "one"}, "systemd"
	r.NoteSnapshot("clean")
	r.Begin(cluster.PhaseConfigure, "others", time.Unix(3, 0))
	r.AWS = &cluster.AWS{Region: "two"}

	r.ReturnTo("clean")
	if !r.Done(cluster.PhaseConfigure, "inputs") || r.AWS.Region != "one" || r.Layout != "systemd" {
		t.Errorf("after clean: %+v, %+v", r.Phases, r.AWS)
	}
	r.ReturnTo("unknown")
	if !r.Done(cluster.PhaseConfigure, "inputs") {
		t.Errorf("after one that is not noted: %+v", r.Phases)
	}
	r.ReturnTo("bare")
	if _, begun := r.Phases[cluster.PhaseConfigure]; begun || r.AWS != nil || r.Layout != "" {
		t.Errorf("after bare: %+v, %+v", r.Phases, r.AWS)
	}
	r.ForgetSnapshot("bare")
	if _, known := r.Snapshots["bare"]; known || len(r.Snapshots) != 1 {
		t.Errorf("left: %v", r.Snapshots)
	}
}
