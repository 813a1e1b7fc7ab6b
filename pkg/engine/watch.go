package engine

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/wait"
)

// ErrGone means that the cluster that is watched exists no more.
var ErrGone = errors.New("the cluster is gone")

// WatchRequest says how a cluster is watched.
type WatchRequest struct {
	Request
	Verb  string               // as events name it
	Pause func() time.Duration // how long to wait before the next look
	Sink  func(progress.Sink) progress.Sink
}

// Watch looks at a cluster again and again and hands each look to see, until see has had enough, the cluster is gone
// (ErrGone), ctx ends (its cause) or the time of the whole run is up (context.DeadlineExceeded; the first look may take
// longer, for something has to be told). What is warned of at each look is told once.
func (e *Engine) Watch(ctx context.Context, request WatchRequest, see func(Status) (enough bool, err error)) error {
	s, r, err := e.look(ctx, request.Verb, request.Request)
	if err != nil {
		return err
	}
	defer s.close()
	if request.Sink != nil {
		r.Sink = request.Sink(r.Sink)
	}
	r.Sink = once(r.Sink)
	return errors.Join(s.watch(ctx, r, request.Pause, see), r.Close())
}

func (s *session) watch(
	ctx context.Context, r *lifecycle.Job, pause func() time.Duration, see func(Status) (enough bool, err error),
) error {
	limited, cancel := s.limited(ctx)
	defer cancel()
	for looking := ctx; ; looking = limited {
		status, err := lifecycle.ReadStatus(looking, r)
		if looking.Err() != nil {
			return whyEnded(ctx)
		}
		if err != nil {
			return err
		}
		if enough, err := see(s.statusOf(status)); enough || err != nil {
			return err
		}
		if wait.Sleep(limited, pause()) != nil {
			return whyEnded(ctx)
		}
		if err := s.refresh(r); err != nil {
			return err
		}
	}
}

// WithoutPorts returns text without the ports from which connections were made: they differ from look to look and mean
// nothing.
func WithoutPorts(text string) string { return portPattern.ReplaceAllString(text, "") }

var portPattern = regexp.MustCompile(`[0-9a-fA-F.:\[\]]+:\d+(->|-\\u003e)`) // the second as JSON has it

// whyEnded tells whether ctx or only the time of the run has ended.
func whyEnded(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return context.DeadlineExceeded
}

// refresh reads the record again: other runs change it. One that cannot be read now is left as it was.
func (s *session) refresh(r *lifecycle.Job) error {
	fresh, err := s.Store.Load(s.Name)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return ErrGone
	case err != nil:
		progress.Warn(r.Sink, err.Error(), "")
	default:
		*r.Record = *fresh
		s.jumpAsAsked()
	}
	return nil
}

// once passes on a warning or an information once, however often it comes.
func once(next progress.Sink) progress.Sink {
	var mu sync.Mutex
	told := map[string]bool{}
	return progress.SinkFunc(func(e progress.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind != progress.Wait && told[e.Message] {
			return
		}
		told[e.Message] = true
		next.Emit(e)
	})
}
