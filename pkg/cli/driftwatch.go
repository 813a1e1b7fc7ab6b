package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// watchDrift looks again and again until it is told to stop.
func (a *app) watchDrift(ctx context.Context, name string, flags driftFlags, settings config.Settings) error {
	ctx, stop := whileRead(ctx, a.Stdout)
	defer stop()
	if settings.Timeout > 0 { // of the watch, not of a look
		limited, cancel := context.WithTimeout(ctx, settings.Timeout)
		defer cancel()
		ctx, settings.Timeout = limited, 0
	}
	w := &driftWatcher{app: a, settings: settings, last: map[string][]byte{}, drift: map[string]string{}}
	return watched(ctx, a.work(settings, func(e *engine.Engine) error {
		for {
			if err := w.look(ctx, e, name, flags.jobs); err != nil || ctx.Err() != nil {
				return endOfWatch(ctx, err)
			}
			if wait.Sleep(ctx, flags.interval) != nil {
				return endOfWatch(ctx, nil)
			}
		}
	}))
}

// endOfWatch is why a watch has ended.
func endOfWatch(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// driftWatcher shows look after look.
type driftWatcher struct {
	*app
	settings config.Settings
	last     map[string][]byte // what was told of each cluster
	drift    map[string]string // a hash of the differences that the program of on_drift was told of last
	looked   bool
}

// look looks once, at one cluster or at all. A name that there is no cluster of is an error at the first look only.
func (w *driftWatcher) look(ctx context.Context, e *engine.Engine, name string, jobs int) error {
	defer func() { w.looked = true }()
	if name == "" {
		return e.DriftAll(ctx, w.settings, jobs, func(d engine.Drift) error { return w.show(ctx, e, d) })
	}
	d := e.DriftOf(ctx, name, w.settings)
	if d.Err != nil && !w.looked && !d.Found() {
		return d.Err
	}
	return w.show(ctx, e, d)
}

// hook runs the program of on_drift where the differences are not those that it was told of last. What could not be looked at says nothing
// of them.
func (w *driftWatcher) hook(ctx context.Context, e *engine.Engine, d driftJSON) {
	if d.Error != "" || d.Skipped != "" {
		return
	}
	now := ""
	if d.Drift {
		now = cluster.Hash(d.Differences)
	}
	if now != w.drift[d.Cluster] {
		w.drift[d.Cluster] = now
		e.OnDrift(ctx, w.settings, d)
	}
}

// show tells what has changed.
func (w *driftWatcher) show(ctx context.Context, e *engine.Engine, d engine.Drift) error {
	if ctx.Err() != nil { // what was cut short says nothing
		return nil
	}
	document := w.driftOf(d)
	w.hook(ctx, e, document)
	plain := document
	plain.Time = time.Time{}
	raw, err := json.Marshal(plain)
	raw = []byte(engine.WithoutPorts(string(raw)))
	if document.Skipped != "" { // by whom, and for how long, changes with each look
		raw = []byte("skipped")
	}
	if err != nil || bytes.Equal(raw, w.last[d.Cluster]) {
		return err
	}
	w.last[d.Cluster] = raw
	switch w.settings.Output {
	case "json":
		return json.NewEncoder(w.Stdout).Encode(document)
	case "yaml":
		if _, err := fmt.Fprintln(w.Stdout, "---"); err != nil {
			return err
		}
		return printYAML(w.Stdout, document)
	}
	now := d.Time.Local().Format(time.DateTime)
	if _, err := fmt.Fprintf(w.Stdout, "%s  %s\n", now, progress.Clean(document.headline())); err != nil {
		return err
	}
	for _, one := range document.Differences {
		if _, err := fmt.Fprintf(w.Stdout, "%s    %s\n", now, progress.Clean(one.String())); err != nil {
			return err
		}
	}
	return nil
}
