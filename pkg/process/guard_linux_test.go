package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// guardedVariable makes this program run a guarded group and wait to be killed; its value is what the group runs.
const guardedVariable = "HIVE_TEST_GUARDED"

func TestMain(m *testing.M) {
	if script := os.Getenv(guardedVariable); script != "" {
		runGuarded(script)
	}
	os.Exit(m.Run())
}

func runGuarded(script string) {
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout = os.Stdout
	if _, err := StartGuarded(cmd, 300*time.Millisecond); err != nil {
		panic(err)
	}
	fmt.Println("guarded")
	time.Sleep(time.Hour) // not select: where nothing else is left to run, that is a deadlock
}

func TestGuardEndsTheGroupOfAKilledProcess(t *testing.T) {
	for name, script := range map[string]string{
		"one that listens":     "sleep 60 & echo $!; wait",
		"one that does not":    "trap '' INT TERM; sleep 60 & echo $!; wait",
		"one without a leader": "sleep 60 & echo $!",
	} {
		t.Run(name, func(t *testing.T) {
			program := exec.Command(os.Args[0])
			program.Env = append(os.Environ(), guardedVariable+"="+script)
			out, err := program.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			pid := 0
			lines := bufio.NewScanner(out)
			for range 2 { // in either order
				if !lines.Scan() {
					t.Fatal("it ended early")
				}
				if line := strings.TrimSpace(lines.Text()); line != "guarded" {
					if pid, err = strconv.Atoi(line); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := program.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = out.Close()
			_ = program.Wait()
			for end := time.Now().Add(10 * time.Second); living(pid); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					t.Fatal("what it had started lives on")
				}
			}
		})
	}
}

func TestAStoppedGuardLeavesItsGroupAlone(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo up; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	guard, err := StartGuarded(cmd, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() { // before that it tells the guard of itself, and would end without one
		t.Fatal("it ended early")
	}
	guard.Stop()
	if !living(cmd.Process.Pid) {
		t.Error("it was ended")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestACommandThatIsNotThereLeavesNoGuard(t *testing.T) {
	if guard, err := StartGuarded(exec.Command("/no/such/program"), 0); err == nil {
		guard.Stop()
		t.Fatal("it was started")
	}
	for _, pid := range All() {
		if stat, known := ReadStat(pid); known && stat.Parent == os.Getpid() {
			t.Errorf("a child is left: %q", Arguments(pid))
		}
	}
}
