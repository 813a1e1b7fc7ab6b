package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
)

// three is a job on a cluster of three nodes that is up.
func three(t *testing.T, w *world) *Job {
	t.Helper()
	job := w.job(t)
	job.Record.Nodes = nil
	for i := range 3 {
		job.Record.Nodes = append(job.Record.Nodes, cluster.Node{
			Name: cluster.Name("ci-1").Node(i + 1), Index: i + 1, Placement: placement.VM{VMID: 20000 + i, Hypervisor: "pve1"}.Document(),
			Management: netip.MustParseAddr("127.0.0.1"),
		})
	}
	job.Record.Spec.NodeCount = 3
	return job
}

func ids(ids ...string) []deploy.Machine {
	machines := make([]deploy.Machine, len(ids))
	for i, id := range ids {
		machines[i].ID = id
	}
	return machines
}

var steps = map[string]string{hive.StepCloudInit: "c", hive.StepOS: "o", hive.StepInstall: "i/p", hive.StepStart: "s"}

// configured is the journal of a job whose nodes were all configured.
func configured(t *testing.T, w *world) *journal {
	t.Helper()
	job := three(t, w)
	book := &journal{Job: job, inputs: steps}
	job.Record.Begin(cluster.PhaseConfigure, "all", time.Now())
	book.refresh(ids("a", "b", "c"))
	for _, step := range []string{
		hive.StepCloudInit, hive.StepInstall, hive.StepStop, hive.StepInit, hive.StepJoin, hive.StepStart,
		hive.StepHealth,
	} {
		if err := book.Begin(t.Context(), step, job.Record.Nodes.Names()); err != nil {
			t.Fatal(err)
		}
		book.End(context.Background(), step, nil)
	}
	job.Record.End(cluster.PhaseConfigure, nil, time.Now())
	return book
}

