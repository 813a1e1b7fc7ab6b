package cli

import (
	"os/exec"
	"testing"
)

func TestDeadProcess(t *testing.T) {
	self := thisProcess()
	if self.place == "" {
		t.Skip("there is no /proc here")
	}
	if self.dead() {
		t.Error("this process counts as dead")
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	stat, _ := readStat(child.Process.Pid)
	p := process{place: self.place, pid: child.Process.Pid, start: stat.start}
	if p.dead() {
		t.Error("a child that runs counts as dead")
	}
	if earlier := (process{place: self.place, pid: p.pid, start: "1"}); !earlier.dead() {
		t.Error("a process whose id another one has now counts as alive")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if !p.dead() {
		t.Error("a child that was killed counts as alive")
	}
	if (process{place: "elsewhere", pid: p.pid, start: stat.start}).dead() {
		t.Error("nothing is known of processes in another place")
	}
}
