package opentofu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	tfjson "github.com/hashicorp/terraform-json"
)

// Drift is what a state says, compared with what there is and with what is asked for.
type Drift struct {
	// Drifted are resources that are not as the state has them: Before is what it has, After what there is.
	Drifted []Change
	// Wanted is what a plan would do: Before is what there is, After what is wanted.
	Wanted []Change
	// Resources are those of the state.
	Resources []Resource
}

// Drift returns how what there is differs from the state of a directory, and from what variables ask for. It works in a directory of its
// own that is gone afterwards, on a copy of the state; one in a backend is read, and neither locked nor written.
func (r *Runner) Drift(ctx context.Context, dir string, variables any) (drift Drift, err error) {
	from := workdir{root: dir}
	if left, err := from.errored(); r.options.Backend.Remote() && (left != "" || err != nil) {
		return drift, errors.Join(err, fmt.Errorf("%s is newer than the state in the backend: the next run writes it there", left))
	}
	scratch, err := os.MkdirTemp("", "hive-test-drift-")
	if err != nil {
		return drift, fmt.Errorf("make a directory for the plan: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if !r.options.Backend.Remote() {
		if _, err := ReadState(StatePath(dir)); err != nil {
			return drift, err // not of the copy, which is gone when it is read
		}
		if err := copyState(from, workdir{root: scratch}); err != nil {
			return drift, err
		}
	}
	b, err := Find(ctx, r.options.Find)
	if err != nil {
		return drift, err
	}
	if err := r.lendInitialised(b, from, workdir{root: scratch}); err != nil {
		return drift, err
	}
	if err := lendFiles(from, workdir{root: scratch}, variables); err != nil {
		return drift, err
	}
	run, err := r.beginWith(ctx, b, workdir{root: scratch})
	if err != nil {
		return drift, err
	}
	defer run.Close()
	run.unlocked, run.undescribed = true, true
	return run.drift(ctx, variables)
}

// lendInitialised makes a directory as initialised as another one is, where that is: init takes as long as the plan.
func (r *Runner) lendInitialised(b Binary, from, to workdir) error {
	stamp, err := r.stamp(b)
	if err != nil || !from.initialised(stamp, r.options.Provider) {
		return err
	}
	data := ".terraform"
	if err := os.MkdirAll(to.file(data), 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from.file(data))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(data, entry.Name())
		if entry.IsDir() { // of providers, which nothing writes to without an init
			source, err := filepath.Abs(from.file(path))
			if err == nil {
				err = os.Symlink(source, to.file(path))
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := copyFile(from.file(path), to.file(path)); err != nil {
			return err
		}
	}
	return errors.Join(
		copyFile(from.lockFile(), to.lockFile()), copyFile(from.stamp(), to.stamp()),
	)
}

// lendFiles writes what a run would write into a directory, as far as another one has it, without waiting for the disk, as what is to last
// must: that takes longer than all else but the plan.
func lendFiles(from, to workdir, variables any) error {
	if err := os.MkdirAll(to.dir(), 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if !entry.Type().IsRegular() || !slices.Contains([]string{".tf", ".tfrc", ".pem"}, filepath.Ext(name)) {
			continue
		}
		if err := copyFile(from.file(name), to.file(name)); err != nil {
			return err
		}
	}
	raw, err := encodeVariables(variables)
	if err != nil {
		return err
	}
	return os.WriteFile(to.file(plannedVariables), raw, 0o600)
}

// copyFile copies a file for its owner only; where there is none, nothing.
func copyFile(from, to string) error {
	raw, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o600)
}

func (r *Run) drift(ctx context.Context, variables any) (Drift, error) {
	var drift Drift
	resources, err := ReadState(StatePath(r.dir.root))
	if err != nil {
		return drift, err
	}
	drift.Resources = resources
	plan, err := r.Plan(ctx, variables)
	if err != nil || len(plan.Changes) == 0 && (!plan.drifted || sameState(r.dir.file(planFile), r.runner.options.Observed)) {
		return drift, err
	}
	var shown *tfjson.Plan
	err = r.step(ctx, "show", func(*stream) error {
		r.tofu.SetStdout(io.Discard) // the plan as a whole is no narration
		var err error
		shown, err = r.tofu.ShowPlanFile(ctx, planFile)
		return err
	})
	if err != nil {
		return drift, err
	}
	drift.Drifted, drift.Wanted = changesOf(shown.ResourceDrift), changesOf(shown.ResourceChanges)
	r.mask(drift.Drifted)
	r.mask(drift.Wanted)
	return drift, nil
}

// mask takes what must not be seen out of values.
func (r *Run) mask(changes []Change) {
	for _, c := range changes {
		for i := range c.Attributes {
			a := &c.Attributes[i]
			a.Before, a.After = mask(a.Before, r.secrets), mask(a.After, r.secrets)
		}
	}
}

// changesOf are the changes of managed resources that change anything, in the plan's order.
func changesOf(resources []*tfjson.ResourceChange) []Change {
	var list []Change
	for _, resource := range resources {
		if resource.Mode != tfjson.ManagedResourceMode || resource.Change == nil {
			continue
		}
		action := actionOf(resource.Change.Actions)
		if action == "" {
			continue
		}
		list = append(list, Change{
			Address: resource.Address, Type: resource.Type, Action: action, Attributes: differing(resource.Change),
		})
	}
	return list
}

func actionOf(actions tfjson.Actions) string {
	switch {
	case actions.Create():
		return actionCreate
	case actions.Update():
		return actionUpdate
	case actions.Replace():
		return actionReplace
	case actions.Delete():
		return actionDelete
	}
	return ""
}

// sensitiveValue stands for a value that must not be seen.
const sensitiveValue = "(sensitive)"

// differing are the values of a resource that differ, sorted by name; of one that is there on one side only, none.
func differing(change *tfjson.Change) []Attribute {
	if change.Before == nil || change.After == nil {
		return nil
	}
	before, after := texts(change.Before), texts(change.After)
	names := maps.Clone(before)
	maps.Copy(names, after)
	var list []Attribute
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] == after[name] || marked(change.AfterUnknown, name) {
			continue
		}
		a := Attribute{Name: readable(name), Before: dash(before[name]), After: dash(after[name])}
		if marked(change.BeforeSensitive, name) || marked(change.AfterSensitive, name) {
			a.Before, a.After = sensitiveValue, sensitiveValue
		}
		list = append(list, a)
	}
	return list
}

// texts are the leaves of a JSON value as text, by path.
func texts(value any) map[string]string {
	list := map[string]string{}
	leaves(nil, value, func(name string, leaf any) { list[name] = fmt.Sprint(leaf) })
	return list
}

// marked tells whether a path, or one above it, is marked: marks have the form of what they are about, with true for what is.
func marked(marks any, name string) bool {
	if marks == true {
		return true
	}
	found := false
	leaves(nil, marks, func(path string, leaf any) {
		found = found || leaf == true && (path == name || len(name) > len(path) && name[:len(path)] == path && name[len(path)] == '.')
	})
	return found
}