func (j *journal) done() string {
	var list []string
	for _, node := range j.Record.Nodes {
		text := fmt.Sprint(node.Index)
		for _, step := range hive.OwnSteps() {
			if j.Done(step, node.Name) {
				text += " " + step
			}
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func TestJournal(t *testing.T) {
	const whole = "1 cloud-init install start, 2 cloud-init install start, 3 cloud-init install start"
	for _, tc := range []struct {
		name string
		do   func(*journal)
		want string
	}{
		{"all is done", func(*journal) {}, whole},
		{"force and parts of configuring do all again", func(j *journal) { j.again = true }, "1, 2, 3"},
		{"another program", func(j *journal) {
			j.inputs = map[string]string{hive.StepCloudInit: "c", hive.StepInstall: "i/q", hive.StepStart: "s2"}
		}, "1 cloud-init, 2 cloud-init, 3 cloud-init"},
		{"a program that cannot be known", func(j *journal) { j.inputs = map[string]string{hive.StepCloudInit: "c"} }, "1 cloud-init, 2 cloud-init, 3 cloud-init"},
		{
			"killed while one installs", func(j *journal) { _ = j.Begin(context.Background(), hive.StepInstall, []string{"ci-1-2"}) },
			"1 cloud-init install start, 2 cloud-init, 3 cloud-init install start",
		},
		{"one of two fails", func(j *journal) {
			_ = j.Begin(context.Background(), hive.StepInstall, []string{"ci-1-1", "ci-1-2"})
			j.End(context.Background(), hive.StepInstall, &hive.StepError{
				Step: hive.StepInstall, Nodes: []hive.NodeFailure{{Node: "ci-1-2", Err: errors.New("no")}},
			})
		}, "1 cloud-init install, 2 cloud-init, 3 cloud-init install start"},
		{"all fail", func(j *journal) {
			_ = j.Begin(context.Background(), hive.StepInstall, []string{"ci-1-1", "ci-1-2"})
			j.End(context.Background(), hive.StepInstall, errors.New("mixed"))
		}, "1 cloud-init, 2 cloud-init, 3 cloud-init install start"},
		{
			"killed while one is stopped", func(j *journal) { _ = j.Begin(context.Background(), hive.StepStop, []string{"ci-1-3"}) },
			"1 cloud-init install start, 2 cloud-init install start, 3 cloud-init install",
		},
		{"health begins", func(j *journal) { _ = j.Begin(context.Background(), hive.StepHealth, j.Record.Nodes.Names()) }, whole},
		{"another machine", func(j *journal) { j.refresh(ids("a", "x", "c")) }, "1 cloud-init install start, 2, 3 cloud-init install start"},
		{"machines that cannot be asked", func(j *journal) { j.refresh(ids("", "", "")) }, whole},
		{"one that up has made anew", func(j *journal) { j.Record.ForgetNodes("ci-1-1"); j.refresh(ids("", "b", "c")) }, "1, 2 cloud-init install start, 3 cloud-init install start"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			book := configured(t, &world{})
			tc.do(book)
			if diff := cmp.Diff(tc.want, book.done()); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheRecordIsWrittenBeforeEachStepThatAsksForSomething(t *testing.T) {
	w := &world{}
	book := configured(t, w)
	w.done = nil
	for _, nodes := range [][]string{{"ci-1-1"}, nil} {
		if err := book.Begin(context.Background(), hive.StepInstall, nodes); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.done) != 1 || w.saved.Phases[cluster.PhaseConfigure].Step != hive.StepInstall {
		t.Errorf("did %q", w.done)
	}
	if got := w.saved.Phases[cluster.PhaseConfigure].Nodes["ci-1-1"]; got.Step != hive.StepInstall ||
		got.Status != cluster.PhaseRunning || got.Machine != "a" {
		t.Errorf("%+v", got)
	}
}

func TestChangedInputsAreTold(t *testing.T) {
	for _, tc := range []struct{ install, want string }{
		{"i/p", ""},
		{"i/q", "the program changed: installing again on 3 nodes"},
		{"j/p", "the way to install the program has changed: installing again on 3 nodes"},
		{"", "whether the program has changed is not known before it is there: installing again on 3 nodes"},
	} {
		book, events := configured(t, &world{}), &progress.Memory{}
		book.inputs = map[string]string{hive.StepCloudInit: "c", hive.StepOS: "o", hive.StepInstall: tc.install}
		book.tell(events, book.Record.Nodes.Names())
		got := ""
		for _, e := range events.Events() {
			got += e.Message
		}
		if got != tc.want {
			t.Errorf("%q: told %q", tc.install, got)
		}
	}
}

func TestMachinesThatAreNotThoseOfUp(t *testing.T) {
	for _, tc := range []struct {
		name     string
		machines []deploy.Machine
		want     string // of the error
	}{
		{"as they were", ids("a", "b", "c"), ""},
		{"not to be asked", []deploy.Machine{{ID: "a"}, {Err: errors.New("no answer")}, {}}, ""},
		{"gone", []deploy.Machine{{ID: "a"}, {Gone: true, Err: errors.New("VM 20001 of ci-1-2 does not exist any more")}, {ID: "c"}}, "VM 20001"},
		{"replaced", ids("a", "b", "x"), "the VM of ci-1-3 was replaced by others"},
	} {
		w := &world{machines: tc.machines}
		job := three(t, w)
		for i, node := range job.Record.Nodes {
			job.Record.SetProgress(cluster.PhaseUp, node.Name, cluster.NodeProgress{Machine: string(rune('a' + i))})
		}
		c := &configure{Job: job}
		if tc.want == "" {
			if err := c.meet(t.Context()); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		err := c.Run(t.Context())
		if !errors.Is(err, ErrNotUp) || !strings.Contains(err.Error(), tc.want) ||
			!strings.Contains(progress.HintOf(err), "hive-test up ci-1") || len(w.done) > 0 {
			t.Errorf("%s: %v, did %q", tc.name, err, w.done)
		}
	}
}

// A host that somebody else runs is known by its host keys.
func TestExistingHostsAreKnownByTheirKeys(t *testing.T) {
	job := three(t, &world{})
	job.Record.Spec.Deployer, job.Deploy = cluster.DeployerExisting, hostsOf(job)
	t.Chdir(t.TempDir())
	file := job.Store.Path("ci-1", knownHostsFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	look := func(key string) string {
		t.Helper()
		if err := os.WriteFile(
			file, []byte("[127.0.0.1]:22 other\n127.0.0.1 ssh-ed25519 "+key+"\n"), 0o600,
		); err != nil {
			t.Fatal(err)
		}
		return job.machines(t.Context())[0].ID
	}
	if one, two := look("AAAA"), look("BBBB"); one == "" || one == two || one != look("AAAA") {
		t.Errorf("known as %q and %q", one, two)
	}
}

func TestMixedProgramsAreRefused(t *testing.T) {
	book := configured(t, &world{})
	c := &configure{Job: book.Job}
	c.Only = []string{"ci-1-2"}
	if err := c.compatible(book); err != nil {
		t.Errorf("the same program: %v", err)
	}
	book.inputs = map[string]string{hive.StepInstall: "i/q"}
	if err := c.compatible(book); err == nil ||
		!strings.Contains(err.Error(), "the program changed on ci-1-2 only: ci-1-1 has another one") {
		t.Errorf("%v", err)
	}
	c.From = hive.StepStart
	if err := c.compatible(book); err != nil {
		t.Errorf("nothing is installed: %v", err)
	}
}

func TestOnlyHealthWasLeft(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*configure, *journal)
		want bool
	}{
		{"killed at health", func(*configure, *journal) {}, true},
		{"failed at health", func(c *configure, _ *journal) {
			c.Record.End(cluster.PhaseConfigure, errors.New("unhealthy"), time.Now())
		}, false},
		{"killed before", func(_ *configure, j *journal) { _ = j.Begin(context.Background(), hive.StepStart, []string{"ci-1-1"}) }, false},
		{"force", func(c *configure, _ *journal) { c.Force = true }, false},
		{"another machine", func(c *configure, _ *journal) { c.machines = ids("a", "b", "x") }, false},
		{"other inputs", func(c *configure, _ *journal) { c.Record.SetInputs(cluster.PhaseConfigure, "before") }, false},
	} {
		book := configured(t, &world{})
		c := &configure{Job: book.Job, machines: ids("a", "b", "c")}
		c.Record.Begin(cluster.PhaseConfigure, "all", time.Now())
		if err := book.Begin(context.Background(), hive.StepHealth, c.Record.Nodes.Names()); err != nil {
			t.Fatal(err)
		}
		tc.do(c, book)
		if got := c.stoppedAtHealth(book, "all"); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// A hive is formed once all nodes have joined, which is on disk before any is started: from then on only --force forms
// another. With --force the one before is dropped as the first node is initialized.
func TestFormationIsNoted(t *testing.T) {
	for _, tc := range []struct {
		name  string
		force bool
		begin string // the last step that begins; those before it are done
		want  string
	}{
		{"killed as it is stopped", true, hive.StepStop, "[ci-1-1 ci-1-2]"},
		{"killed as it is formed", false, hive.StepJoin, "[ci-1-1 ci-1-2]"},
		{"killed as another is formed", true, hive.StepInit, "[]"},
		{"killed while nodes join another", true, hive.StepJoin, "[]"},
		{"killed as another is started", true, hive.StepStart, "[ci-1-1 ci-1-2 ci-1-3]"},
		{"killed at health", false, hive.StepHealth, "[ci-1-1 ci-1-2 ci-1-3]"},
	} {
		w := &world{}
		job := three(t, w)
		job.Force = tc.force
		job.Record.Formation = &cluster.Formation{Size: 2, Members: []string{"ci-1-1", "ci-1-2"}}
		book := &journal{Job: job, inputs: steps}
		for _, step := range hive.StepNames() {
			if err := book.Begin(t.Context(), step, job.Record.Nodes.Names()); err != nil {
				t.Fatal(err)
			}
			if step == tc.begin {
				break
			}
			book.End(t.Context(), step, nil)
		}
		if got := fmt.Sprint(w.saved.Formation.Members); got != tc.want {
			t.Errorf("%s: members %s, want %s", tc.name, got, tc.want)
		}
	}
}

// The hive of before is called untouched where no configure has begun to change it and not come to its end.
func TestHiveOfBefore(t *testing.T) {
	const (
		half      = "hive is half done"
		untouched = "the hive of before was not touched"
	)
	for _, tc := range []struct {
		name    string
		earlier string // the step that the configure before has ended at; empty: it was done
		force   bool   // it was asked to form hive anew
		last    string // the step at which the last has failed
		want    string
	}{
		{"it failed at once", "", false, hive.StepInstall, untouched},
		{"it failed after it has stopped hive", "", false, hive.StepStop, half},
		{"the one before failed at once, too", hive.StepInstall, false, hive.StepInstall, untouched},
		{"the one before has stopped hive", hive.StepStop, false, hive.StepInstall, half},
		{"the one before has dropped hive", hive.StepInit, true, hive.StepInstall, half},
		{"the one before has formed another", hive.StepStart, true, hive.StepInstall, half},
	} {
		book := configured(t, &world{})
		c := &configure{Job: book.Job}
		run := func(step string) {
			c.keepFormation()
			c.Record.Begin(cluster.PhaseConfigure, "all", time.Now())
			for _, begun := range hive.StepNames() {
				if err := book.Begin(t.Context(), begun, c.Record.Nodes.Names()); err != nil {
					t.Fatal(err)
				}
				if begun == step {
					c.Record.End(cluster.PhaseConfigure, errors.New("no"), time.Now())
					return
				}
				book.End(t.Context(), begun, nil)
			}
			c.Record.End(cluster.PhaseConfigure, nil, time.Now())
		}
		if tc.earlier != "" {
			c.Force = tc.force
			run(tc.earlier)
			c.Force = false
		}
		run(tc.last)
		if err := c.unconfigured(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		run("")
		if run(hive.StepInstall); !strings.Contains(c.unconfigured().Error(), untouched) {
			t.Errorf("%s, and done at last: %v", tc.name, c.unconfigured())
		}
	}
}
