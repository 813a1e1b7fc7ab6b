package remote

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"time"
)

// OpenSSH passes signals on only where the user is not root, and they do not reach what sudo has started (observed on
// OpenSSH 9.2). So every command carries a random mark in its environment, by which what it started can be found and
// signalled with a command of its own.
const markVariable = "HIVE_TEST_RUN"

func newMark() string { return strings.ToLower(rand.Text()[:20]) }

// marked sets the mark for the command of a shell line.
func marked(line, mark string) string { return markVariable + "=" + mark + " " + line }

// killScript signals every process that has the mark, and every process group whose leader has it: the children of sudo
// have lost the mark but are in the group. $1 is the mark, $2 the signal.
const killScript = `
for f in $(grep -lsz "^` + markVariable + `=$1\$" /proc/[0-9]*/environ); do
	p=${f#/proc/} && p=${p%/environ}
	s=$(cat "/proc/$p/stat" 2>/dev/null) || continue
	set -- "$1" "$2" ${s##*) }
	if [ "$5" = "$p" ]; then kill -s "$2" -- "-$p"; else kill -s "$2" "$p"; fi
done 2>/dev/null
true`

// asRoot runs it with sudo's rights where that needs no password.
const asRoot = `if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then exec sudo -n sh -c "$@"; fi; exec sh -c "$@"`

// killMarked signals what bears the mark, over a session of its own. It gives up silently with ctx: the end of the command
// tells whether it has worked.
func (c *connection) killMarked(ctx context.Context, mark, signal string) {
	s, err := c.open(ctx)
	if err != nil {
		return
	}
	defer s.close()
	if s.exec(ctx, Quote("sh", "-c", asRoot, "sh", killScript, "sh", mark, signal)) != nil {
		return
	}
	_ = s.ch.CloseWrite()
	go func() { _, _ = io.Copy(io.Discard, s.ch) }()
	go func() { _, _ = io.Copy(io.Discard, s.ch.Stderr()) }()
	select {
	case <-s.exited:
	case <-ctx.Done():
	}
}

// terminate asks the command to end, then makes it, and returns when it has or the time for it is over. It bears with a
// peer that does not read: then the connection is closed, for it is of no use to anyone.
func (s *session) terminate(grace time.Duration, mark string) {
	// Long enough for a server that passes the signal on, so that most commands get it once.
	passedOn := min(grace/2, 300*time.Millisecond)
	if s.press("TERM", mark, passedOn, grace-passedOn) {
		return
	}
	s.press("KILL", mark, 0, time.Second)
}

// press sends a signal, in the protocol's way first and, after a first wait, by the mark; it says whether the command has
// ended within both waits.
func (s *session) press(signal, mark string, wait, more time.Duration) bool {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.signal(signal)
	}()
	if s.waitExit(wait) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), more)
	defer cancel()
	go s.conn.killMarked(ctx, mark, signal)
	if s.waitExit(more) {
		return true
	}
	select {
	case <-sent:
	default:
		s.conn.close(errNotReading)
	}
	return false
}
