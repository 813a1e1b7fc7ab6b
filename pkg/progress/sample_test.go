package progress

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with testdata/name, or rewrites it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), rewrite with -update:\n%s", path, diff)
	}
}

// at is an event some time after the one before it.
type at struct {
	after time.Duration
	Event
}

// play sends events to sink in their rhythm, in the made-up time of a synctest bubble.
func play(sink Sink, events []at) {
	sink = With(sink, Event{Cluster: "ci-123", Verb: "full"})
	for _, e := range events {
		time.Sleep(e.after)
		sink.Emit(e.Event)
	}
}

const second = time.Second

// failedRun is a full run whose configure fails on node 2, with all that a renderer has to cope with.
func failedRun() []at {
	code := 5
	full := errors.New("install.sh exited with 1: no space left on device\n100% full: /dev/sda1, /var")
	full = WithHint(WithNodes(full, "ci-123-2"), "--disk-size-gb=64")
	step := Event{Kind: StepEnd, Phase: "configure", Step: "install", Node: "ci-123-2", Status: Failed, Seconds: 3}
	phase := Event{Kind: PhaseEnd, Phase: "configure", Status: Failed, Seconds: 4}
	return []at{
		{0, Event{Kind: RunStart, RunDir: "clusters/.runs/ci-123/20000101T000000Z-full"}},
		{0, Event{Kind: PhaseStart, Phase: "up"}},
		{0, Event{Kind: StepStart, Phase: "up", Step: "apply", Message: "3 VMs"}},
		{second, Event{Kind: Output, Phase: "up", Step: "apply", Message: "proxmox_virtual_environment_vm.node[\"1\"]: Creating..."}},
		{11 * second, Event{Kind: StepEnd, Phase: "up", Step: "apply", Status: Passed, Seconds: 12}},
		{0, Event{Kind: StepStart, Phase: "up", Step: "addresses"}},
		{second, Event{Kind: Wait, Phase: "up", Step: "addresses", Message: "an address of ci-123-2", Error: "QEMU guest agent is not running"}},
		{second, Event{Kind: Wait, Phase: "up", Step: "addresses", Message: "an address of ci-123-2", Error: "QEMU guest agent is not running"}},
		{second, Event{Kind: Wait, Phase: "up", Step: "addresses", Message: "an address of ci-123-2", Error: "no address on net0 yet"}},
		{5 * second, Event{Kind: StepEnd, Phase: "up", Step: "addresses", Status: Passed, Seconds: 8}},
		{0, Event{Kind: PhaseEnd, Phase: "up", Status: Passed, Seconds: 20}},
		{0, Event{Kind: PhaseStart, Phase: "configure"}},
		{0, Event{Kind: Warning, Phase: "configure", Node: "ci-123-1", Message: "clock is 40 s behind", Hint: "enable NTP on the hypervisor"}},
		{0, Event{Kind: Info, Phase: "configure", Message: "hive 1.4.0 from ./hive"}},
		{0, Event{Kind: StepStart, Phase: "configure", Step: "install", Node: "ci-123-1"}},
		{0, Event{Kind: StepStart, Phase: "configure", Step: "install", Node: "ci-123-2"}},
		{second, Event{Kind: Output, Phase: "configure", Step: "install", Node: "ci-123-1", Message: "\x1b[32mok\x1b[0m: ::error::not a command"}},
		{second, Event{Kind: Debug, Phase: "configure", Node: "ci-123-2", Message: "session 3 opened"}},
		{0, Event{Kind: StepEnd, Phase: "configure", Step: "install", Node: "ci-123-1", Status: Passed, Seconds: 2}},
		{second, step.WithError(full)},
		{second, phase.WithError(fmt.Errorf("install: %w", full))},
		{0, Event{Kind: PhaseStart, Phase: "test"}},
		{0, Event{Kind: PhaseEnd, Phase: "test", Status: Skipped, Message: "not run: configure failed"}},
		{0, Event{Kind: PhaseStart, Phase: "down"}},
		{65 * second, Event{Kind: PhaseEnd, Phase: "down", Status: Passed, Seconds: 65}},
		{0, Event{
			Kind: RunEnd, Status: Failed, Seconds: 89, ExitCode: &code,
			Message: "clusters/.runs/ci-123/20000101T000000Z-full/report.md",
			RunDir:  "clusters/.runs/ci-123/20000101T000000Z-full",
			Explanation: &Explanation{
				Phase: "configure", Step: "install", Node: "ci-123-2",
				What:  "install.sh exited with 1: no space left on device",
				Lines: []string{"100% full: /dev/sda1, /var"}, From: "the log on ci-123-2", Signature: "node-disk-full",
				Cause: "a disk of the node is full",
				Next:  "hive-test up ci-123 --disk-size-gb=64",
			},
		}.WithError(fmt.Errorf("configure: install: %w", full))},
	}
}

// testedRun is a run of the suites, with a failed case.
func testedRun() []at {
	code := 6
	return []at{
		{0, Event{Kind: PhaseStart, Phase: "test"}},
		{0, Event{Kind: Note, Phase: "test", Step: "smoke", Message: "left out: vpcd (there is no Open vSwitch bridge br-int)"}},
		{second, Event{Kind: Case, Phase: "test", Suite: "smoke", Name: "gateway", Node: "ci-123-1", Status: Passed, Seconds: 0.25}},
		{0, Event{Kind: Case, Phase: "test", Suite: "smoke", Name: "peers", Node: "ci-123-2", Status: Failed, Seconds: 1.5, Error: "sees 1 of 2 peers", Output: "asked ci-123-1\nno answer"}},
		{0, Event{Kind: Case, Phase: "test", Suite: "smoke", Name: "snapshots", Status: Skipped, Message: "not supported here"}},
		{0, Event{Kind: PhaseEnd, Phase: "test", Status: Failed, Seconds: 2, Error: "1 of 3 cases failed"}},
		{0, Event{Kind: RunEnd, Status: Failed, Seconds: 2, ExitCode: &code}},
	}
}

// rendered is what a renderer writes of events.
func rendered(t *testing.T, events []at, renderer func(*bytes.Buffer) Renderer) []byte {
	t.Helper()
	var b bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		r := renderer(&b)
		play(r, events)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
	})
	return b.Bytes()
}
