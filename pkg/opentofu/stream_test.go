package opentofu

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/progress"
)

// keyOf is the key of an instance in an address like thing.node["a-1"].
func keyOf(address string) string {
	_, rest, _ := strings.Cut(address, `["`)
	key, _, _ := strings.Cut(rest, `"]`)
	return key
}

func plannedLine(action, reason, kind, key string) string {
	return `{"@level":"info","@message":"` + key + `: Plan to ` + action +
		`","type":"planned_change","change":{"resource":{"addr":"` + kind +
		`.node[\"` + key + `\"]","resource_type":"` + kind + `","resource_key":"` + key + `"},"action":"` + action +
		`","reason":"` + reason + `"}}` + "\n"
}

func TestPlanReading(t *testing.T) {
	lines := plannedLine("create", "", "thing", "a-1") + plannedLine("create", "", "thing", "a-2") +
		plannedLine("update", "", "thing", "a-3") +
		plannedLine("replace", "tainted", "thing", "a-4") + plannedLine("replace", "cannot_update", "other", "a-5") +
		plannedLine("delete", "delete_because_each_key", "thing", "a-6") + plannedLine("read", "", "x", "a-7")
	const totals = `{"@level":"info","@message":"Plan","type":"change_summary","changes":{"add":4,"change":1,"import":0,"remove":3,"operation":"plan"}}` + "\n"
	read := func(text string) ([]Change, error) {
		s := newStream(io.Discard, progress.Discard, nil, keyOf)
		if _, err := io.WriteString(s.json(), text); err != nil {
			t.Fatal(err)
		}
		return s.planned()
	}
	got, err := read(lines + totals)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{Address: `thing.node["a-1"]`, Type: "thing", Action: "create"},
		{Address: `thing.node["a-2"]`, Type: "thing", Action: "create"},
		{Address: `thing.node["a-3"]`, Type: "thing", Action: "update"},
		{Address: `thing.node["a-4"]`, Type: "thing", Action: "replace", Reason: "tainted"},
		{Address: `other.node["a-5"]`, Type: "other", Action: "replace", Reason: "cannot_update"},
		{Address: `thing.node["a-6"]`, Type: "thing", Action: "delete", Reason: "delete_because_each_key"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A kind of change that is not understood must not pass unseen.
	if _, err := read(strings.Replace(lines, `"action":"delete"`, `"action":"erase"`, 1) + totals); err == nil {
		t.Error("a plan that removes more than it lists was accepted")
	}
}

func TestOutputIsKeptWithoutSecrets(t *testing.T) {
	var log bytes.Buffer
	events := &progress.Memory{}
	s := newStream(&log, events, []string{"hunter2"}, keyOf)
	w := s.json()
	for _, part := range []string{
		`{"@level":"info","@message":"token hun`, `ter2","type":"log"}` + "\n", "not json hunter2\r\n\n",
		`{"@level":"error","@message":"Error: VM create","type":"diagnostic","diagnostic":{"severity":"error","summary":"VM create","detail":"line 1\nhunter2","address":"thing.node[\"a-1\"]"}}`,
	} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	w.flush()
	var got []string
	for _, e := range events.Events() {
		got = append(got, e.Node+"|"+e.Message)
	}
	want := []string{
		"|token ***", "|not json ***", "a-1|Error: VM create", "a-1|line 1", "a-1|***", `a-1|  with thing.node["a-1"]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if strings.Contains(log.String(), "hunter2") || strings.Count(log.String(), "\n") != len(want) {
		t.Errorf("log:\n%s", log.String())
	}
}

func TestProblemsInPlainOutput(t *testing.T) {
	text := "exit status 1\n╷\n│ Error: Failed to query available provider packages\n│ \n│ Could not retrieve the list of available versions:\n│ no such host\n╵\n"
	want := []Diagnostic{{
		Summary: "Failed to query available provider packages",
		Detail:  "Could not retrieve the list of available versions:\nno such host",
	}}
	if diff := cmp.Diff(want, plainProblems(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStatesOfNodesAreTold(t *testing.T) {
	hook := func(kind, resourceType, key, action string) string {
		return `{"@level":"info","@message":"x","type":"` + kind + `","hook":{"resource":{"addr":"` + resourceType + `.node[\"` + key +
			`\"]","resource_type":"` + resourceType + `"},"action":"` + action + `"}}` + "\n"
	}
	events := &progress.Memory{}
	s := newStream(io.Discard, events, nil, keyOf)
	s.stateOf = func(resourceType, action string, done bool) string {
		if resourceType != "thing" {
			return ""
		}
		return fmt.Sprint(action, " ", done)
	}
	_, _ = io.WriteString(s.json(), hook("apply_start", "other", "a-1", "create")+hook("apply_start", "thing", "a-1", "create")+
		hook("apply_progress", "thing", "a-1", "create")+hook("apply_complete", "thing", "a-1", "create")+
		hook("apply_errored", "thing", "a-2", "delete"))
	var got []string
	for _, e := range events.Events() {
		if e.Kind == progress.NodeState {
			got = append(got, e.Node+" "+e.Message)
		}
	}
	if want := []string{"a-1 create false", "a-1 create true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
