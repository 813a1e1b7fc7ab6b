package report_test

import (
	"fmt"
	"time"

	"hive-test/pkg/progress"
)

// sample makes the events of a run that never was, for pictures and for measuring.
type sample struct {
	events  []progress.Event
	now     time.Time
	cluster string
	nodes   int
	phase   string
}

const sampleDir = "clusters/.runs/ci-123/20260301T120000.000Z-full"

// newSample is a run of full on a new cluster.
func newSample(nodes int, history bool) *sample {
	s := &sample{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), cluster: "ci-123", nodes: nodes}
	start := progress.Event{
		Kind: progress.RunStart, RunDir: sampleDir, OwnerID: "019cadd5-7c00-7c4e-a9f6-0d1c2b3a4f5e",
		Flags: []string{"--node-count=" + fmt.Sprint(nodes), "--binary=../hive/bin/hive"},
		Settings: []progress.Setting{
			{Key: "config", Value: "hive-test.yaml", From: "default"},
			{Key: "node_count", Value: fmt.Sprint(nodes), From: "flag --node-count"},
			{Key: "os_image", Value: "local:iso/debian-12-genericcloud-amd64.img", From: "hive-test.yaml:2"},
			{Key: "hive.binary", Value: "../hive/bin/hive", From: "flag --binary"},
			{Key: "proxmox.endpoint", Value: "https://pve1.example.net:8006", From: "environment PROXMOX_VE_ENDPOINT"},
			{Key: "suite", Value: "smoke, ./tests/e2e.sh --region eu-north-1", From: "flag --suite"},
		},
	}
	if history {
		for i := range 19 {
			past := progress.PastRun{
				Run: fmt.Sprintf("202602%02dT120000.000Z-full", 28-i), Verb: "full", Result: progress.Passed,
				Started: s.now.AddDate(0, 0, -1-i), Seconds: 240 + float64(i*37%90),
			}
			if i%7 == 3 {
				past.Result, past.Seconds = progress.Failed, 130
			}
			start.History = append(start.History, past)
		}
	}
	s.emit(start)
	return s
}

func (s *sample) emit(e progress.Event) {
	e.Time, e.Cluster, e.Verb = s.now, s.cluster, "full"
	if e.Phase == "" {
		e.Phase = s.phase
	}
	s.events = append(s.events, e)
}

func (s *sample) after(seconds float64) {
	s.now = s.now.Add(time.Duration(seconds * float64(time.Second)))
}

func (s *sample) node(i int) string { return fmt.Sprintf("%s-%d", s.cluster, i+1) }

func (s *sample) inPhase(name string, do func() error) {
	s.phase = name
	began := s.now
	s.emit(progress.Event{Kind: progress.PhaseStart})
	err := do()
	end := progress.Event{Kind: progress.PhaseEnd, Status: progress.Passed, Seconds: s.now.Sub(began).Seconds()}
	if err != nil {
		end.Status = progress.Failed
		end = end.WithError(err)
	}
	s.emit(end)
	s.phase = ""
}

func (s *sample) step(name string, do func(step string) error) error {
	return s.stepOf(progress.Event{Step: name}, do)
}

func (s *sample) stepOf(e progress.Event, do func(step string) error) error {
	began := s.now
	e.Kind = progress.StepStart
	s.emit(e)
	err := do(e.Step)
	e.Kind, e.Status, e.Seconds, e.Command = progress.StepEnd, progress.Passed, s.now.Sub(began).Seconds(), ""
	if err != nil {
		e.Status = progress.Failed
		e = e.WithError(err)
	}
	s.emit(e)
	return err
}

// takes is a step that all nodes are at for some time, each a bit longer than the one before.
func (s *sample) takes(seconds float64) func(step string) error {
	return func(step string) error {
		for i := range s.nodes {
			s.emit(progress.Event{Kind: progress.NodeState, Step: step, Node: s.node(i), Message: step})
		}
		s.after(seconds)
		for i := range s.nodes {
			s.after(seconds / 10)
			s.emit(progress.Event{Kind: progress.NodeState, Step: step, Node: s.node(i), Message: step + ": done"})
		}
		return nil
	}
}

