package engine

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

// DiffRequest is what DiffRuns is asked for: two runs, each a directory or the name of a run, or its beginning, or
// latest or previous. Name is the cluster that names of runs are of; empty: any.
type DiffRequest struct {
	Request
	Before, After string
}

// RunsDiff is what differs between two runs.
type RunsDiff struct {
	Before KeptRun `json:"before"`
	After  KeptRun `json:"after"`
	// Phases and Cases are those that differ, the worst first.
	Phases []RunChange `json:"phases"`
	Cases  []RunChange `json:"cases"`
	// Settings are those that were given differently; an empty value: it was not given.
	Settings []ValueChange `json:"settings"`
	// Versions are those of hive, and how many nodes on which hypervisors there were.
	Versions []ValueChange `json:"versions"`
	// Notes say what could not be compared.
	Notes []string `json:"notes"`
	// Earlier is how many earlier runs that passed were looked at for what is usual.
	Earlier int `json:"earlier"`
}

// ChangeKind is how a case or a phase differs.
type ChangeKind string

// How cases and phases differ, the worst first.
const (
	NewlyFailing ChangeKind = "newly_failing"
	StillFailing ChangeKind = "still_failing"
	NowFlaky     ChangeKind = "flaky"
	Slower       ChangeKind = "slower"
	Fixed        ChangeKind = "fixed"
	NewCase      ChangeKind = "new"
	GoneCase     ChangeKind = "gone"
	NowSkipped   ChangeKind = "skipped"
	NowExcused   ChangeKind = "quarantined"
	NewlyRun     ChangeKind = "newly_run" // it was skipped
)

// ChangeKinds are all of them, in their order.
func ChangeKinds() []ChangeKind {
	return []ChangeKind{
		NewlyFailing, StillFailing, NowFlaky, Slower, Fixed, NewCase, GoneCase, NowSkipped, NowExcused, NewlyRun,
	}
}

// RunChange is a case or a phase that differs. Before or After is empty where it is not in that run.
type RunChange struct {
	Change        ChangeKind      `json:"change"`
	Suite         string          `json:"suite,omitempty"` // of a case
	Name          string          `json:"name"`
	Node          string          `json:"node,omitempty"`
	Before        progress.Status `json:"before,omitempty"`
	After         progress.Status `json:"after,omitempty"`
	BeforeSeconds float64         `json:"before_seconds"`
	AfterSeconds  float64         `json:"after_seconds"`
	// UsualSeconds is the longest that it took in earlier runs that passed; missing: there are too few.
	UsualSeconds float64 `json:"usual_seconds,omitempty"`
	Error        string  `json:"error,omitempty"`
}

