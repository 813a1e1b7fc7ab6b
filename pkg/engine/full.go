package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

// FullRequest is what Full is asked for.
type FullRequest struct {
	UpRequest
	Leave Leave // of hosts of a hosts file
	// FromSnapshot is the tag of a snapshot that the cluster is brought back to in place of being made. Where there is no
	// cluster yet it is made, and that snapshot of it. Empty: the cluster is made.
	FromSnapshot string
}

// Full makes a cluster, configures it, tests it and destroys it, whatever happens in between. Its error is that of the
// first phase that failed.
func (e *Engine) Full(ctx context.Context, request FullRequest) (Outcome, error) {
	if err := checkHive(request.Settings, request.Settings.Hive.Layout); err != nil {
		return Outcome{}, err
	}
	if err := errors.Join(checkTag(request.FromSnapshot), e.protect("full", request.Request)); err != nil {
		return Outcome{}, err
	}
	return e.do(ctx, "full", request.Request, func(s *session) error {
		s.warm = request.FromSnapshot != ""
		if s.warm && s.exists() {
			return s.fullFrom(ctx, request.FromSnapshot)
		}
		check := func() error {
			if err := errors.Join(s.protect(), s.checkSuites(), s.checkLeave(&request.Leave)); err != nil {
				return err
			}
			return s.checkBefore()
		}
		return s.provision(ctx, request.Allow, check, func(r *lifecycle.Job) []phase.Entry {
			r.Leave = request.Leave.hive()
			if s.warm {
				return lifecycle.FullSaving(r, s.keep(), request.FromSnapshot)
			}
			return lifecycle.Full(r, s.keep())
		})
	})
}

// exists reports whether there is a cluster of that name here.
func (s *session) exists() bool {
	_, err := s.Store.Load(s.Name)
	return !errors.Is(err, state.ErrNotFound)
}

// fullFrom tests a cluster that is there, brought back to a snapshot.
func (s *session) fullFrom(ctx context.Context, tag string) error {
	find := func() error {
		if err := s.load(); err != nil {
			return err
		}
		s.before = s.Record.Clone()
		return errors.Join(s.protect(), s.asItIs(ctx), s.checkSuites(), s.checkBefore())
	}
	check := func(r *lifecycle.Job) error {
		if _, err := findSnapshot(ctx, r, tag, true); err != nil {
			return err
		}
		return s.checkResets(ctx)(r)
	}
	return s.withJob(ctx, find, check, func(r *lifecycle.Job) []phase.Entry {
		return lifecycle.FullFrom(r, s.keep(), tag)
	})
}

// asItIs refuses a full that asks, by flags, for another cluster than the one that is brought back.
func (s *session) asItIs(ctx context.Context) error {
	if err := s.sameAsAsked(ctx); err != nil {
		return err
	}
	made, asked := s.Record.Spec, s.Settings.Spec()
	var differences []string
	for _, row := range []struct {
		key         string
		made, asked any
	}{
		{"node_count", made.NodeCount, asked.NodeCount},
		{"cpu_cores", made.CPUCores, asked.CPUCores},
		{"memory_mb", made.MemoryMB, asked.MemoryMB},
		{"disk_size_gb", made.DiskSizeGB, asked.DiskSizeGB},
		{"os_image", made.OSImage, asked.OSImage},
	} {
		if s.Settings.Explicit(row.key) && row.made != row.asked {
			differences = append(differences, fmt.Sprintf(
				"--%s is %s, asked for %s", strings.ReplaceAll(row.key, "_", "-"), word(row.made), word(row.asked)))
		}
	}
	if len(differences) == 0 {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %q is brought back as it was: %s", s.Name, strings.Join(differences, "; ")),
		fmt.Sprintf("`hive-test down %s` first, and it is made anew; or take another name", s.Name)))
}

// checkBefore refuses a full that may destroy a cluster which somebody holds. Of any other that was there before, and
// was not left by a full that was to destroy it, it says that this one will.
func (s *session) checkBefore() error {
	if s.before == nil || s.keep() == lifecycle.KeepAlways {
		return nil
	}
	does := "destroys it"
	if !s.Makes() {
		does = "releases its hosts"
	}
	if s.Record.Owner.Held {
		return usage(progress.WithHint(
			fmt.Errorf("cluster %q is held, and full %s at its end: nothing was done", s.Name, does),
			fmt.Sprintf(
				"hive-test test %s tests it as it is; hive-test hold %s --release lets it go; or add --keep always",
				s.Name, s.Name,
			),
		))
	}
	if !s.leftByFull() {
		progress.Warnf(
			s.Sink, "cluster %s exists already: full %s at its end; --keep always keeps it", s.Name, does,
		)
	}
	return nil
}

// leftByFull reports whether the last run of the cluster is a full that has not come to its end: it was killed, or
// could not destroy what it had made.
func (s *session) leftByFull() bool {
	runs, err := s.Store.Runs(s.Name)
	if err != nil || len(runs) == 0 || !strings.HasSuffix(filepath.Base(runs[0].Dir), "-full") {
		return false
	}
	last, err := readReport(runs[0])
	if err != nil {
		return true
	}
	kept := func(p report.Phase) bool { return p.Name == string(cluster.PhaseDown) && p.Status == progress.Skipped }
	return !slices.ContainsFunc(last.Phases, kept)
}