func (s *sample) up() {
	s.inPhase("up", func() error {
		_ = s.step("claim the VM ids", func(string) error { s.after(0.4); return nil })
		_ = s.step("create the VMs", func(string) error {
			_ = s.step("tofu init", func(string) error { s.after(1.2); return nil })
			_ = s.step("tofu plan", func(string) error { s.after(4.5); return nil })
			return s.step("tofu apply", func(step string) error {
				for i := range s.nodes {
					s.emit(progress.Event{Kind: progress.NodeState, Step: step, Node: s.node(i), Message: "creating"})
				}
				for i := range s.nodes {
					s.after(20 / float64(s.nodes))
					s.emit(progress.Event{Kind: progress.NodeState, Step: step, Node: s.node(i), Message: "booting"})
				}
				return nil
			})
		})
		return s.step("find the addresses", func(step string) error {
			for i := range s.nodes {
				s.emit(progress.Event{
					Kind: progress.Wait, Step: step, Node: s.node(i), Message: "addresses of " + s.node(i),
					Error: "QEMU guest agent is not running",
				})
			}
			for i := range s.nodes {
				s.after(24 / float64(s.nodes))
				address := fmt.Sprintf("address 10.0.0.%d", 11+i)
				s.emit(progress.Event{Kind: progress.NodeState, Step: step, Node: s.node(i), Message: address})
			}
			return nil
		})
	})
}

func (s *sample) configure() {
	s.inPhase("configure", func() error {
		_ = s.step("cloud-init", s.takes(14))
		_ = s.step("install", func(step string) error {
			err := s.takes(9)(step)
			var nodes []progress.Node
			for i := range s.nodes {
				nodes = append(nodes, progress.Node{Name: s.node(i), Hive: "1.4.0"})
			}
			s.emit(progress.Event{Kind: progress.Debug, Step: step, Nodes: nodes})
			return err
		})
		_ = s.step("init", func(step string) error {
			s.emit(progress.Event{
				Kind: progress.Wait, Step: step, Message: "the formation server of " + s.node(0),
				Error: "dial tcp 10.0.0.11:4432: connect: connection refused",
			})
			s.after(6)
			return nil
		})
		_ = s.step("join", s.takes(5))
		_ = s.step("start", s.takes(11))
		return s.step("health", s.takes(8))
	})
}

func (s *sample) smoke() {
	_ = s.stepOf(progress.Event{Step: "smoke", Suite: "smoke", Message: "suite smoke"}, func(step string) error {
		place := 0
		for _, name := range []string{"health", "peers", "gateway", "regions", "instance-types"} {
			for i := range s.nodes {
				s.after(0.12)
				s.emit(progress.Event{
					Kind: progress.Case, Step: step, Suite: "smoke", Node: s.node(i), Name: name, Status: progress.Passed,
					Seconds: 0.12, Place: place,
				})
				place++
			}
		}
		return nil
	})
}

func (s *sample) down() {
	s.inPhase("down", func() error {
		return s.step("destroy the VMs", func(string) error { s.after(9); return nil })
	})
}

func (s *sample) end(status progress.Status, code int, x *progress.Explanation) []progress.Event {
	e := progress.Event{
		Kind: progress.RunEnd, Status: status, ExitCode: &code, RunDir: sampleDir, Explanation: x,
		Seconds: s.now.Sub(s.events[0].Time).Seconds(),
	}
	for i := range s.nodes {
		e.Nodes = append(e.Nodes, progress.Node{
			Name: s.node(i), VMID: 20010 + i, Hypervisor: fmt.Sprintf("pve%d", i%2+1),
			Management: fmt.Sprintf("10.0.0.%d", 11+i), Data: fmt.Sprintf("10.1.0.%d", 11+i),
		})
	}
	s.emit(e)
	return s.events
}

// passedRun is a run in which nothing is wrong.
func passedRun(nodes int) []progress.Event {
	s := newSample(nodes, true)
	s.up()
	s.configure()
	s.inPhase("test", func() error { s.smoke(); return nil })
	s.down()
	return s.end(progress.Passed, 0, nil)
}

