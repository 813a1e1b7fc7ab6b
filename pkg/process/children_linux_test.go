package process

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestEndChildren(t *testing.T) {
	start := func(group bool) (*exec.Cmd, int) {
		cmd := exec.Command("sh", "-c", "trap '' INT TERM; sleep 60 & echo $!; wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		grandchild, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(grandchild))
		if err != nil {
			t.Fatal(err)
		}
		return cmd, pid
	}
	leader, grandchild := start(true)
	other, itsChild := start(false) // such as what starts the simulator
	EndChildren()
	if living(grandchild) {
		t.Error("what a child has started still runs")
	}
	_ = leader.Wait()
	if !living(itsChild) {
		t.Error("a child without a group of its own was ended")
	}
	_ = syscall.Kill(itsChild, syscall.SIGKILL)
	_ = other.Process.Kill()
	_ = other.Wait()
}

func living(pid int) bool {
	stat, known := ReadStat(pid)
	return known && stat.State != "Z"
}
