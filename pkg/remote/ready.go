package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"hive-test/pkg/wait"
)

// WaitReady returns once a real command works on the node. Until then it tries again, calling report (which may be nil)
// with each failure: refused connections, timeouts, refused logins and refused commands are all usual on a host that
// boots. A changed host key is returned at once, for time does not heal it. When ctx ends the error wraps ctx's and the
// last failure.
func (h *Host) WaitReady(ctx context.Context, report func(error)) error {
	start := time.Now()
	var last error
	booting := wait.Backoff{First: 50 * time.Millisecond, Max: time.Second, Factor: 1.5}
	refused := wait.Backoff{First: 250 * time.Millisecond, Max: 4 * time.Second}
	for {
		_, err := h.Run(ctx, Command{Argv: []string{"true"}, Timeout: 2 * h.dialer.cfg.ConnectTimeout})
		if err == nil || permanent(err) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if report != nil && ctx.Err() == nil {
			report(err)
		}
		// A host answers within moments of its server's start. Refused logins are repeated more slowly: OpenSSH 9.8 and
		// later shut out addresses that fail often (PerSourcePenalties).
		pauses := &booting
		if errors.Is(err, ErrAuth) {
			pauses = &refused
		}
		if pauses.Sleep(ctx) != nil {
			return h.fail(fmt.Errorf("no command could be run over SSH within %s: %w; the last try: %w",
				time.Since(start).Round(time.Millisecond), context.Cause(ctx), last))
		}
	}
}

// NoConnection tells that a try ended before anything answered: no SSH server takes connections there, or nothing leads
// there.
func NoConnection(err error) bool {
	dial, isDial := errors.AsType[*net.OpError](err)
	_, behindJump := errors.AsType[*ssh.OpenChannelError](err)
	return isDial && dial.Op == "dial" || behindJump
}
