package engine

import (
	"context"
	"errors"

	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
)

// FullRequest is what Full is asked for.
type FullRequest struct {
	UpRequest
	Leave Leave // of hosts of a hosts file
}

// Full makes a cluster, configures it, tests it and destroys it, whatever happens in between. Its error is that of the
// first phase that failed.
func (e *Engine) Full(ctx context.Context, request FullRequest) (Outcome, error) {
	if err := checkHive(request.Settings, request.Settings.Hive.Layout); err != nil {
		return Outcome{}, err
	}
	return e.do(ctx, "full", request.Request, func(s *session) error {
		check := func() error { return errors.Join(s.checkSuites(), s.checkLeave(&request.Leave)) }
		return s.provision(ctx, request.Allow, check, func(r *lifecycle.Job) []phase.Entry {
			r.Leave = request.Leave.hive()
			return lifecycle.Full(r, s.keep())
		})
	})
}
