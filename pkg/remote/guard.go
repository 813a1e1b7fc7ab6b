package remote

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// A hive-test that is killed ends nothing on the nodes. So a connection whose commands take longer than a moment has
// one more session, whose script is told over its standard input which commands run. When that input ends, as it does
// when this process is gone and the kernel closes its connections, the script ends them. A connection that is only cut
// lets it wait until the node's kernel knows.
//
// The session costs the node a login shell, which may be slow: it is opened when a command has run for guardAfter, or
// at once for one that is known to last. What is younger when hive-test is killed runs to its own end.

// guardScript reads "+ MARK" for a command that begins, "- MARK" for one that has ended, and "." when it is needed no
// more. $1 is asRoot, $2 endScript, $3 the grace in hundredths of a second.
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

// guardBacklog is how many notes wait for the guard at most. Those of a node that reads none are dropped: Run must not
// wait.
const guardBacklog = 1024

// guardLeave is how long the end of a guard is waited for.
const guardLeave = time.Second

// guardAfter is for how long a command runs before it is worth a session of its own to guard it.
const guardAfter = time.Second

// note says that a command begins, which is to be guarded from due on, or that it has ended.
type note struct {
	mark string
	ends bool
	due  time.Time
}

func (n note) line() string {
	if n.ends {
		return "- " + n.mark + "\n"
	}
	return "+ " + n.mark + "\n"
}

// guarded notes that the command with that mark runs, until the function is called. One that lasts is guarded at once.
func (c *connection) guarded(mark string, lasts bool) (ended func()) {
	due := time.Now()
	if !lasts {
		due = due.Add(guardAfter)
	}
	c.note(note{mark: mark, due: due})
	return func() { c.note(note{mark: mark, ends: true}) }
}

func (c *connection) note(n note) {
	select {
	case c.notes <- n:
	default:
	}
}

// guard has a guard on the node from the first command on that needs one, until the connection ends. What it fails at
// is done without.
func (c *connection) guard(limit, grace time.Duration) {
	defer close(c.unguarded)
	text := c.awaitLongCommand()
	if text == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := c.open(ctx) // not patiently: a server with few sessions has them for commands
	if err != nil {
		return
	}
	defer s.close()
	if s.exec(ctx, Quote("sh", "-c", guardScript, "sh", asRoot, endScript, hundredths(grace))) != nil {
		return
	}
	s.ignoreOutput()
	for {
		if _, err := io.WriteString(s.ch, text); err != nil {
			return
		}
		if text == guardEnds {
			s.waitExit(guardLeave)
			return
		}
		select {
		case <-c.lost:
			return
		case <-s.exited:
			return
		case <-c.crowded:
			text = guardEnds
		case n := <-c.notes:
			text = n.line()
		}
	}
}

// guardEnds tells the guard's script that it is needed no more.
const guardEnds = ".\n"

// awaitLongCommand returns once a command is due to be guarded, with the lines about all that run then; nothing where
// the connection ends before, or its sessions are needed for commands.
func (c *connection) awaitLongCommand() string {
	running := map[string]note{}
	for {
		var due time.Time
		for _, n := range running {
			if due.IsZero() || n.due.Before(due) {
				due = n.due
			}
		}
		var passed <-chan time.Time // never, while nothing runs
		if len(running) > 0 {
			passed = time.After(time.Until(due))
		}
		select {
		case n := <-c.notes:
			if n.ends {
				delete(running, n.mark)
			} else {
				running[n.mark] = n
			}
		case <-passed:
			var text strings.Builder
			for _, n := range running {
				text.WriteString(n.line())
			}
			return text.String()
		case <-c.crowded:
			return ""
		case <-c.lost:
			return ""
		}
	}
}

// stop ends the guard, before the connection is closed in good order: what commands that have ended have left on the
// node is to run on, and the guard may not know yet that they have.
func (c *connection) stop() {
	c.leave()
	select {
	case <-c.unguarded:
	case <-c.lost:
	case <-time.After(guardLeave):
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
