package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// How often wait looks: soon at first, for it may be about to happen.
const (
	waitFirst = 200 * time.Millisecond
	waitLimit = 2 * time.Second
)

func (a *app) waitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "wait until the cluster is formed and every node is healthy",
		Long: `wait returns as soon as the cluster is formed and every node is healthy, as status judges it, and shows it as status
does. When its time is up first (--timeout, or else as long as configure may take), it exits 10 and says for each node why
it is not healthy. With --healthy=false it waits only until every node answers over SSH. It takes no lock: it can wait for what
another run configures.`,
		Example: `  hive-test wait dev1
  hive-test wait dev1 --timeout 5m -o json
  hive-test wait dev1 --healthy=false`,
		Args: named(1),
	}
	load := a.settings(cmd, "timeouts.configure", "ssh.proxy_jump", "hive.probe_timeout")
	healthy := cmd.Flags().Bool("healthy", true, "wait until hive is healthy, too; =false: only until every node answers over SSH")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if err := checkFormat(settings.Output, "table", "wide", "json", "yaml"); err != nil {
			return err
		}
		return a.wait(ctx, args[0], *healthy, settings)
	})
	return cmd
}

func (a *app) wait(ctx context.Context, name string, healthy bool, settings config.Settings) error {
	limit, setting := settings.Timeout, "--timeout"
	if limit <= 0 {
		limit, setting = settings.Timeouts.Configure, "--timeout-configure"
	}
	settings.Timeout = limit
	a.signals.looking()
	var last *statusJSON
	told := ""
	pauses := wait.Backoff{First: waitFirst, Max: waitLimit, Factor: 1.5}
	request := engine.WatchRequest{Request: a.request(name, settings), Verb: "wait", Pause: pauses.Next}
	return a.work(settings, func(e *engine.Engine) error {
		var sink progress.Sink
		request.Sink = func(s progress.Sink) progress.Sink { sink = s; return s }
		err := e.Watch(ctx, request, func(status engine.Status) (bool, error) {
			document := statusOf(status)
			last = &document
			if !healthy {
				return answerSSH(status), nil
			}
			if why := string(normalize([]byte(strings.Join(status.Reasons(), "; ")))); !status.Formed && why != told {
				told = why
				sink.Emit(progress.Event{Kind: progress.Wait, Message: fmt.Sprintf("%d of %d nodes are healthy", healthyNodes(status), len(status.Nodes)), Error: why})
			}
			return status.Formed, nil
		})
		what := "healthy"
		if !healthy {
			what = "reached over SSH"
		}
		return a.waited(ctx, last, what, settings.Output, fmt.Sprintf("%s (%s)", progress.FormatLimit(limit), setting), err)
	})
}

// waited shows the last look of a wait that ended with err, and is what it ends with.
func (a *app) waited(ctx context.Context, last *statusJSON, what, format, limit string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, engine.ErrGone):
		return engine.Error{Code: engine.ExitNotFound, Err: err}
	case err != nil && (last == nil || !errors.Is(err, context.DeadlineExceeded)):
		return err
	}
	printErr := a.printStatus(*last, format)
	if err == nil || printErr != nil {
		return printErr
	}
	return engine.Error{Code: engine.ExitUnhealthy, Err: progress.WithHint(
		fmt.Errorf("cluster %s is not %s after %s:\n%s", last.Cluster, what, limit, strings.Join(last.Reasons, "\n")),
		fmt.Sprintf("hive-test logs %s shows what its nodes say", last.Cluster))}
}

// answerSSH reports whether every node answers over SSH.
func answerSSH(status engine.Status) bool {
	silent := func(n lifecycle.NodeStatus) bool { return n.SSH != "ok" }
	return len(status.Nodes) > 0 && !slices.ContainsFunc(status.Nodes, silent)
}

func healthyNodes(status engine.Status) int {
	count := 0
	for _, n := range status.Nodes {
		if n.Health.Healthy {
			count++
		}
	}
	return count
}
