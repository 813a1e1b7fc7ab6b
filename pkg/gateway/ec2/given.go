package ec2

import (
	"context"
	"sync"

	"hive-test/pkg/gateway/wire"
)

// homeMember is true of a resource that is in the cluster: what is here is what the cluster does not tell of it.
const homeMember = "_home"

// given are the ids that a cluster has given to what a request makes, by prefix, in turn. It is safe for concurrent use.
type given struct {
	mu    sync.Mutex // what comes with a VPC is made at once
	left  map[string][]string
	taken map[string]bool
	seen  bool // nothing is made: what was seen in the cluster is kept
}

type givenKey struct{}

// withGiven has what is made get ids that a cluster has given.
func withGiven(ctx context.Context, ids map[string][]string) context.Context {
	return context.WithValue(ctx, givenKey{}, &given{left: ids, taken: map[string]bool{}})
}

// asSeen is withGiven for what was seen in the cluster, and is kept unless it is already.
func asSeen(ctx context.Context, ids map[string][]string) context.Context {
	return context.WithValue(ctx, givenKey{}, &given{left: ids, taken: map[string]bool{}, seen: true})
}

// keptOf marks a resource that is made while one of the cluster's is being kept.
func keptOf(ctx context.Context, o wire.Object) {
	if g, _ := ctx.Value(givenKey{}).(*given); g != nil {
		o[homeMember] = true
		if g.seen {
			o[seenMember] = true
		}
	}
}

func isSeen(ctx context.Context) bool {
	g, _ := ctx.Value(givenKey{}).(*given)
	return g != nil && g.seen
}

// givenID takes the next id of a prefix; false: there is none.
func givenID(ctx context.Context, prefix string) (string, bool) {
	g, _ := ctx.Value(givenKey{}).(*given)
	if g == nil {
		return "", false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.left[prefix]) == 0 {
		return "", false
	}
	id := g.left[prefix][0]
	g.left[prefix] = g.left[prefix][1:]
	g.taken[id] = true
	return id, true
}

// isGiven reports whether an id is a cluster's.
func isGiven(ctx context.Context, id string) bool {
	g, _ := ctx.Value(givenKey{}).(*given)
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken[id]
}