// failedRun is a run in which a suite has so many cases, of every class.
func failedRun(cases int) []progress.Event {
	s := newSample(3, true)
	s.up()
	s.emit(progress.Event{
		Kind: progress.Warning, Phase: "up", Node: s.node(1), Message: "its clock is 40 s behind",
		Hint: "enable NTP on the hypervisor",
	})
	s.configure()
	s.inPhase("test", func() error {
		s.smoke()
		suite := progress.Event{
			Step: "e2e.sh", Suite: "e2e.sh", Message: "suite e2e.sh", Command: "./tests/e2e.sh --region eu-north-1",
		}
		return s.stepOf(suite, func(step string) error { return s.cases(step, cases) })
	})
	s.emit(progress.Event{
		Kind: progress.Info, Phase: "test", Message: "evidence of 3 nodes", Evidence: []string{"nodes/", "index.json"},
	})
	s.down()
	return s.end(progress.Failed, 6, &progress.Explanation{
		Phase: "test", Step: "e2e.sh", Where: "test, suite e2e.sh",
		What: "3 of " + fmt.Sprint(cases) + " cases failed: volumes/attach: timed out waiting for volume vol-0a3f",
		Lines: []string{
			"volume vol-0a3f is creating", "viperblock: write: no space left on device",
			"timed out after 60s: volume vol-0a3f is still creating",
		},
		From: sampleDir + "/suites/e2e.sh/output.log", Signature: "node-disk-full", Cause: "a disk of the node is full",
		Next: "hive-test full ci-123 --disk-size-gb=64",
	})
}

func (s *sample) cases(step string, n int) error {
	areas := []string{"instances", "images", "volumes", "network", "keys", "s3"}
	acts := []string{"create", "describe", "attach", "tag", "delete", "list", "stop", "start"}
	for i := range n {
		took := 0.3 + float64(i*7%23)/10
		s.after(took)
		e := progress.Event{
			Kind: progress.Case, Step: step, Suite: "e2e.sh", Status: progress.Passed, Seconds: took, Place: i,
			Name: areas[i%len(areas)] + "/" + acts[i/len(areas)%len(acts)],
		}
		if i >= len(areas)*len(acts) {
			e.Name += fmt.Sprintf("/%d", i/(len(areas)*len(acts)))
		}
		switch i {
		case 14, 20, 26:
			e.Status, e.Error = progress.Failed, "timed out waiting for volume vol-0a3f: it is still creating"
			e.File, e.Line = "tests/volumes_test.go", 80+i
			e.Output = "\x1b[1mvolume vol-0a3f\x1b[0m is creating\n\x1b[31mviperblock: write: no space left on device\x1b[0m\n" +
				"\x1b[33mwaiting 60s\x1b[0m\n\x1b[91mtimed out\x1b[0m after 60s: volume vol-0a3f is still \x1b[36mcreating\x1b[0m"
		case 5:
			e.Status, e.Error = progress.Flaky, "503 from the gateway; passed at the second try"
		case 9:
			e.Status, e.Error = progress.Quarantined, "got 2 routes, want 3"
			e.Message = "on the quarantine list until 2026-04-01: routes are being reworked"
		case 11, 17:
			e.Status, e.Message = progress.Skipped, "needs KVM"
		}
		s.emit(e)
	}
	return fmt.Errorf("3 of %d cases failed", n)
}

// longRun is a run of so many events of all kinds.
func longRun(events int) []progress.Event {
	s := newSample(10, true)
	s.up()
	s.inPhase("configure", func() error {
		for round := 0; len(s.events) < events/2; round++ {
			_ = s.step(fmt.Sprintf("round %d", round), func(step string) error {
				for i := range 10 {
					one := progress.Event{Kind: progress.Wait, Step: step, Node: s.node(i), Message: "SSH", Error: "refused"}
					s.emit(one)
					one.Kind, one.Error = progress.NodeState, ""
					s.emit(one)
					one.Kind, one.Message = progress.Output, "what a node says, in a line"
					s.emit(one)
				}
				s.after(0.1)
				return nil
			})
		}
		return nil
	})
	s.inPhase("test", func() error { return s.cases("e2e.sh", events-len(s.events)-10) })
	for i, e := range s.events {
		if e.Kind == progress.Case && i%10 == 0 { // one in ten fails
			s.events[i].Status, s.events[i].Error = progress.Failed, "got 2, want 3"
			s.events[i].Output = "\x1b[31mgot 2\x1b[0m\nwant 3\n"
		}
	}
	s.down()
	return s.end(progress.Failed, 6, nil)
}
