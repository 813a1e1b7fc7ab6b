package remote

import (
	"context"
	"crypto/rand"
	"io"
	"strconv"
	"strings"
	"time"
)

// The end of a connection ends nothing on the node, and OpenSSH passes signals on only where the user is not root, and not to
// what sudo has started (observed on OpenSSH 9.2). So every command carries a random mark in its environment, by which what
// it started is found and ended by a command of its own.
const markVariable = "HIVE_TEST_RUN"

func newMark() string { return strings.ToLower(rand.Text()[:20]) }

// marked sets the mark for the command of a shell line.
func marked(line, mark string) string { return markVariable + "=" + mark + " " + line }

// announced prints announcement(mark) to standard output before the line: what comes before that is the login shell's own, which may
// be the line itself.
func announced(line, mark string) string { return "printf %s. " + mark + "; " + line }

func announcement(mark string) string { return mark + "." }

// endScript ends every process that has the mark $1 or belongs to one that has it: as its child, or as one of its group or
// session. The children of sudo are such: they have lost the mark, and with a pseudo terminal of their own the group and
// session too. Each gets TERM; what is still there after $2 hundredths of a second gets KILL. What was found once stays known, for
// a child is nobody's child any more when its parent has ended first.
const endScript = `
known=
find_all() {
	found=
	for f in $(grep -lsz "^` + markVariable + `=$mark\$" /proc/[0-9]*/environ); do
		p=${f#/proc/}
		known="$known ${p%/environ}"
	done
	table=
	for d in /proc/[0-9]*; do
		read -r s < "$d/stat" || continue
		set -- ${s##*) }
		case $1 in Z|X) continue ;; esac
		table="$table ${d#/proc/}:$2:$3:$4"
	done
	more=1
	while [ "$more" ]; do
		more=
		for e in $table; do
			p=${e%%:*} r=${e#*:}
			parent=${r%%:*} r=${r#*:}
			case " $found " in *" $p "*) continue ;; esac
			case " $known " in
			*" $p "* | *" $parent "* | *" ${r%:*} "* | *" ${r#*:} "*)
				found="$found $p" known="$known $p" more=1 ;;
			esac
		done
	done
}
clock() {
	read -r up rest < /proc/uptime
	now=$((${up%.*} * 100 + 1${up#*.} - 100))
}
mark=$1 grace=$2 told=
{
	clock
	end=$((now + grace))
	find_all
	while [ "$found" ]; do
		for p in $found; do
			case " $told " in *" $p "*) ;; *) told="$told $p"; kill -s TERM "$p" ;; esac
		done
		clock
		[ "$now" -lt "$end" ] || break
		sleep 0.1
		find_all
	done
	for try in 1 2 3; do
		[ "$found" ] || break
		kill -s KILL $found
		sleep 0.1
		find_all
	done
} 2>/dev/null
[ -z "$found" ]`

// asRoot runs it with sudo's rights where that needs no password.
const asRoot = `if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then exec sudo -n sh -c "$@"; fi; exec sh -c "$@"`

// endMarked ends what bears the mark, over a session of its own, and says whether all of it has ended.
func (c *connection) endMarked(ctx context.Context, mark string, grace time.Duration) bool {
	s, err := c.openPatiently(ctx)
	if err != nil {
		return false
	}
	defer s.close()
	hundredths := strconv.Itoa(int(grace / (10 * time.Millisecond)))
	if s.exec(ctx, Quote("sh", "-c", asRoot, "sh", endScript, "sh", mark, hundredths)) != nil {
		return false
	}
	_ = s.ch.CloseWrite()
	go func() { _, _ = io.Copy(io.Discard, s.ch) }()
	go func() { _, _ = io.Copy(io.Discard, s.ch.Stderr()) }()
	select {
	case <-s.exited:
	case <-ctx.Done():
		return false
	}
	status := s.exit()
	return status != nil && status.code == 0
}

// terminate asks the command, with all that it has started, to end, then makes it, and returns when it has or the time for it
// is over: three seconds more than grace. It bears with a peer that does not read: then the connection is closed, for it is of
// no use to anyone.
func (s *session) terminate(grace time.Duration, mark string) {
	deadline := time.Now().Add(grace + 2*time.Second)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if s.conn.endMarked(ctx, mark, grace) && s.waitExit(500*time.Millisecond) {
		return
	}
	// No session could be had for it, or the node is one of its own kind: the protocol's way is all that is left.
	if !s.press("TERM", min(grace, time.Until(deadline))) {
		s.press("KILL", time.Second)
	}
}

// press sends a signal in the protocol's way and says whether the command has ended within the wait.
func (s *session) press(signal string, wait time.Duration) bool {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.signal(signal)
	}()
	if s.waitExit(wait) {
		return true
	}
	select {
	case <-sent:
	default:
		s.conn.close(errNotReading)
	}
	return false
}
