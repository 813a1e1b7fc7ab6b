package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/lifecycle"
)

func (a *app) extendCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extend NAME [DURATION]",
		Short: "give a cluster more time before reap may delete it",
		Long: `extend moves the time at which reap may delete a cluster's VMs to DURATION from now, never to an earlier one; --at sets any
time, or "never". The VMs are not touched otherwise: the time stands in their description.`,
		Example: `  hive-test extend dev1 4h
  hive-test extend dev1 2d
  hive-test extend dev1 --at 2026-12-24T18:00:00Z
  hive-test extend dev1 --at never`,
		Args: named(2),
	}
	load := a.settings(cmd, "wait")
	at := cmd.Flags().String("at", "", "the time itself, like 2026-12-24T18:00:00Z, in place of a duration; or never")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		change, err := extension(args[1:], *at)
		if err != nil {
			return usageError{err}
		}
		return a.remark(ctx, "extend", args[0], settings, change)
	})
	return cmd
}

// extension reads until when a cluster is to exist.
func extension(args []string, at string) (func(*cluster.Owner), error) {
	switch {
	case (len(args) == 0) == (at == ""):
		return nil, errors.New("extend needs a duration, like 4h, or --at with a time, and not both")
	case at == "never":
		return func(o *cluster.Owner) { o.Expires = time.Time{} }, nil
	case at != "":
		expires, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return nil, fmt.Errorf("--at: %q is no time: write it like 2026-12-24T18:00:00Z, or never", at)
		}
		return func(o *cluster.Owner) { o.Expires = expires.UTC().Truncate(time.Second) }, nil
	}
	more, err := config.ParseDuration(args[0])
	if err == nil && more <= 0 {
		err = fmt.Errorf("%s is no time to extend by; --at sets an earlier time", args[0])
	}
	return func(o *cluster.Owner) {
		later := expiryAfter(time.Now(), more)
		if !o.Expires.IsZero() && later.After(o.Expires) { // without an expiry it lives for ever already
			o.Expires = later
		}
	}, err
}

func (a *app) holdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold NAME",
		Short: "keep reap away from a cluster, whatever its time; --release lets it again",
		Long:  "hold tags a cluster's VMs " + cluster.HoldTag + ": reap leaves them alone, also after their time, until hold --release. down still destroys them.",
		Example: `  hive-test hold dev1
  hive-test hold dev1 --release`,
		Args: named(1),
	}
	load := a.settings(cmd, "wait")
	release := cmd.Flags().Bool("release", false, "let reap have the cluster again when its time is up")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.remark(ctx, "hold", args[0], settings, func(o *cluster.Owner) { o.Held = !*release })
	})
	return cmd
}

// remarkJSON is the shape of `extend` and `hold` with -o json.
type remarkJSON struct {
	Schema  int        `json:"schema"`
	Cluster string     `json:"cluster"`
	Verb    string     `json:"verb"`
	Expires *time.Time `json:"expires"`
	Held    bool       `json:"held"`
}

// timeLeft tells people until when a cluster is meant to exist.
func timeLeft(o cluster.Owner, now time.Time) string {
	text := "does not expire"
	if left := o.Expires.Sub(now); !o.Expires.IsZero() && left > 0 {
		text = fmt.Sprintf("expires %s (in %s)", o.Expires.Format(time.RFC3339), roundly(left))
	} else if !o.Expires.IsZero() {
		text = fmt.Sprintf("expired %s (%s ago)", o.Expires.Format(time.RFC3339), roundly(-left))
	}
	if o.Held {
		text += ", held"
	}
	return text
}

// roundly is a duration as people say it: 2d3h, 1h5m, 40s.
func roundly(d time.Duration) string {
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
