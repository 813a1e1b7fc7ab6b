package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
)

// LogsRequest is what Logs is asked for.
type LogsRequest struct {
	Request
	Nodes string // like 1,3; empty: all
	To    string // a directory that is new or empty; empty: a new one below the clusters directory
}

// Gathered is what Logs has got.
type Gathered struct {
	Dir    string
	Items  []lifecycle.Item
	Silent bool // there are nodes that nothing could be got of, which was told
}

// Logs gathers the logs of every node that answers, and what Proxmox VE says of the others. What was got is returned
// with the error that has ended it, too.
func (e *Engine) Logs(ctx context.Context, request LogsRequest) (Gathered, error) {
	s, err := e.openForRead(ctx, "logs", request.Request)
	if err != nil {
		return Gathered{}, err
	}
	defer s.close()
	nodes, err := listed(request.Nodes)(s.Record.Nodes)
	if err != nil {
		return Gathered{}, err
	}
	if s.dir, err = s.gathering(request.To); err != nil {
		return Gathered{}, err
	}
	deployer, err := s.Deployer()
	if err != nil { // what the nodes tell is worth having
		progress.Warn(s.Sink, "Proxmox VE is not asked: "+err.Error(), progress.HintOf(err))
		deployer = s.AsPlanned()
	}
	s.learnKeys()
	job := s.job(ctx, deployer)
	job.Hold = s.holdBriefly
	limit := cmp.Or(max(s.Settings.Timeout, 0), lifecycle.GatherTime)
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took more than %s", limit))
	defer cancel()
	job.Gather(limited, "", nodes, true)
	if err := job.Close(); err != nil {
		s.Sink.Emit(progress.Event{Kind: progress.Debug, Message: "closing connections: " + err.Error()})
	}
	if err := s.clear(s.running); err != nil {
		return Gathered{}, err
	}
	index, err := job.Index()
	if err != nil {
		return Gathered{}, err
	}
	return Gathered{Dir: s.dir.Dir, Items: index.Items, Silent: len(job.Silent(nodes)) > 0}, context.Cause(ctx)
}

// FollowLogs hands hive's logs of all nodes to show as they grow, a line at a time, until ctx ends, or the time of the
// whole run is up (nil). Show is not called concurrently; its error ends it.
func (e *Engine) FollowLogs(ctx context.Context, request LogsRequest, show func(node, log, line string) error) error {
	// What cannot be reached is told by what follows it.
	return e.onNodes(ctx, "logs", request.Request, listed(request.Nodes), func(ctx context.Context, s reached) error {
		s.learnKeys()
		options := s.hiveOptions()
		options.Secrets = s.Secrets
		var one sync.Mutex
		var failure error
		following, stop := context.WithCancel(ctx)
		defer stop()
		err := hive.New(s.Name, s.group, options, s.Sink).Follow(following, func(node, log, text string) {
			one.Lock()
			defer one.Unlock()
			if err := show(node, log, text); err != nil && failure == nil {
				failure = err
				stop()
			}
		})
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return failure
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		return errors.Join(failure, err)
	})
}

// gathering is the directory that is gathered into. One that the user names is new or empty: secrets are taken out of
// every file of it, which must not be somebody's key or settings.
func (s *session) gathering(to string) (state.Run, error) {
	if to == "" {
		run, err := s.Store.NewGathering(s.Name, s.verb, s.started)
		if err != nil {
			return run, Error{ExitConfig, err}
		}
		return run, nil
	}
	dir, err := filepath.Abs(to)
	if err != nil {
		return state.Run{}, usage(fmt.Errorf("--to: %w", err))
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return state.Run{}, usage(fmt.Errorf("--to: %w", err))
	case len(entries) > 0:
		return state.Run{},
			usage(progress.WithHint(fmt.Errorf("--to: %s is not empty", dir), "name a directory that is new or empty"))
	}
	return state.Run{Dir: dir}, nil
}
