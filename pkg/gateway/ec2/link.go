package ec2

import (
	"context"

	"hive-test/pkg/gateway/wire"
)

// namedMember is the id of the resource that a link is to, in what it is used with.
const namedMember = "Named"

// link notes in a resource that another one is about to name it, as use does. The note counts as long as the other one has
// the id in one of its members: a gateway is there before it is attached, and stays when it is detached.
func (s *Service) link(
	ctx context.Context, k kind, id, ref string, check func(o wire.Object, uses map[string]any) error,
) error {
	return s.use(ctx, k, id, ref, wire.Object{namedMember: id}, check)
}

// unnamed reports whether a use is a link to a resource that its user does not name any more.
func unnamed(use, user wire.Object) bool {
	id := use.Object("With").Text(namedMember)
	return id != "" && !names(user, id)
}

// names reports whether an id is anywhere in an object, or in a list.
func names(v any, id string) bool {
	switch v := v.(type) {
	case string:
		return v == id
	case []any:
		for _, e := range v {
			if names(e, id) {
				return true
			}
		}
	default:
		for _, e := range wire.AsObject(v) {
			if names(e, id) {
				return true
			}
		}
	}
	return false
}

// matching returns those of a list that match.
func matching(list []wire.Object, match func(wire.Object) bool) (found []wire.Object) {
	for _, o := range list {
		if match(o) {
			found = append(found, o)
		}
	}
	return found
}
