package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
)

// PruneRequest is what PruneRuns is asked for. A run goes only if each of Keep and OlderThan that is given lets it go.
type PruneRequest struct {
	Request                 // Name: only the runs of that cluster; empty: of all
	Keep      *int          // the newest runs of each name that stay; nil: not given
	OlderThan time.Duration // only runs that began longer ago; 0: not given
}

// PruneAction is what becomes of a run.
type PruneAction string

// What can become of a run.
const (
	PruneKeep    PruneAction = "keep"
	PruneRemove  PruneAction = "remove" // in a plan
	PruneRemoved PruneAction = "removed"
	PruneFailed  PruneAction = "failed"
)

// PrunedRun is a run, and what becomes of it and why.
type PrunedRun struct {
	KeptRun
	Action PruneAction `json:"action"`
	Reason string      `json:"reason"`
	Error  string      `json:"error,omitempty"`
}

// PrunePlan is what a prune does, and has done.
type PrunePlan struct {
	Runs []PrunedRun `json:"runs"`
	// HalfRemoved are directories of runs whose removal was cut off earlier.
	HalfRemoved []string `json:"half_removed"`
}

// Something reports whether there is something to remove.
func (p *PrunePlan) Something() bool {
	return len(p.HalfRemoved) > 0 ||
		slices.ContainsFunc(p.Runs, func(r PrunedRun) bool { return r.Action == PruneRemove })
}

// PruneRuns finds the runs that need not be kept and hands the plan to decide: where that says so, they are removed,
// and the plan tells what became of them.
func (e *Engine) PruneRuns(
	request PruneRequest, decide func(*PrunePlan) (remove bool, err error),
) (*PrunePlan, error) {
	if err := request.check(); err != nil {
		return nil, usage(err)
	}
	store, names, err := e.runNames(request.Request)
	if err != nil {
		return nil, err
	}
	clusters, err := store.List()
	if err != nil {
		return nil, Error{ExitConfig, err}
	}
	plan := &PrunePlan{Runs: []PrunedRun{}, HalfRemoved: []string{}}
	now := time.Now()
	for _, name := range names {
		kept, err := keptRuns(store, name)
		if err != nil {
			return nil, err
		}
		atWork := func(run KeptRun) bool { return store.AtWork(cluster.Name(name), state.Run{Dir: run.RunDir}) }
		exists := slices.Contains(clusters, cluster.Name(name))
		plan.Runs = append(plan.Runs, request.judge(kept, exists, atWork, now)...)
		plan.HalfRemoved = append(plan.HalfRemoved, store.HalfRemoved(cluster.Name(name))...)
	}
	if request.Name != "" && len(plan.Runs)+len(plan.HalfRemoved) == 0 {
		return nil, noRuns(request.Name, store)
	}
	remove, err := decide(plan)
	if remove && err == nil {
		err = plan.carryOut(store, names)
	}
	return plan, err
}

func (r PruneRequest) check() error {
	switch {
	case r.Keep == nil && r.OlderThan == 0:
		return errors.New("say which runs may go: --keep N, --older-than DURATION, or both")
	case r.Keep != nil && *r.Keep < 0:
		return fmt.Errorf("--keep %d is negative", *r.Keep)
	case r.OlderThan < 0:
		return fmt.Errorf("--older-than %s is negative", r.OlderThan)
	}
	return nil
}

// judge decides on the runs of one name. Exists says that there is a cluster of that name, whose latest run stays.
func (r PruneRequest) judge(runs []KeptRun, exists bool, atWork func(KeptRun) bool, now time.Time) []PrunedRun {
	began := func(run KeptRun) time.Time {
		_, at, _ := state.ParseRunName(run.Run)
		return at
	}
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b KeptRun) int { return began(b).Compare(began(a)) })
	judged := make([]PrunedRun, len(runs))
	newer, latest := map[bool]int{}, exists // what logs has gathered is counted by itself
	for i, run := range runs {
		keep := func(why string) { judged[i] = PrunedRun{KeptRun: run, Action: PruneKeep, Reason: why} }
		verb, at, named := state.ParseRunName(run.Run)
		isLatest := latest && named && verb != "logs"
		switch {
		case !named:
			keep("not named as a run")
			continue
		case atWork(run):
			keep("at work")
		case isLatest:
			keep("the latest run of a cluster that exists")
		case r.Keep != nil && newer[verb == "logs"] < *r.Keep:
			keep(fmt.Sprintf("one of the newest %d", *r.Keep))
		case r.OlderThan > 0 && now.Sub(at) < r.OlderThan:
			keep("not older than " + days(r.OlderThan))
		default:
			judged[i] = PrunedRun{KeptRun: run, Action: PruneRemove, Reason: r.why()}
		}
		newer[verb == "logs"]++
		latest = latest && !isLatest
	}
	return judged
}

// why is why a run goes.
func (r PruneRequest) why() string {
	var why string
	if r.Keep != nil {
		why = fmt.Sprintf("not one of the newest %d", *r.Keep)
	}
	if r.OlderThan > 0 {
		if why != "" {
			why += ", and "
		}
		why += "older than " + days(r.OlderThan)
	}
	return why
}

// days writes a duration as people type it, whole days as such.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return progress.FormatLimit(d)
}

// carryOut removes what the plan says, and what earlier removals have left, and notes what became of it.
func (p *PrunePlan) carryOut(store *state.Store, names []string) error {
	var failures []error
	for i := range p.Runs {
		run := &p.Runs[i]
		if run.Action != PruneRemove {
			continue
		}
		switch err := store.RemoveRun(state.Run{Dir: run.RunDir}); {
		case errors.Is(err, state.ErrAtWork):
			run.Action, run.Reason = PruneKeep, "at work"
		case err != nil:
			run.Action, run.Error = PruneFailed, err.Error()
			failures = append(failures, err)
		default:
			run.Action = PruneRemoved
		}
	}
	for _, name := range names {
		if parsed, err := cluster.ParseName(name); err == nil {
			failures = append(failures, store.TidyRuns(parsed))
		}
	}
	return errors.Join(failures...)
}