// ValueChange is a value that differs.
type ValueChange struct {
	Key    string `json:"key"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// What is slower by more than noise: more than slowerFactor times as long, and by more than slowerSeconds; and longer
// than in each of the earlier runs that passed, where at least usualRuns of them tell it.
const (
	slowerFactor  = 1.5
	slowerSeconds = 1.0
	usualRuns     = 3
	earlierRuns   = 20 // that are looked at, the newest ones
)

// DiffRuns compares two runs. Nothing but what they left is read.
func (e *Engine) DiffRuns(request DiffRequest) (RunsDiff, error) {
	store, _, err := e.runNames(request.Request)
	if err != nil {
		return RunsDiff{}, err
	}
	var runs [2]KeptRun
	var reports [2]report.Report
	for i, asked := range []string{request.Before, request.After} {
		dir, err := findRun(store, asked, request.Name)
		if err != nil {
			return RunsDiff{}, err
		}
		if runs[i], reports[i], err = loadKept(dir); err != nil {
			return RunsDiff{}, Error{ExitNotFound, fmt.Errorf("%s is no run that can be read: %w", dir, err)}
		}
	}
	diff := compareRuns(reports[0], reports[1], earlierReports(runs[1]))
	diff.Before, diff.After = runs[0], runs[1]
	if runs[1].Result == RunRunning { // what is missing may still come
		diff.Phases, diff.Cases = slices.DeleteFunc(diff.Phases, unfinished), slices.DeleteFunc(diff.Cases, unfinished)
	}
	for _, run := range runs {
		if run.Result == RunRunning {
			diff.Notes = append(diff.Notes, run.Run+" is at work: it is compared as far as it has come")
		}
	}
	return diff, nil
}

// unfinished reports whether a run that is at work may still do what has changed.
func unfinished(change RunChange) bool {
	return change.Change == GoneCase || change.After == progress.Interrupted
}

// loadKept reads a run that may be anywhere.
func loadKept(dir string) (KeptRun, report.Report, error) {
	r, ended, err := loadRun(dir)
	if err != nil {
		return KeptRun{}, r, err
	}
	kept := keptOf(r, ended)
	kept.Cluster, kept.Run = progress.OneLine(r.Cluster), progress.OneLine(filepath.Base(dir))
	kept.RunDir, kept.Bytes = dir, sizeOf(dir)
	if !ended && (state.Run{Dir: dir}).AtWork() {
		kept.Result = RunRunning
	}
	return kept, r, nil
}

// earlierReports are the runs of the same verb beside a run that began before it and passed, the newest first.
func earlierReports(run KeptRun) []report.Report {
	entries, err := os.ReadDir(filepath.Dir(run.RunDir))
	if err != nil {
		return nil
	}
	var earlier []report.Report
	for _, entry := range slices.Backward(entries) {
		verb, _, named := state.ParseRunName(entry.Name())
		if !named || !entry.IsDir() || verb != run.Verb || entry.Name() >= filepath.Base(run.RunDir) {
			continue
		}
		r, ended, err := loadRun(filepath.Join(filepath.Dir(run.RunDir), entry.Name()))
		if err == nil && ended && r.Result == progress.Passed {
			earlier = append(earlier, r)
		}
		if len(earlier) == earlierRuns {
			break
		}
	}
	return earlier
}

// compareRuns compares what two runs report, and looks at earlier ones that passed for what is usual.
func compareRuns(before, after report.Report, earlier []report.Report) RunsDiff {
	past := make([][]outcome, len(earlier))
	pastPhases := make([][]outcome, len(earlier))
	for i, r := range earlier {
		past[i], pastPhases[i] = caseOutcomes(r), phaseOutcomes(r)
	}
	diff := RunsDiff{
		Phases:  changes(phaseOutcomes(before), phaseOutcomes(after), usual(pastPhases)),
		Cases:   changes(caseOutcomes(before), caseOutcomes(after), usual(past)),
		Earlier: len(earlier), Settings: []ValueChange{}, Versions: []ValueChange{}, Notes: []string{},
	}
	told := true
	for _, r := range []report.Report{before, after} {
		if len(r.Nodes)+len(r.Settings)+len(r.Flags) == 0 { // hive-test did not tell them always
			diff.Notes = append(diff.Notes, fmt.Sprintf(
				"the %s of %s does not tell its settings and versions: they are not compared",
				progress.OneLine(r.Verb), r.Started.UTC().Format("2006-01-02T15:04:05Z"),
			))
			told = false
		}
	}
	if told {
		diff.Settings = valueChanges(settingsOf(before), settingsOf(after))
		diff.Versions = slices.DeleteFunc(valueChanges(versionsOf(before), versionsOf(after)), func(v ValueChange) bool {
			return v.Before == "" || v.After == "" // not known there, as hive's is to a run that has not installed it
		})
	}
	return diff
}

// outcomeKey is what tells cases and phases apart, the same for every cluster. Nth counts those that are alike.
type outcomeKey struct {
	suite, name, node string
	nth               int
}

// outcome is a case or a phase as it ended.
type outcome struct {
	outcomeKey
	status  progress.Status
	seconds float64
	err     string
}

func caseOutcomes(r report.Report) []outcome {
	all := make([]outcome, len(r.Cases))
	for i, c := range r.Cases {
		all[i] = outcome{
			outcomeKey{
				suite: portable(r, c.Suite), name: portable(r, c.Name), node: portable(r, c.Node),
			}, c.Status, c.Seconds, progress.FirstLine(c.Error),
		}
	}
	return numbered(all)
}

func phaseOutcomes(r report.Report) []outcome {
	all := make([]outcome, len(r.Phases))
	for i, p := range r.Phases {
		all[i] = outcome{outcomeKey{name: progress.OneLine(p.Name)}, p.Status, p.Seconds, progress.FirstLine(p.Error)}
	}
	return numbered(all)
}

func portable(r report.Report, name string) string { return progress.OneLine(r.WithoutCluster(name)) }

// numbered tells those apart that are alike.
func numbered(all []outcome) []outcome {
	seen := map[outcomeKey]int{}
	for i, o := range all {
		seen[o.outcomeKey]++
		all[i].nth = seen[o.outcomeKey]
	}
	return all
}

// usual returns the longest that each took where it passed, for those that at least usualRuns runs tell of.
func usual(runs [][]outcome) map[outcomeKey]float64 {
	count, longest := map[outcomeKey]int{}, map[outcomeKey]float64{}
	for _, run := range runs {
		for _, o := range run {
			if o.status == progress.Passed {
				count[o.outcomeKey]++
				longest[o.outcomeKey] = max(longest[o.outcomeKey], o.seconds)
			}
		}
	}
	for key, n := range count {
		if n < usualRuns {
			delete(longest, key)
		}
	}
	return longest
}

// changes are the differences between two lists, the worst first, and those that are equally bad in the order of after.
func changes(before, after []outcome, usual map[outcomeKey]float64) []RunChange {
	earlier := map[outcomeKey]outcome{}
	for _, o := range before {
		earlier[o.outcomeKey] = o
	}
	found := []RunChange{}
	for _, b := range after {
		a := earlier[b.outcomeKey]
		delete(earlier, b.outcomeKey)
		if kind := kindOf(a, b, usual); kind != "" {
			found = append(found, changeOf(kind, a, b, usual))
		}
	}
	for _, a := range before {
		if _, left := earlier[a.outcomeKey]; left {
			found = append(found, changeOf(GoneCase, a, outcome{outcomeKey: a.outcomeKey}, usual))
		}
	}
	slices.SortStableFunc(found, func(x, y RunChange) int {
		return cmp.Or(
			cmp.Compare(slices.Index(ChangeKinds(), x.Change), slices.Index(ChangeKinds(), y.Change)),
			cmp.Compare(bad(y.After), bad(x.After)), // what is new and fails comes before what is new
		)
	})
	return found
}

func bad(status progress.Status) int {
	if status != "" && status.Bad() {
		return 1
	}
	return 0
}

func changeOf(kind ChangeKind, a, b outcome, usual map[outcomeKey]float64) RunChange {
	return RunChange{
		Change: kind, Suite: b.suite, Name: b.name, Node: b.node, Before: a.status, After: b.status,
		BeforeSeconds: a.seconds, AfterSeconds: b.seconds, UsualSeconds: usual[b.outcomeKey],
		Error: cmp.Or(b.err, a.err),
	}
}

// kindOf is how b differs from a, which is empty where it was not in the run before; empty: it does not.
func kindOf(a, b outcome, usual map[outcomeKey]float64) ChangeKind {
	switch wasBad := a.status != "" && a.status.Bad(); {
	case a.status == "":
		return NewCase
	case b.status.Bad() && wasBad:
		return StillFailing
	case b.status.Bad():
		return NewlyFailing
	case a.status == b.status && b.status == progress.Passed && slower(a, b, usual):
		return Slower
	case a.status == b.status:
		return ""
	case b.status == progress.Flaky:
		return NowFlaky
	case b.status == progress.Skipped:
		return NowSkipped
	case b.status == progress.Quarantined:
		return NowExcused
	case a.status == progress.Skipped:
		return NewlyRun
	}
	return Fixed
}

// slower reports whether b took longer than a by more than noise.
func slower(a, b outcome, usual map[outcomeKey]float64) bool {
	longest, known := usual[b.outcomeKey]
	return b.seconds > a.seconds*slowerFactor && b.seconds-a.seconds > slowerSeconds && (!known || b.seconds > longest)
}

// namedValue is a value with its name.
type namedValue struct{ key, text string }

// valueChanges are the values that differ, in the order of their names.
func valueChanges(before, after []namedValue) []ValueChange {
	pairs := map[string]*ValueChange{}
	pair := func(key string) *ValueChange {
		if pairs[key] == nil {
			pairs[key] = &ValueChange{Key: key}
		}
		return pairs[key]
	}
	for _, v := range before {
		pair(v.key).Before = v.text
	}
	for _, v := range after {
		pair(v.key).After = v.text
	}
	found := []ValueChange{}
	for _, change := range pairs {
		if change.Before != change.After {
			found = append(found, *change)
		}
	}
	slices.SortFunc(found, func(x, y ValueChange) int { return cmp.Compare(x.Key, y.Key) })
	return found
}

func settingsOf(r report.Report) []namedValue {
	values := make([]namedValue, len(r.Settings))
	for i, s := range r.Settings {
		values[i] = namedValue{progress.OneLine(s.Key), progress.OneLine(s.Value)}
	}
	return values
}

// versionsOf is what was tested and on what.
func versionsOf(r report.Report) []namedValue {
	var hive, hypervisors []string
	for _, n := range r.Nodes {
		hive = append(hive, progress.OneLine(n.Hive))
		hypervisors = append(hypervisors, progress.OneLine(n.Hypervisor))
	}
	return []namedValue{
		{"hive", distinct(hive)}, {"hypervisors", distinct(hypervisors)}, {"nodes", strconv.Itoa(len(r.Nodes))},
	}
}

// distinct lists the texts that are not empty, each once.
func distinct(texts []string) string {
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ", ")
}

// findRun returns the directory of the run that is meant: a directory, or a run of the cluster of that name, or of any
// where it is empty.
func findRun(store *state.Store, asked, name string) (string, error) {
	if asked == "" {
		return "", usage(errors.New("the name of a run is empty"))
	}
	if strings.ContainsRune(asked, filepath.Separator) || asked == "." || asked == ".." {
		return runDirectory(asked)
	}
	dir, err := namedRun(store, asked, name)
	if err == nil {
		return dir, nil
	}
	if here, hereErr := runDirectory(asked); hereErr == nil {
		return here, nil
	}
	return "", err
}

// runDirectory returns the directory at a path, wherever links lead.
func runDirectory(path string) (string, error) {
	dir, err := filepath.Abs(path)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", Error{ExitNotFound, fmt.Errorf("there is no run in %s: %w", path, err)}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", usage(fmt.Errorf("%s is not the directory of a run", path))
	}
	return dir, nil
}

// The names of runs that stand for others.
const (
	LatestRun   = "latest"
	PreviousRun = "previous"
)

// namedRun finds a run by its name among those that are kept.
func namedRun(store *state.Store, asked, name string) (string, error) {
	names, err := namesOf(store, name)
	if err != nil {
		return "", err
	}
	byName := map[string][]state.Run{}
	for _, n := range names {
		kept, err := store.Kept(n)
		if err != nil {
			return "", Error{ExitConfig, err}
		}
		kept = slices.DeleteFunc(kept, func(run state.Run) bool {
			verb, _, named := state.ParseRunName(filepath.Base(run.Dir))
			return !named || verb == "logs"
		})
		if len(kept) > 0 {
			byName[n] = kept
		}
	}
	if name != "" && len(byName) == 0 {
		return "", noRuns(name, store)
	}
	if asked == LatestRun || asked == PreviousRun {
		return recentRun(byName, asked)
	}
	return matchingRun(store, byName, asked)
}

// namesOf are the names whose runs are meant.
func namesOf(store *state.Store, name string) ([]string, error) {
	if name != "" {
		return []string{name}, nil
	}
	names, err := store.RunNames()
	if err != nil {
		return nil, Error{ExitConfig, err}
	}
	return names, nil
}

// recentRun is the latest run, or the one before it.
func recentRun(byName map[string][]state.Run, asked string) (string, error) {
	if len(byName) > 1 {
		return "", usage(progress.WithHint(
			fmt.Errorf("%s: there are runs of %s", asked, progress.Count(len(byName), "cluster")),
			"name the cluster after the two runs: hive-test runs diff A B NAME",
		))
	}
	at := 0
	if asked == PreviousRun {
		at = 1
	}
	for name, runs := range byName {
		if at < len(runs) {
			return runs[at].Dir, nil
		}
		return "", Error{ExitNotFound, fmt.Errorf("cluster %q has no run before its latest one", name)}
	}
	return "", Error{ExitNotFound, errors.New("there are no runs")}
}

// matchingRun is the run whose name begins so; one of that very name goes first.
func matchingRun(store *state.Store, byName map[string][]state.Run, asked string) (string, error) {
	var exact, matching []string
	for _, runs := range byName {
		for _, run := range runs {
			if base := filepath.Base(run.Dir); base == asked {
				exact = append(exact, run.Dir)
			} else if strings.HasPrefix(base, asked) {
				matching = append(matching, run.Dir)
			}
		}
	}
	if len(exact) > 0 {
		matching = exact
	}
	slices.Sort(matching)
	switch len(matching) {
	case 0:
		return "", Error{ExitNotFound, progress.WithHint(
			fmt.Errorf("there is no run %q in %s", asked, store.RunsDir("")),
			"`hive-test runs` lists the runs that are kept; --clusters-dir names another directory",
		)}
	case 1:
		return matching[0], nil
	}
	shown := matching[:min(3, len(matching))]
	return "", usage(progress.WithHint(
		fmt.Errorf(
			"%q is the beginning of %s: %s", asked, progress.Count(len(matching), "run"), strings.Join(shown, ", "),
		),
		"give more of its name, or the path of its directory",
	))
}
