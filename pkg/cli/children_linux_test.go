package cli

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestEndChildren(t *testing.T) {
	start := func(group bool) (*exec.Cmd, string) {
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
		return cmd, strings.TrimSpace(grandchild)
	}
	leader, grandchild := start(true)
	other, itsChild := start(false) // such as what starts the simulator
	endChildren()
	_ = leader.Wait()
	for deadline := time.Now().Add(10 * time.Second); living(grandchild); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what a child has started still runs")
		}
	}
	if !living(itsChild) {
		t.Error("a child without a group of its own was ended")
	}
	_ = exec.Command("kill", "-KILL", itsChild).Run()
	_ = other.Process.Kill()
	_ = other.Wait()
}

func living(pid string) bool {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(raw), ") Z ")
}
