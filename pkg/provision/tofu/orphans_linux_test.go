package tofu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hive-test/pkg/process"
)

// orphan starts a sleep under the name of a provider, whose parent (a shell) ends at once, and returns its pid.
func orphan(t *testing.T, name, owner string) int {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep program to leave behind")
	}
	if err := os.Symlink(sleep, program); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("sh", "-c", `"$0" 60 >/dev/null 2>&1 & echo $!`, program)
	shell.Env = append(os.Environ(), ownerVariable+"="+owner)
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
	return pid
}

func alive(pid int) bool {
	stat, known := process.ReadStat(pid)
	return known && stat.State != "Z"
}

func TestOrphansOfAKilledTofuAreEnded(t *testing.T) {
	left := orphan(t, "terraform-provider-proxmox_v0.111.1", "ours")
	others := []int{orphan(t, "terraform-provider-proxmox_v0.111.1", "ours-too"), orphan(t, "editor", "ours")}
	if stat, _ := process.ReadStat(left); stat.Parent != 1 {
		t.Skipf("orphans are not adopted by process 1 here, but by %d", stat.Parent)
	}
	EndOrphans("ours")
	for deadline := time.Now().Add(5 * time.Second); alive(left); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the provider that was left behind is still there")
		}
	}
	for _, pid := range others {
		if !alive(pid) {
			t.Errorf("process %d is none of ours and was ended", pid)
		}
	}
}
