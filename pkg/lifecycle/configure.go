package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"hive-test/pkg/cluster"
	"hive-test/pkg/hive"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// ErrNotUp means that configure was asked of a cluster whose nodes are not all known.
var ErrNotUp = errors.New("the cluster's nodes are not up")

// configure installs hive, forms the cluster and proves its health.
type configure struct{ *Job }

// Configure is the phase that installs and forms.
func Configure(r *Job) phase.Phase { return withEvidence{Phase: configure{r}, run: r} }

// Name is the phase's name.
func (c configure) Name() string { return string(cluster.PhaseConfigure) }

// Skip says that nothing is to do when the same configure has succeeded before and the cluster is still formed.
func (c configure) Skip(ctx context.Context) (string, bool, error) {
	if err := c.locate(ctx); err != nil {
		return "", false, err
	}
	if _, before := c.Record.Phases[cluster.PhaseConfigure]; c.Force || !before {
		return "", false, nil // without reading the program that will be installed: it is large
	}
	inputs, err := c.inputs()
	if err != nil {
		return "", false, err
	}
	if inputs == "" || !c.Record.Done(cluster.PhaseConfigure, inputs) {
		return "", false, nil
	}
	handle, err := c.hive(c.sink(cluster.PhaseConfigure))
	if err != nil {
		return "", false, err
	}
	if report := handle.Check(ctx); report.Formed {
		return "already configured with the same inputs, and formed (--force does it again)", true, nil
	}
	warn(c.sink(cluster.PhaseConfigure), "configured before, but no longer healthy: configuring again")
	return "", false, nil
}

// inputs identifies what would be configured; empty where that cannot be known from here, as for a branch in a repository.
func (c configure) inputs() (string, error) {
	options, err := c.Hive.Hash()
	if err != nil || options == "" {
		return "", err
	}
	return cluster.Hash(options, c.Record.Nodes), nil
}

// Run does every step again; each does only what is left to do.
func (c configure) Run(ctx context.Context) error {
	for _, node := range c.Record.Nodes {
		if !node.Management.IsValid() {
			return progress.WithHint(fmt.Errorf("%w: the address of %s is not known", ErrNotUp, node.Name), fmt.Sprintf("hive-test up %s", c.Record.Name))
		}
	}
	inputs, err := c.inputs()
	if err != nil {
		return err
	}
	return c.recorded(ctx, cluster.PhaseConfigure, inputs, c.form)
}

func (c configure) form(ctx context.Context) error {
	sink := c.sink(cluster.PhaseConfigure)
	if text := hive.Size(len(c.Record.Nodes)); text != "" {
		warn(sink, "%s", text)
	}
	handle, err := c.hive(sink)
	if err != nil {
		return err
	}
	return handle.Configure(ctx, "")
}
