package ec2

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
)

// longestName is how many characters names have at most.
const longestName = 255

// namedID returns the id of a resource of which there is one with a name. It follows from the name, so that of two
// requests at once for one name, one finds the other's resource.
func (s *Service) namedID(k kind, name string) string {
	sum := sha256.Sum256([]byte(s.Account + "\x00" + k.bucket + "\x00" + name))
	return k.prefix + "-" + hex.EncodeToString(sum[:])[:idDigits]
}

// createNamed adds a resource that has a namedID; duplicate is the error where there is one with that name.
func (s *Service) createNamed(ctx context.Context, k kind, o wire.Object, duplicate error) error {
	keptOf(ctx, o)
	err := s.Store.Create(ctx, k.bucket, o.Text(k.id), o)
	if errors.Is(err, store.ErrExists) {
		if seen, err := s.keptAnew(ctx, k, o); seen || err != nil {
			return err
		}
		return duplicate
	}
	return err
}

// idsOf returns the ids of the resources that have a name in a member.
func (s *Service) idsOf(ctx context.Context, k kind, member, name string) ([]string, error) {
	list, err := s.all(ctx, k)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, o := range list {
		if o.Text(member) == name {
			ids = append(ids, o.Text(k.id))
		}
	}
	if ids == nil {
		return nil, k.missingError(name)
	}
	return ids, nil
}

// describeNamed is describe for a kind whose resources can be asked for by the names in a member, too. Names is the
// member of the request that has them.
func (s *Service) describeNamed(
	ctx context.Context, k kind, in wire.Object, names, member string,
) (wire.Object, error) {
	ids := in.Texts(k.ids)
	for _, name := range in.Texts(names) {
		found, err := s.idsOf(ctx, k, member, name)
		if err != nil {
			return nil, err
		}
		for _, id := range found {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	in = in.Clone()
	in[k.ids] = wire.Strings(ids...)
	return s.describe(ctx, k, in)
}

// named is an error where a name is not one that AWS takes.
func named(parameter, name string) error {
	switch {
	case name == "":
		return wire.Errorf(wire.MissingParameter, "The request must contain the parameter %s", parameter)
	case len(name) > longestName:
		return invalid("Value (%s) for parameter %s is invalid. Length exceeds maximum of %d.", name, parameter, longestName)
	case slices.ContainsFunc([]rune(name), func(c rune) bool { return c < ' ' || c > '~' }):
		return invalid("Value (%s) for parameter %s is invalid. Character sets beyond ASCII are not supported.",
			name, parameter)
	}
	return nil
}
