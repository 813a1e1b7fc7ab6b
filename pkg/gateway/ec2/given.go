package ec2

import "context"

// homeMember is true of a resource that is in the cluster: what is here is what the cluster does not tell of it.
const homeMember = "_home"

// given are the ids that a cluster has given to what a request makes, by prefix, in turn.
type given struct {
	left  map[string][]string
	taken map[string]bool
}

type givenKey struct{}

// withGiven has what is made get ids that a cluster has given. It is for one request, which runs in one goroutine.
func withGiven(ctx context.Context, ids map[string][]string) context.Context {
	return context.WithValue(ctx, givenKey{}, &given{ids, map[string]bool{}})
}

// givenID takes the next id of a prefix; false: there is none.
func givenID(ctx context.Context, prefix string) (string, bool) {
	g, _ := ctx.Value(givenKey{}).(*given)
	if g == nil || len(g.left[prefix]) == 0 {
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
	return g != nil && g.taken[id]
}
