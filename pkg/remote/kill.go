package remote

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// The end of a connection ends nothing on the node, and OpenSSH passes signals on only where the user is not root, and
// not to what sudo has started (observed on OpenSSH 9.2). So every command carries a random mark in its environment, by
// which what it started is found and ended by a command of its own.
const markVariable = "HIVE_TEST_RUN"

func newMark() string { return strings.ToLower(rand.Text()[:20]) }

// marked sets the mark for the command of a shell line.
func marked(line, mark string) string { return markVariable + "=" + mark + " " + line }

// announced prints announcement(mark) to standard output before the line: what comes before that is the login shell's
// own, which may be the line itself.
func announced(line, mark string) string { return "printf %s. " + mark + "; " + line }

func announcement(mark string) string { return mark + "." }

// ProcessFunctions are functions of POSIX shell that find and end what a command has started. They bear `set -eu`.
//
// find_all sets found to the process ids of all that has $variable, NAME=value, in its environment or holds the named
// pipe $pipe (empty: none), or belongs to such a one: as its child, or as one of its group or session. The children of
// sudo are such: they have lost the variable, and with a pseudo terminal of their own the group and session too. What
// was found once stays known, for a child is nobody's child any more when its parent has ended first.
//
// end_all gives each of those TERM; what is still there after $1 hundredths of a second gets KILL. Then found is what
// is left.
const ProcessFunctions = `
known= pipe=
find_all() {
	found=
	for f in $(grep -lsxzF -e "$variable" /proc/[0-9]*/environ); do
		p=${f#/proc/}
		known="$known ${p%/environ}"
	done
	if [ "$pipe" ]; then
		for f in /proc/[0-9]*/fd/*; do
			[ "$f" -ef "$pipe" ] || continue
			p=${f#/proc/}
			known="$known ${p%%/*}"
		done
	fi
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
end_all() {
	told=
	clock
	end=$((now + $1))
	find_all
	while [ "$found" ]; do
		for p in $found; do
			case " $told " in *" $p "*) ;; *) told="$told $p"; kill -s TERM "$p" || true ;; esac
		done
		clock
		[ "$now" -lt "$end" ] || break
		sleep 0.1
		find_all
	done
	for try in 1 2 3; do
		[ "$found" ] || break
		kill -s KILL $found || true
		sleep 0.1
		find_all
	done
}
`

// endScript ends all that has the mark $1, in $2 hundredths of a second, and fails where some of it is left.
const endScript = ProcessFunctions + `
variable=` + markVariable + `=$1
end_all "$2" 2>/dev/null
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
	if s.exec(ctx, Quote("sh", "-c", asRoot, "sh", endScript, "sh", mark, hundredths(grace))) != nil {
		return false
	}
	_ = s.ch.CloseWrite()
	s.ignoreOutput()
	select {
	case <-s.exited:
	case <-ctx.Done():
		return false
	}
	status := s.exit()
	return status != nil && status.code == 0
}

// hundredths of a second are what the scripts count in.
func hundredths(d time.Duration) string { return strconv.Itoa(int(d / (10 * time.Millisecond))) }

// terminate asks the command, with all that it has started, to end, then makes it, and returns when it has or the time
// for it is over: three seconds more than grace. It bears with a peer that does not read: then the connection is
// closed, for it is of no use to anyone.
func (s *session) terminate(grace time.Duration, mark string) {
	deadline := time.Now().Add(grace + 2*time.Second)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if s.conn.endMarked(ctx, mark, grace) && s.waitExit(500*time.Millisecond) {
		return
	}
	// No session could be had for it, or the node is one of its own kind: the protocol's way is all that is left.
	if !s.sendSignal("TERM", min(grace, time.Until(deadline))) {
		s.sendSignal("KILL", time.Second)
	}
}

// sendSignal sends a signal in the protocol's way and says whether the command has ended within the wait.
func (s *session) sendSignal(signal string, wait time.Duration) bool {
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
