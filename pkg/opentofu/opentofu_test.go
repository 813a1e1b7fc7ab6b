package opentofu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/progress"
)

// sample is a module that needs no provider to be installed: what it makes is in its state only.
func sample() fs.FS {
	return fstest.MapFS{
		"main.tf": {Data: []byte(`terraform {
  backend "local" {}
}

resource "terraform_data" "thing" {
  for_each         = var.things
  input            = each.value
  triggers_replace = var.era

  lifecycle {
    precondition {
      condition     = each.value != "bad"
      error_message = "${each.key} is bad."
    }
  }
}
`)},
		"variables.tf": {Data: []byte(`variable "things" { type = map(string) }
variable "era" { type = string }
`)},
	}
}

type sampleVariables struct {
	Things map[string]string `json:"things"`
	Era    string            `json:"era"`
}

// programs are the real tofu and terraform that this machine has.
func programs(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, name := range []string{"tofu", "terraform"} {
		path, err := exec.LookPath(name)
		if built, _ := filepath.Abs("../../bin/" + name); err != nil {
			path, err = exec.LookPath(built)
		}
		if err == nil {
			list = append(list, path)
		}
	}
	if len(list) == 0 {
		t.Skip("neither tofu nor terraform is on PATH, nor was `make tofu` run")
	}
	return list
}

func TestLifeOfAModule(t *testing.T) {
	for _, program := range programs(t) {
		t.Run(filepath.Base(program), func(t *testing.T) {
			t.Parallel()
			dir, events := filepath.Join(t.TempDir(), "any"), &progress.Memory{}
			runner := New(Options{
				Module: sample(), Find: FindOptions{Explicit: program}, CacheDir: t.TempDir(), OwnerID: dir,
				NodeOf: keyOf, Sink: events,
			})
			first := sampleVariables{map[string]string{"a": "1", "b": "1"}, "old"}
			preview, err := runner.Preview(t.Context(), dir, first)
			if _, left := os.Stat(dir); err != nil || actions(preview.Changes) != "create a, create b" ||
				!errors.Is(left, fs.ErrNotExist) {
				t.Fatalf("%+v %v %v", preview, err, left)
			}
			for _, tc := range []struct {
				wanted     sampleVariables
				plan, done string
			}{
				{first, "create a, create b", "create a, create b"},
				{first, "", ""},
				{sampleVariables{map[string]string{"a": "2", "c": "1"}, "old"}, "update a, delete b, create c", "update a, delete b, create c"},
				{sampleVariables{map[string]string{"a": "2"}, "new"}, "replace a, delete c", "delete a, create a, delete c"},
			} {
				apply(t, runner, dir, tc.wanted, tc.plan, tc.done)
			}
			refuse(t, runner, dir)
			if text, err := runner.Show(t.Context(), dir); err != nil || text == "" {
				t.Errorf("the plan is shown as %q, %v", text, err)
			}
			run, err := runner.Begin(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			if err := run.Destroy(t.Context(), first, true); err != nil {
				t.Fatal(err)
			}
			if left, err := ReadState(StatePath(dir)); err != nil || len(left) != 0 {
				t.Errorf("left: %+v, %v", left, err)
			}
			if !slices.ContainsFunc(
				events.Events(), func(e progress.Event) bool { return e.Step == "tofu apply" && e.Node == "c" },
			) {
				t.Error("no output is told to be about c")
			}
		})
	}
}

// apply plans and applies, and compares what is planned and done.
func apply(t *testing.T, runner *Runner, dir string, wanted sampleVariables, planned, done string) {
	t.Helper()
	run, err := runner.Begin(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	plan, err := run.Plan(t.Context(), wanted)
	if err != nil || actions(plan.Changes) != planned || plan.Changed != (planned != "") {
		t.Fatalf("planned %+v, %v", plan, err)
	}
	for _, c := range plan.Changes {
		if (c.Action == "update") != cmp.Equal(c.Attributes, []Attribute{
			{"input", "1", "2"}, {"output", "1", "(known after apply)"},
		}) &&
			c.Action != "replace" {
			t.Errorf("%s %s changes %v", c.Action, c.Address, c.Attributes)
		}
	}
	made, err := run.Apply(t.Context(), plan)
	if err != nil || sorted(actions(made)) != sorted(done) {
		t.Errorf("did %s, %v", actions(made), err)
	}
}

// refuse checks how a failure is told.
func refuse(t *testing.T, runner *Runner, dir string) {
	t.Helper()
	run, err := runner.Begin(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	_, err = run.Plan(t.Context(), sampleVariables{map[string]string{"a": "bad"}, "new"})
	failure, ok := errors.AsType[*Failure](err)
	if !ok || failure.Step != "plan" || len(failure.Diagnostics) != 1 || failure.Diagnostics[0].Detail != "a is bad." {
		t.Errorf("got %v", err)
	}
}

// actions are changes in short, in the order of their keys.
func actions(list []Change) string {
	var texts []string
	for _, c := range slices.SortedStableFunc(
		slices.Values(list), func(a, b Change) int { return strings.Compare(a.Address, b.Address) },
	) {
		texts = append(texts, c.Action+" "+keyOf(c.Address))
	}
	return strings.Join(texts, ", ")
}

func sorted(text string) string {
	parts := strings.Split(text, ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// whenThere calls do, which is to end ctx, when a file is there, unless ctx ends before.
func whenThere(ctx context.Context, file string, do func()) {
	for ctx.Err() == nil {
		if _, err := os.Stat(file); err == nil {
			do()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A child that is interrupted and ends well all the same has an error without a text: nobody asks for it.
func TestShowThatIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	w := workdir{root: dir}
	if err := os.MkdirAll(w.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.file(planFile), []byte("plan"), 0o600); err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(dir, "begun")
	program := filepath.Join(dir, "tofu.sh")
	script := "#!/bin/sh\ncase $1 in\nversion) echo OpenTofu v1.12.6 ;;\nshow) trap 'exit 0' INT; touch " + begun +
		"; while :; do sleep 0.01; done ;;\nesac\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p := New(Options{
		Find: FindOptions{Explicit: program}, CacheDir: t.TempDir(), LogPath: filepath.Join(dir, "tofu.log"),
		Sink: progress.Discard,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go whenThere(ctx, begun, cancel)
	if text, err := p.Show(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", text, err)
	}
}
