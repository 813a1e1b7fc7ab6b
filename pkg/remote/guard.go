package remote

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

// A hive-test that is killed ends nothing on the nodes. So a connection that runs commands has one more session, whose script
// is told over its standard input which commands run. When that input ends, as it does when this process is gone and the kernel
// closes its connections, the script ends them. A connection that is only cut lets it wait until the node's kernel knows.

// guardScript reads "+ MARK" for a command that begins, "- MARK" for one that has ended, and "." when it is needed no more. $1 is
// asRoot, $2 endScript, $3 the grace in hundredths of a second.
const guardScript = `
trap '' HUP PIPE
running=' '
while read -r what mark; do
	case $what in
	+) running="$running$mark " ;;
	-) case $running in *" $mark "*) running="${running%% $mark *} ${running#* $mark }" ;; esac ;;
	.) exit ;;
	esac
done
for mark in $running; do
	sh -c "$1" sh "$2" sh "$mark" "$3" >/dev/null 2>&1 &
done
wait`

// guardBacklog is how many notes wait for the guard at most. Those of a node that reads none are dropped: Run must not wait.
const guardBacklog = 1024

// guardLeave is how long the end of a guard is waited for.
const guardLeave = time.Second

// guarded notes that the command with that mark runs, until the function is called.
func (c *connection) guarded(mark string) (ended func()) {
	c.note("+ " + mark)
	return func() { c.note("- " + mark) }
}

func (c *connection) note(text string) {
	select {
	case c.notes <- text:
	default:
	}
}

// guard has a guard on the node from the first command on, until the connection ends. What it fails at is done without.
func (c *connection) guard(limit, grace time.Duration) {
	defer close(c.unguarded)
	var text string
	select {
	case text = <-c.notes:
	case <-c.crowded:
		return
	case <-c.lost:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := c.open(ctx) // not patiently: a server with few sessions has them for commands
	if err != nil {
		return
	}
	defer s.close()
	if s.exec(ctx, Quote("sh", "-c", guardScript, "sh", asRoot, endScript, strconv.Itoa(int(grace/(10*time.Millisecond))))) != nil {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, s.ch) }()
	go func() { _, _ = io.Copy(io.Discard, s.ch.Stderr()) }()
	for {
		if _, err := io.WriteString(s.ch, text+"\n"); err != nil {
			return
		}
		if text == "." {
			s.waitExit(guardLeave)
			return
		}
		select {
		case <-c.lost:
			return
		case <-s.exited:
			return
		case <-c.crowded:
			text = "."
		case text = <-c.notes:
		}
	}
}

// dismiss ends the guard, before the connection is closed in good order: what commands that have ended have left on the node is
// to run on, and the guard may not know yet that they have.
func (c *connection) dismiss() {
	c.leave()
	timer := time.NewTimer(guardLeave)
	defer timer.Stop()
	select {
	case <-c.unguarded:
	case <-c.lost:
	case <-timer.C:
	}
}

// refused tells that the server had no room for a session, and gives it the guard's.
func (c *connection) refused(err error) bool {
	full, ok := errors.AsType[*ssh.OpenChannelError](err)
	if !ok || (full.Reason != ssh.ConnectionFailed && full.Reason != ssh.ResourceShortage) {
		return false
	}
	c.leave()
	return true
}
