package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
)

// Leave says what becomes of hive on hosts that were there before the cluster, and stay.
type Leave string

// Hive runs on, is stopped, or is stopped and removed with all that it holds.
const (
	LeaveRunning Leave = ""
	LeaveStopped Leave = "stopped"
	LeaveNothing Leave = "purged"
)

// leftTime bounds asking hosts what is left on them: one that does not answer must not keep a cluster.
const leftTime = 10 * time.Second

// release is down for hosts that are nobody's to destroy.
func (d *down) release(ctx context.Context) error {
	steps := []step{{"record the operation", d.intend}, {"heal faults", d.heal}}
	switch d.Leave {
	case LeaveRunning:
		steps = append(steps, step{"look at what stays", d.tellLeft})
	case LeaveStopped:
		steps = append(steps, step{"stop hive", d.stopHive})
	case LeaveNothing:
		steps = append(steps, step{"stop hive", d.stopHive}, step{"remove hive", d.purgeHive})
	}
	if err := d.steps(ctx, cluster.PhaseDown, steps...); err != nil {
		return d.end(ctx, cluster.PhaseDown, err)
	}
	return d.steps(ctx, cluster.PhaseDown, step{"remove the cluster's directory", d.remove})
}

// tellLeft says what of hive is left on the hosts. That it is not known is no reason to keep the cluster.
func (d *down) tellLeft(ctx context.Context, sink progress.Sink) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leftTime, fmt.Errorf("no answer within %s", leftTime))
	defer cancel()
	handle, err := d.hive(progress.Discard)
	if err != nil {
		progress.Warnf(sink, "what runs on the hosts is not known: %v", err)
		return nil
	}
	left := handle.Left(ctx)
	if text := leftText(left); text != "" {
		name := d.Record.Name
		sink.Emit(progress.Event{
			Kind: progress.Warning, Message: text,
			Hint: fmt.Sprintf(
				"to stop or remove it later: hive-test up %s --hosts-file FILE, then hive-test down "+
					"%s --stop-hive or --purge",
				name, name,
			),
		})
	}
	for _, l := range left {
		if l.Err != nil {
			sink.Emit(progress.Event{
				Kind: progress.Warning, Node: l.Node, Message: "whether hive runs there is not known: " + l.Err.Error(),
			})
		}
	}
	return nil
}

// leftText tells what stays on hosts; empty where nothing is known to.
func leftText(left []hive.Left) string {
	var running, files []string
	for _, l := range left {
		switch count := len(l.Services); {
		case count > 0:
			running = append(running, l.Node+" ("+progress.Count(count, "service")+")")
		case l.Files:
			files = append(files, l.Node)
		}
	}
	var texts []string
	if len(running) > 0 {
		texts = append(texts, "hive keeps running on "+strings.Join(running, ", "))
	}
	if len(files) > 0 {
		texts = append(texts, "hive stays installed, and does not run, on "+strings.Join(files, ", "))
	}
	return strings.Join(texts, "; ")
}

func (d *down) stopHive(ctx context.Context, sink progress.Sink) error {
	return d.onHosts(sink, "hive is stopped on", func(handle *hive.Cluster) error { return handle.Stop(ctx) })
}

func (d *down) purgeHive(ctx context.Context, sink progress.Sink) error {
	return d.onHosts(
		sink, "hive's data, programs and profiles are removed from",
		func(handle *hive.Cluster) error { return handle.Purge(ctx) },
	)
}

// onHosts runs act, which clears hosts of hive, and says what was done on which.
func (d *down) onHosts(sink progress.Sink, done string, act func(*hive.Cluster) error) error {
	handle, err := d.hive(progress.Discard)
	if err != nil {
		return err
	}
	if err := act(handle); err != nil {
		return d.stays(err)
	}
	progress.Infof(sink, "%s %s", done, strings.Join(d.Record.Nodes.Names(), ", "))
	return nil
}

// stays says how to go on where a host could not be cleared.
func (d *down) stays(err error) error {
	name := d.Record.Name
	return progress.WithHint(
		err,
		fmt.Sprintf("repeat the same command; or `hive-test down %s` without it leaves the hosts as they are", name),
	)
}
