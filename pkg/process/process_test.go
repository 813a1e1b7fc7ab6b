package process

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDeadProcess(t *testing.T) {
	self := Self()
	if self.Place == "" {
		t.Skip("there is no /proc here")
	}
	if self.Dead() {
		t.Error("this process counts as dead")
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	stat, _ := ReadStat(child.Process.Pid)
	p := Process{Place: self.Place, PID: child.Process.Pid, Start: stat.Start}
	if p.Dead() {
		t.Error("a child that runs counts as dead")
	}
	if got := Parse(p.String()); got != p {
		t.Errorf("%v was read as %v", p, got)
	}
	for _, text := range []string{"", "here", "here:x:1", ":::"} {
		if Parse(text).Dead() {
			t.Errorf("%q tells of no process, and counts as dead", text)
		}
	}
	if earlier := (Process{Place: self.Place, PID: p.PID, Start: "1"}); !earlier.Dead() {
		t.Error("a process whose id another one has now counts as alive")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if !p.Dead() {
		t.Error("a child that was killed counts as alive")
	}
	if (Process{Place: "elsewhere", PID: p.PID, Start: stat.Start}).Dead() {
		t.Error("nothing is known of processes in another place")
	}
}

func TestAProcessMayHaveAnyName(t *testing.T) {
	const rest = " S 12 34 34 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987 0 0"
	want := Stat{State: "S", Parent: 12, Group: 34, Start: "987"}
	for _, name := range []string{"tofu", "two words", ") Z 1 1 (", "(sd-pam)", ""} {
		got, known := parseStat("56 (" + name + ")" + rest)
		if diff := cmp.Diff(want, got); diff != "" || !known {
			t.Errorf("%q: known: %v (-want +got)\n%s", name, known, diff)
		}
	}
	for _, line := range []string{"", "56", "56 (tofu)", "56 (tofu) S 12"} {
		if got, known := parseStat(line); known {
			t.Errorf("%q tells %v", line, got)
		}
	}
}
