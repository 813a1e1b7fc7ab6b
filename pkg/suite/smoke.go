package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"hive-test/pkg/cluster"
)

// smoke runs its cases for all nodes at once. The calls to one gateway follow each other over one connection. They end as
// soon as it is known that the node is unreachable.
func (r *runner) smoke(ctx context.Context, record *recorder) {
	place := func(kind, node int) int { return kind*len(r.Nodes) + node }
	asked := make([]nodeContext, len(r.Nodes))
	for i := range asked {
		asked[i].Context, asked[i].end = context.WithCancelCause(ctx)
	}
	var all sync.WaitGroup
	defer func() {
		all.Wait()
		for _, node := range asked {
			node.end(nil)
		}
	}()
	if r.Health != nil {
		all.Go(func() { r.nodeHealth(ctx, record, place, asked) })
	}
	client, err := newGatewayClient(r.Credentials, r.GatewayPort, r.Dial)
	if err != nil {
		record.try(ctx, place(2, 0), "", "credentials", func(context.Context) error { return err })
		return
	}
	all.Go(func() {
		defer client.close()
		var calls sync.WaitGroup
		defer calls.Wait()
		for i, node := range r.Nodes {
			calls.Go(func() {
				silent := ""
				for k, c := range gatewayCases(client, node) {
					if silent != "" {
						c.test = func(context.Context) error { return fmt.Errorf("not asked: %s had no answer", silent) }
					}
					if r.limitedTry(asked[i], record, place(2+k, i), node.Name, c) {
						silent = c.name + "/" + node.Name
					}
				}
			})
		}
	})
}

// nodeContext is that of what one node is asked.
type nodeContext struct {
	context.Context
	end context.CancelCauseFunc
}

// unreachableError ends what a node is asked.
type unreachableError struct{ error }

// limitedTry runs one case, and reports whether there was no answer to it. What has no answer in its time is asked once
// more: slow is not broken.
func (r *runner) limitedTry(
	ctx context.Context, record *recorder, place int, node string, c smokeCase,
) (silent bool) {
	once := func(ctx context.Context) error {
		ctx, cancel := r.limited(ctx)
		defer cancel()
		return c.test(ctx)
	}
	record.try(ctx, place, node, c.name+"/"+node, func(ctx context.Context) error {
		unanswered := func(err error) bool { return ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) }
		err := once(ctx)
		if unanswered(err) {
			err = once(ctx)
		}
		_, unreachable := errors.AsType[unreachableError](err)
		silent = unreachable || unanswered(err)
		return err
	})
	return silent
}

func (r *runner) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.RequestTimeout,
		fmt.Errorf("no answer within %s: %w", r.RequestTimeout, context.DeadlineExceeded))
}

// nodeHealth asks once about all nodes, for that is how it is known, and makes two cases per node of the answer. Health
// has limits of its own for each of its questions. What is asked of nodes that are unreachable ends.
func (r *runner) nodeHealth(
	ctx context.Context, record *recorder, place func(kind, node int) int, asked []nodeContext,
) {
	known := map[string]NodeHealth{}
	for _, n := range r.Health(ctx) {
		known[n.Node] = n
	}
	for i, node := range r.Nodes {
		h, ok := known[node.Name]
		if !ok {
			h.Health = errors.New("nothing is known of the node")
			h.Peers = h.Health
		}
		if h.Unreachable != nil {
			asked[i].end(unreachableError{fmt.Errorf("the node is unreachable: %w", h.Unreachable)})
		}
		record.try(ctx, place(0, i), node.Name, "health/"+node.Name, func(context.Context) error { return h.Health })
		record.try(ctx, place(1, i), node.Name, "peers/"+node.Name, func(context.Context) error { return h.Peers })
	}
}

type smokeCase struct {
	name string
	test func(context.Context) error
}

func gatewayCases(c *gatewayClient, n cluster.Node) []smokeCase {
	return []smokeCase{
		{"gateway", func(ctx context.Context) error { return c.refusesUnsigned(ctx, n) }},
		{"regions", func(ctx context.Context) error { return c.describeRegions(ctx, n) }},
		{"instance-types", func(ctx context.Context) error { return c.describeInstanceTypes(ctx, n) }},
		{"instances", func(ctx context.Context) error { return c.describeInstances(ctx, n) }},
	}
}
