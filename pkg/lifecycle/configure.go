package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// ErrNotUp means that configure was asked of a cluster whose nodes are not all known.
var ErrNotUp = errors.New("the cluster's nodes are not up")

// configure installs hive, forms the cluster and proves its health.
type configure struct {
	*Job
	machines []deploy.Machine // of the nodes, once they were looked at
	inputs   *hive.Inputs
}

// Configure is the phase that installs and forms.
func Configure(r *Job) phase.Phase { return collectOnFailure{Phase: &configure{Job: r}, run: r} }

// Name is the phase's name.
func (c *configure) Name() string { return string(cluster.PhaseConfigure) }

// Skip says that nothing is to do when the same configure has succeeded before and the cluster is still formed.
func (c *configure) Skip(ctx context.Context) (string, bool, error) {
	if err := c.meet(ctx); err != nil {
		return "", false, nil // Run says so
	}
	if err := c.locate(ctx); err != nil {
		return "", false, err
	}
	if err := context.Cause(ctx); err != nil {
		return "", false, err
	}
	if _, before := c.Record.Phases[cluster.PhaseConfigure]; c.Force || c.partial() || !before ||
		len(reset(c.Record, c.machines)) > 0 {
		return "", false, nil // without reading the program that will be installed: it is large
	}
	inputs, err := c.wanted()
	if err != nil {
		return "", false, err
	}
	if inputs == "" || !c.Record.Done(cluster.PhaseConfigure, inputs) {
		return "", false, nil
	}
	watched := c.watchMachines(ctx, reachPatience)
	defer watched.Stop()
	handle, err := c.hiveWithin(c.sink(cluster.PhaseConfigure), watched.Monitor)
	if err != nil {
		return "", false, err
	}
	report := handle.Check(ctx)
	if report.Formed {
		return "already configured with the same inputs, and formed (--force does it again)", true, nil
	}
	progress.Warnf(
		c.sink(cluster.PhaseConfigure), "configured before, but no longer healthy: configuring again (%s)",
		strings.Join(report.Reasons(), "; "),
	)
	return "", false, nil
}

// partial tells whether only a part of configuring is asked for.
func (c *configure) partial() bool { return c.From != "" || len(c.Only) > 0 }

// meet finds out which machines the nodes are. A node whose VM is gone, or another than up has left there, cannot be
// configured.
func (c *configure) meet(ctx context.Context) error {
	if c.machines != nil {
		return nil
	}
	machines := c.Job.machines(ctx)
	if err := context.Cause(ctx); err != nil { // the phase may be abandoned, and the record another's by now
		return err
	}
	var failures []error
	for i, machine := range machines {
		node := c.Record.Nodes[i].Name
		switch {
		case machine.Gone:
			failures = append(failures, progress.WithNodes(machine.Err, node))
		case replaced(c.Record.Phases[cluster.PhaseUp].Nodes[node].Machine, machine.ID):
			err := fmt.Errorf("the VM of %s was replaced by others since the last up", node)
			failures = append(failures, progress.WithNodes(err, node))
		case machine.Err != nil:
			c.sink(cluster.PhaseConfigure).Emit(progress.Event{
				Kind: progress.Debug, Node: node,
				Message: "whether its VM was replaced cannot be asked: " + machine.Err.Error(),
			})
		}
	}
	if err := errors.Join(failures...); err != nil {
		return progress.WithHint(fmt.Errorf("%w: %w", ErrNotUp, err),
			fmt.Sprintf("hive-test up %s makes what is missing and learns what is new; then configure goes on", c.Record.Name))
	}
	c.machines = machines
	return nil
}

// wanted identifies what would be configured; empty where that cannot be known from here, as for a branch in a
// repository.
func (c *configure) wanted() (string, error) {
	if c.inputs == nil {
		inputs, err := c.Hive.Inputs()
		if err != nil {
			return "", err
		}
		c.inputs = &inputs
	}
	if c.inputs.All == "" {
		return "", nil
	}
	return cluster.Hash(c.inputs.All, c.Record.Nodes), nil
}

// Run does what is left to do.
func (c *configure) Run(ctx context.Context) error {
	for _, node := range c.Record.Nodes {
		if !node.Management.IsValid() {
			err := progress.WithNodes(fmt.Errorf("%w: the address of %s is not known", ErrNotUp, node.Name), node.Name)
			return progress.WithHint(err, fmt.Sprintf("hive-test up %s", c.Record.Name))
		}
	}
	if err := c.meet(ctx); err != nil {
		return err
	}
	inputs, err := c.wanted()
	if err != nil {
		return err
	}
	book := c.journal()
	course := hive.StepSelection{From: c.From, Only: c.Only, Journal: book}
	if c.partial() {
		if err := c.compatible(book); err != nil {
			return err
		}
		inputs = "" // what it was is not whole any more, before the end shows otherwise
	} else if c.stoppedAtHealth(book, inputs) {
		course.From = hive.StepHealth
	}
	if err := phase.InTurn(ctx, func() error { c.keepFormation(); return nil }); err != nil {
		return err
	}
	return c.recorded(
		ctx, cluster.PhaseConfigure, inputs, func(ctx context.Context) error { return c.form(ctx, book, course) },
	)
}

