package opentofu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hive-test/pkg/process"
	"hive-test/pkg/progress"
)

const testProvider = "terraform-provider-thing_v1.0.0"

// atWork runs a shell under a name, as a child of this process, with an owner's and a run's mark in its environment.
func atWork(t *testing.T, name, script, owner string, run process.Process) *exec.Cmd {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell to leave behind")
	}
	program := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(shell, program); err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(filepath.Dir(program), "begun")
	cmd := exec.Command(program, "-c", script, "sh", begun)
	cmd.Dir = filepath.Dir(program)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HIVE_TEST_") }),
		ownerVariable+"="+owner, runVariable+"="+run.String())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			return cmd
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has not begun", name)
		}
	}
}

func lives(cmd *exec.Cmd) bool {
	stat, known := process.ReadStat(cmd.Process.Pid)
	return known && !stat.Dead()
}

func TestWhatDeadRunsLeftAtWorkIsEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	self := process.Self()
	if self.Place == "" {
		t.Skip("there is no /proc here")
	}
	dead := self
	dead.Start = "1"
	const wait = `: > "$1"; while :; do sleep 0.05; done`
	const writes = `trap 'sleep 0.2; : > state; exit' INT; ` + wait
	rows := []struct {
		what, name, script, owner string
		run                       process.Process
		ends                      bool
	}{
		{"a provider of a dead run", testProvider, wait, "ours", dead, true},
		{"a tofu of a dead run", "tofu", writes, "ours", dead, true},
		{"a tofu under any other name", "terraform-1.9", wait, "ours", dead, true},
		{"a tofu that does not listen", "terraform", `trap "" INT; ` + wait, "deaf", dead, true},
		{"a provider whose tofu is gone", testProvider, wait, "ours", self, true}, // its parent is this test, which is no tofu
		{"a tofu of a run that lives", "tofu", wait, "ours", self, false},
		{"another owner's provider", testProvider, wait, "ours-too", dead, false},
		{"a run of which nothing is known", "tofu", wait, "ours", process.Process{Place: "elsewhere", PID: 1, Start: "1"}, false},
	}
	started := make([]*exec.Cmd, len(rows))
	for i, row := range rows {
		started[i] = atWork(t, row.name, row.script, row.owner, row.run)
	}
	EndOrphans(t.Context(), "ours", progress.Discard)
	EndOrphans(t.Context(), "deaf", progress.Discard)
	EndOrphans(t.Context(), "", progress.Discard)
	for i, row := range rows {
		if lives(started[i]) == row.ends {
			t.Errorf("%s: lives is %v", row.what, row.ends)
		}
	}
	if _, err := os.Stat(filepath.Join(started[1].Dir, "state")); err != nil {
		t.Errorf("tofu was not let write its state: %v", err)
	}
}

func TestAProviderOfATofuThatLivesIsLeftAlone(t *testing.T) {
	self := process.Self()
	if self.Place == "" {
		t.Skip("there is no /proc here")
	}
	provider := filepath.Join(t.TempDir(), testProvider)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep program")
	}
	if err := os.Symlink(sleep, provider); err != nil {
		t.Fatal(err)
	}
	child := atWork(
		t, "tofu", `"`+provider+`" 60 & trap 'kill $!' EXIT; trap exit TERM; echo $! > pid; : > "$1"; wait`, "ours",
		self,
	)
	EndOrphans(t.Context(), "ours", progress.Discard)
	raw, err := os.ReadFile(filepath.Join(child.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("kill", "-0", strings.TrimSpace(string(raw))).Run(); err != nil {
		t.Error("the provider of a tofu that lives was ended")
	}
	_ = exec.Command("kill", "-KILL", strings.TrimSpace(string(raw))).Run()
}

// A look at the plan that is cut short leaves no provider at work, although tofu, which is killed, could not end it.
func TestACutShowLeavesNoProvider(t *testing.T) {
	if process.Self().Place == "" {
		t.Skip("there is no /proc here")
	}
	root := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep program")
	}
	provider := filepath.Join(root, testProvider)
	if err := os.Symlink(sleep, provider); err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(root, "begun")
	stub(
		t, filepath.Join(root, "tofu"),
		`case $1 in show) "`+provider+`" 60 >/dev/null 2>&1 & echo $! >"`+begun+`.new"; mv "`+begun+`.new" "`+begun+`"; trap "" INT; wait;; *) `+says("OpenTofu v1.10.6")+`;; esac`,
	)
	dir := filepath.Join(root, "clusters", "ci-1")
	plan := workdir{root: dir}.file(planFile)
	if err := os.MkdirAll(filepath.Dir(plan), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, plan, "a plan")
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TMPDIR=" + root}
	p := New(Options{
		Find: FindOptions{Explicit: filepath.Join(root, "tofu"), Env: env, CacheDir: root}, Env: env, CacheDir: root,
		OwnerID: root,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go whenThere(ctx, begun, cancel)
	if text, err := p.Show(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %q, %v", text, err)
	}
	raw, err := os.ReadFile(begun)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if stat, known := process.ReadStat(pid); known && !stat.Dead() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("the provider is still at work")
	}
}
