package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"

	"github.com/spf13/cobra"
)

func (a *app) extendCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extend NAME [DURATION]",
		Short: "give a cluster more time before reap may delete it",
		Long: `extend moves the time at which reap may delete a cluster's VMs to DURATION from now, never to an earlier one; --at sets any
time to come, or "never". The VMs are not touched otherwise: the time stands in their description.`,
		Example: `  hive-test extend dev1 4h
  hive-test extend dev1 2d
  hive-test extend dev1 --at '2026-12-24 18:00'   # local time
  hive-test extend dev1 --at 2026-12-24T18:00:00Z
  hive-test extend dev1 --at never`,
		Args: named(2),
	}
	load := a.settings(cmd)
	at := cmd.Flags().String(
		"at", "",
		"the `time` itself, like 2026-12-24, \"2026-12-24 18:00\" (local time) or 2026-12-24T18:00:00Z, "+
			"in place of a duration; or never",
	)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		after, until, err := extension(args[1:], *at)
		if err != nil {
			return usage(err)
		}
		return a.remark("extend", args[0], settings, func(
			e *engine.Engine, request engine.Request,
		) (cluster.Owner, error) {
			owner, err := e.Extend(ctx, request, after, until)
			if err == nil && after > 0 {
				a.warnUnchanged(args, owner, after)
			}
			return owner, err
		})
	})
	return cmd
}

// warnUnchanged says that the cluster's time is what it was, where it is: it has none, or a later one.
func (a *app) warnUnchanged(args []string, owner cluster.Owner, after time.Duration) {
	if owner.Expires.IsZero() {
		at := time.Now().Add(after).UTC().Format(time.RFC3339)
		a.warn(a.inPlace(fmt.Sprintf(
			"it does not expire, and is left so: `hive-test extend %s --at %s` gives it an end", args[0], at,
		)))
	} else if time.Until(owner.Expires) > after+time.Second {
		a.warn("its time is left as it is, which is later than in " + args[1] + ": --at sets an earlier one")
	}
}

// extension reads for how long, or until when, a cluster is to exist.
func extension(args []string, at string) (after time.Duration, until time.Time, err error) {
	switch {
	case (len(args) == 0) == (at == ""):
		return 0, until, errors.New("extend needs a duration, like 4h, or --at with a time: one of them")
	case at == "never":
		return 0, until, nil
	case at != "":
		until, err = config.ParseTime(at, time.Local)
		if err != nil {
			return 0, until, fmt.Errorf("--at: %w, or never", err)
		}
		return 0, until.UTC().Truncate(time.Second), nil
	}
	after, err = config.ParseDuration(args[0])
	if _, notTime := config.ParseTime(args[0], time.Local); err != nil && notTime == nil {
		err = progress.WithHint(err, "a time is given with --at")
	}
	if err == nil && after <= 0 {
		err = fmt.Errorf("%s: duration must be positive; --at sets an earlier time", args[0])
	}
	return after, until, err
}

// remarkJSON is the shape of `extend` and `hold` with -o json.
type remarkJSON struct {
	Schema  int        `json:"schema"`
	Cluster string     `json:"cluster"`
	Verb    string     `json:"verb"`
	Expires *time.Time `json:"expires" jsonschema:"nullable"`
	Held    bool       `json:"held"`
}

// remark lets change move a cluster's time, and prints what its VMs say now.
func (a *app) remark(
	verb, name string, settings config.Settings, change func(*engine.Engine, engine.Request) (cluster.Owner, error),
) error {
	return a.work(settings, func(e *engine.Engine) error {
		owner, err := change(e, a.request(name, settings))
		if err != nil {
			return err
		}
		document := remarkJSON{
			Schema: outputSchema, Cluster: name, Verb: verb, Expires: engine.Expiry(owner), Held: owner.Held,
		}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		_, err = fmt.Fprintf(a.Stdout, "cluster %s: %s\n", name, timeLeft(owner, time.Now()))
		return err
	})
}

// timeLeft tells people until when a cluster is meant to exist. A span that no Duration holds is left out.
func timeLeft(o cluster.Owner, now time.Time) string {
	text := "does not expire"
	left := o.Expires.Sub(now)
	switch fits := left != math.MaxInt64 && left != math.MinInt64; {
	case o.Expires.IsZero():
	case left > 0 && fits:
		text = fmt.Sprintf("expires %s (in %s)", o.Expires.Format(time.RFC3339), aboutDuration(left))
	case left > 0:
		text = "expires " + o.Expires.Format(time.RFC3339)
	case fits:
		text = fmt.Sprintf("expired %s (%s ago)", o.Expires.Format(time.RFC3339), aboutDuration(-left))
	default:
		text = "expired " + o.Expires.Format(time.RFC3339)
	}
	if o.Held {
		text += ", held"
	}
	return text
}

// aboutDuration is a duration as people say it: 2d3h, 1h5m, 40s.
func aboutDuration(d time.Duration) string {
	switch days := d / (24 * time.Hour); {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
