package remote

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestInteractive(t *testing.T) {
	_, h := connected(t)
	for _, c := range []struct {
		name, stdin string
		argv        []string
		tty         bool
		stdout      string
		exit        int
	}{
		{"exit code and streams", "in", []string{"sh", "-c", "cat; exit 9"}, false, "in", 9},
		{"terminal", "", []string{"sh", "-c", "echo $TERM"}, true, "xterm-256color\n", 0},
		{"signal", "", []string{"sh", "-c", "kill -KILL $$"}, false, "", 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			exit, err := h.Interactive(t.Context(), c.argv, strings.NewReader(c.stdin), &stdout, &stderr, c.tty)
			if err != nil || exit != c.exit || stdout.String() != c.stdout {
				t.Errorf("exit %d, error %v, stdout %q, stderr %q", exit, err, &stdout, &stderr)
			}
		})
	}
}

func TestInteractiveEndsWithItsContext(t *testing.T) {
	_, h := connected(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	wantWithin(t, 8*time.Second, func() {
		var out bytes.Buffer
		if _, err := h.Interactive(
			ctx, []string{"sleep", "60"}, nil, &out, &out, false,
		); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
