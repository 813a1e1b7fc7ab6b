package process

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// guardScript reads the process group that it guards, and then a line when that needs no guard any more. Where its
// input ends without one, who had started the group is gone: the group gets INT and, $1 tenths of a second later, KILL.
// It looks every tenth of a second at first, then every second: on a machine under load each look takes its time, too.
const guardScript = `
trap '' HUP INT TERM PIPE
read -r group && [ "$group" != . ] || exit 0
read -r line && exit 0
kill -s INT -- "-$group" 2>/dev/null || exit 0
left=$1 looks=0
while [ "$left" -gt 0 ] && kill -s 0 -- "-$group" 2>/dev/null; do
	looks=$((looks + 1))
	if [ "$looks" -gt 10 ] && [ "$left" -ge 10 ]; then
		sleep 1
		left=$((left - 10))
	else
		sleep 0.1
		left=$((left - 1))
	fi
done
kill -s KILL -- "-$group" 2>/dev/null`

// guardedScript tells the guard which group it is, and becomes the command. It is the command that tells, for it must
// not do anything before the guard knows of it.
const guardedScript = `echo $$ >&3; exec "$@" 3>&-`

// Guard is a process that ends a process group when this process is killed, which cannot do it itself then. It works
// wherever there is a shell, and for all that is in the group; Linux' own way (PR_SET_PDEATHSIG) ends only the group's
// first process. Its methods are not safe for concurrent use.
type Guard struct {
	cmd   *exec.Cmd
	input *os.File
}

// StartGuarded starts a command in a process group of its own, with a guard. Grace is how long the group has between
// INT and KILL, when this process is killed. Stop the guard when the group has ended. The command must have no
// ExtraFiles.
func StartGuarded(cmd *exec.Cmd, grace time.Duration) (*Guard, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	if _, err := exec.LookPath(cmd.Path); err != nil {
		return nil, err
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		return nil, err
	}
	guard, err := startGuard(sh, grace)
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{"sh", "-c", guardedScript, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.ExtraFiles, cmd.SysProcAttr = sh, []*os.File{guard.input}, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		guard.Stop()
		return nil, err
	}
	return guard, nil
}

func startGuard(sh string, grace time.Duration) (*Guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe to its guard: %w", err)
	}
	cmd := exec.Command(sh, "-c", guardScript, "hive-test-guard", strconv.Itoa(int(grace/(100*time.Millisecond))))
	cmd.Env, cmd.Stdin = searchPath(os.Environ()), read   // and no secret
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is sent to this process's group must not end it
	err = cmd.Start()
	_ = read.Close()
	if err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("starting its guard: %w", err)
	}
	return &Guard{cmd, write}, nil
}

// searchPath is the part of an environment that says where programs are.
func searchPath(environ []string) []string {
	return slices.DeleteFunc(
		slices.Clone(environ), func(entry string) bool { return !strings.HasPrefix(entry, "PATH=") },
	)
}

// Stop ends the guard, and leaves its group alone.
func (g *Guard) Stop() {
	_, _ = fmt.Fprintln(g.input, ".") // one that is gone guards nothing any more
	_ = g.input.Close()
	_ = g.cmd.Wait()
}
