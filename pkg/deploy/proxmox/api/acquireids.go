package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// defaultLeaseWait bounds the wait for ids that another run has leased; it makes its VMs meanwhile.
const defaultLeaseWait = 10 * time.Minute

// AcquireRequest says which ids are to be leased for nodes whose VMs do not exist yet.
type AcquireRequest struct {
	Nodes cluster.Nodes
	// Fresh says that other ids may be chosen where these are lost. Then Choice says how; its Count and Seed are filled
	// in.
	Fresh  bool
	Choice ReserveRequest
	// Wait bounds the wait for what others have leased; 0 is ten minutes.
	Wait time.Duration
	Sink progress.Sink
}

// TakenError says that VM ids that were chosen for a cluster belong to others now.
type TakenError struct{ IDs []int }

// Error names the ids.
func (e *TakenError) Error() string {
	texts := make([]string, len(e.IDs))
	for i, id := range e.IDs {
		texts[i] = fmt.Sprint(id)
	}
	return "VM ids that were chosen for the cluster are taken by others now: " + strings.Join(texts, ", ")
}

// Hint says how to get others.
func (e *TakenError) Hint() string {
	return "`hive-test down` and a new `up` choose other ids; a pinned proxmox.vmid_base has to be another one"
}

// AcquireIDs leases the ids of nodes and then makes sure that they are free: of all runs that come to the same ids, one
// has them and sees them free, until it releases its leases; that is when its VMs are seen by everybody. Where ids were
// lost to another run and may be chosen anew, they are, and the nodes come back with the new ones; else it waits for
// that run.
func AcquireIDs(ctx context.Context, c FreeIDs, leases *IDLeases, req AcquireRequest) (cluster.Nodes, error) {
	if req.Sink == nil {
		req.Sink = progress.Discard
	}
	if req.Wait <= 0 {
		req.Wait = defaultLeaseWait
	}
	h := &acquisition{
		AcquireRequest: req, ctx: ctx, api: c, leases: leases,
		nodes: slices.Clone(req.Nodes), end: leases.Now().Add(req.Wait),
	}
	pauses := wait.Backoff{First: 50 * time.Millisecond, Max: 3 * time.Second, Jitter: 0.5}
	for range pauses.Tries(ctx) {
		done, err := h.try()
		if done || err != nil {
			return h.nodes, err
		}
	}
	return nil, fmt.Errorf("waiting for VM ids: %w", context.Cause(ctx))
}

type acquisition struct {
	AcquireRequest
	ctx    context.Context
	api    FreeIDs
	leases *IDLeases
	nodes  cluster.Nodes
	end    time.Time
}

// try is one attempt. It is done, has failed for good, or is worth another.
func (h *acquisition) try() (done bool, err error) {
	ids, held := h.ids(), h.leased()
	err = h.leases.Acquire(h.ctx, ids)
	if leased, ok := errors.AsType[*LeasedError](err); ok {
		return false, h.retryLater(leased)
	}
	if err != nil {
		return false, err
	}
	taken, err := takenNow(h.ctx, h.api, h.nodes)
	switch {
	case err != nil:
		return false, fmt.Errorf("checking that the chosen VM ids are free: %w", err)
	case len(taken) == 0:
		return true, nil
	}
	lost := error(&TakenError{IDs: taken})
	if h.Fresh && h.Choice.Base == 0 {
		lost = h.choose(taken)
	}
	return false, errors.Join(lost, h.leases.releaseNew(context.WithoutCancel(h.ctx), held, ids))
}

func (h *acquisition) ids() []int {
	ids := make([]int, len(h.nodes))
	for i, n := range h.nodes {
		ids[i] = placement.Of(n).VMID
	}
	return ids
}

func (h *acquisition) leased() []int {
	var ids []int
	for _, id := range h.ids() {
		if h.leases.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// retryLater leaves the ids to who has leased them: others are chosen, or it is waited for them.
func (h *acquisition) retryLater(leased *LeasedError) error {
	if h.Fresh && h.Choice.Base == 0 {
		avoid, err := LeasedIDs(h.ctx, h.leases.Pools, h.leases.OwnerID)
		if err != nil && !errors.Is(err, ErrForbidden) {
			return err
		}
		for id := leased.Block; id < leased.Block+blockSize; id++ {
			avoid = append(avoid, id)
		}
		if h.choose(avoid) == nil {
			return nil
		}
	}
	if h.leases.Now().After(h.end) {
		return progress.WithHint(fmt.Errorf("after %s: %w", h.Wait, leased),
			fmt.Sprintf("if no such run exists any more: pvesh delete /pools/%s; or use another proxmox.vmid_range",
				poolName(leased.Block)))
	}
	h.Sink.Emit(progress.Event{
		Kind: progress.Wait, Message: "VM ids that no other run has claimed", Error: leased.Error(),
	})
	return nil
}

// choose takes other ids for the nodes, as many in a row; all else that was chosen for them stays.
func (h *acquisition) choose(avoid []int) error {
	choice := h.Choice
	choice.Count, choice.Seed = len(h.nodes), rand.Uint64()
	choice.Taken = append(slices.Clone(choice.Taken), avoid...)
	chosen, err := Choose(h.ctx, h.api, choice)
	if err != nil {
		return err
	}
	for i := range h.nodes {
		placement.Change(&h.nodes[i], func(v *placement.VM) { v.VMID = placement.Of(chosen[i]).VMID })
	}
	return nil
}