// keepFormation notes what the last configure has left of the hive that was formed, before this one takes its place in
// the record.
func (c *configure) keepFormation() {
	last, begun := c.Record.Phases[cluster.PhaseConfigure]
	c.Record.KeepFormation(begun && last.Status != cluster.PhaseDone && !untouched(last.Step))
}

// journal is what is remembered of each node, for what is asked for now.
func (c *configure) journal() *journal {
	return &journal{Job: c.Job, inputs: c.inputs.Steps, again: c.Force || c.partial()}
}

// compatible refuses to install on some nodes what would be another program than the others have.
func (c *configure) compatible(book *journal) error {
	order := hive.StepNames()
	if len(c.Only) == 0 || slices.Index(order, c.From) > slices.Index(order, hive.StepInstall) {
		return nil
	}
	now := book.inputs[hive.StepInstall]
	for _, node := range c.Record.Nodes {
		was := book.entry(node.Name).Inputs[hive.StepInstall]
		if !slices.Contains(c.Only, node.Name) && was != "" && now != "" && was != now {
			return progress.WithHint(fmt.Errorf(
				"%s on %s only: %s has another one, and hive of mixed versions fails later",
				hive.Changed(hive.StepInstall, was, now), strings.Join(c.Only, ", "), node.Name,
			),
				fmt.Sprintf("hive-test configure %s without --only-nodes installs it everywhere", c.Record.Name))
		}
	}
	return nil
}

// stoppedAtHealth tells whether a run with the same inputs was stopped when nothing but health was left. One that has
// failed there is no such run: it is begun again.
func (c *configure) stoppedAtHealth(book *journal, inputs string) bool {
	entry := c.Record.Phases[cluster.PhaseConfigure]
	return entry.Status == cluster.PhaseRunning && entry.Step == hive.StepHealth && inputs != "" &&
		entry.Inputs == inputs &&
		!c.Force && len(reset(c.Record, c.machines)) == 0 && book.complete()
}

// reached fails where a host that somebody else runs could not be reached when that was tried last: nothing here makes
// it boot, so it is not waited for. Nodes of ours may be booting, for which the first step waits.
func (c *configure) reached() error {
	if c.Deploy.Makes() {
		return nil
	}
	var failures []error
	for _, node := range c.Record.Nodes {
		if failure := c.unreached[node.Name]; failure != nil &&
			(len(c.Only) == 0 || slices.Contains(c.Only, node.Name)) {
			failures = append(failures, failure)
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return progress.WithHint(fmt.Errorf("hosts cannot be reached over SSH: %w", errors.Join(failures...)),
		fmt.Sprintf("start them, or what is between, then: hive-test configure %s", c.Record.Name))
}

func (c *configure) form(ctx context.Context, book *journal, course hive.StepSelection) error {
	sink := c.sink(cluster.PhaseConfigure)
	if text := hive.Size(len(c.Record.Nodes)); text != "" {
		progress.Warnf(sink, "%s", text)
	}
	if course.From == hive.StepHealth && c.From == "" {
		progress.Infof(sink, "going on with health: a run that was stopped there had done the rest")
	}
	for _, node := range book.refresh(c.machines) {
		sink.Emit(progress.Event{
			Kind: progress.Info, Node: node,
			Message: "new, or made anew, since the cluster was configured: what is done on each node by itself is done there",
		})
	}
	if !book.again {
		book.tell(sink, c.Record.Nodes.Names())
	}
	if err := c.reached(); err != nil {
		return err
	}
	handle, err := c.hive(sink)
	if err != nil {
		return err
	}
	before := slices.Clone(c.Record.Nodes)
	if err := handle.Configure(ctx, course); err != nil {
		if hive.Refused(err) { // the next configure does not take it again
			err = errors.Join(err, phase.InTurn(ctx, func() error { c.Record.Source = c.SourceBefore; return nil }))
		}
		return err
	}
	access, err := handle.Credentials(ctx)
	if err != nil {
		return fmt.Errorf("reading the cluster's credentials: %w", err)
	}
	if err := c.keepAccess(ctx, access); err != nil {
		return fmt.Errorf("keeping the cluster's credentials: %w", err)
	}
	// the inputs name the nodes as they are
	if (c.partial() || !slices.Equal(c.Record.Nodes, before)) && book.complete() {
		whole, err := c.wanted()
		return errors.Join(err, phase.InTurn(ctx, func() error {
			c.Record.SetInputs(cluster.PhaseConfigure, whole)
			return nil
		}))
	}
	return nil
}
