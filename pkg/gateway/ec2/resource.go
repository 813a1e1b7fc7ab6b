package ec2

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
)

// Members that the service keeps beside those of the API.
const (
	dueMember  = "_due"  // when thenMember comes true, in nanoseconds since 1970
	thenMember = "_then" // the members that change then
	goneMember = "_gone" // when the resource is not told of any more
	usesMember = "_uses" // by what the resource is used: what is in it, by ref
	partMember = "_part" // id of the VPC or the instance that the resource came with: without that, there is none
	// endedMember is true of what is told of, but uses nothing any more: an instance that was terminated.
	endedMember = "_ended"
)

// later has members of a resource change after the lag, in place of what was to come before. What they change to may hold
// dueMember and thenMember in turn.
func (s *Service) later(o wire.Object, then wire.Object) {
	delete(o, dueMember)
	delete(o, thenMember)
	if s.Lag <= 0 {
		maps.Copy(o, then)
		return
	}
	o[dueMember], o[thenMember] = s.Now().Add(s.Lag).UnixMicro(), then
}

// settle returns a resource as it is by now; nil: it is gone. The object that is given stays as it is.
func (s *Service) settle(o wire.Object) wire.Object {
	now := s.Now().UnixMicro()
	if o.Bool(hiddenMember) || o.Has(goneMember) && o.Int(goneMember) <= now {
		return nil
	}
	if !o.Has(dueMember) || o.Int(dueMember) > now {
		return o
	}
	o = o.Clone()
	for o.Has(dueMember) && o.Int(dueMember) <= now {
		then := o.Object(thenMember)
		delete(o, dueMember)
		delete(o, thenMember)
		maps.Copy(o, then)
	}
	return o
}

// get returns a resource as it is by now, or the kind's error.
func (s *Service) get(ctx context.Context, k kind, id string) (wire.Object, error) {
	o, err := s.Store.Get(ctx, k.bucket, id)
	if err != nil {
		return nil, k.orMissing(err, id)
	}
	if o = s.settle(o); o == nil || !s.whole(ctx, o) {
		return nil, k.missingError(id)
	}
	return o, nil
}

// all returns the resources of a kind as they are by now.
func (s *Service) all(ctx context.Context, k kind) ([]wire.Object, error) {
	list, err := s.Store.All(ctx, k.bucket)
	if err != nil {
		return nil, err
	}
	whole := s.wholes(ctx)
	there := list[:0]
	for _, kept := range list {
		o := s.settle(kept)
		switch {
		case kept.Bool(hiddenMember):
		case o == nil:
			s.sweep(ctx, k, kept)
		case whole(o):
			there = append(there, o)
		}
	}
	return there, nil
}

// sweep deletes what is not told of any more. It stays until notes of what it has used are no longer young: those of
// what is not there may be of what is about to be. One that cannot be deleted is swept another time.
func (s *Service) sweep(ctx context.Context, k kind, o wire.Object) {
	if s.Now().UnixMicro()-o.Int(goneMember) < madeSoon.Microseconds() {
		return
	}
	_ = s.Store.Delete(ctx, k.bucket, o.Text(k.id), func(o wire.Object) error {
		if s.settle(o) != nil {
			return store.ErrExists
		}
		return nil
	})
}

// wholes returns what reports the same as whole, and asks the store once for all VPCs or instances.
func (s *Service) wholes(ctx context.Context) func(wire.Object) bool {
	there := map[string]map[string]bool{} // by bucket, then by id
	return func(o wire.Object) bool {
		of := o.Text(partMember)
		k, known := s.kindOf(of)
		if of == "" || !known {
			return of == ""
		}
		ids, asked := there[k.bucket]
		if !asked {
			ids = map[string]bool{}
			list, _ := s.Store.All(ctx, k.bucket) // where it cannot be asked, nothing is whole
			for _, parent := range list {
				ids[parent.Text(k.id)] = true
			}
			there[k.bucket] = ids
		}
		return ids[of]
	}
}

// whole reports whether the VPC or the instance that a resource came with is there: what comes with it is made before it
// and deleted after it.
func (s *Service) whole(ctx context.Context, o wire.Object) bool {
	of := o.Text(partMember)
	if of == "" {
		return true
	}
	k, known := s.kindOf(of)
	if !known {
		return false
	}
	_, err := s.Store.Get(ctx, k.bucket, of)
	return err == nil
}

// create adds a resource. Where a request is made again by its ClientToken, the resource that it has made is returned.
func (s *Service) create(ctx context.Context, k kind, in, o wire.Object) (wire.Object, error) {
	id := o.Text(k.id)
	if hash := askedHash(in); hash != "" {
		o[tokenMember] = hash
	}
	if isGiven(ctx, id) {
		keptOf(ctx, o)
	}
	err := s.Store.Create(ctx, k.bucket, id, o)
	if errors.Is(err, store.ErrExists) {
		if seen, err := s.keptAnew(ctx, k, o); seen || err != nil {
			return o, err
		}
		made, err := s.Store.Get(ctx, k.bucket, id)
		if err == nil {
			made = s.settle(made)
		}
		if err != nil || made == nil {
			return nil, k.missingError(id)
		}
		return made, sameRequest(made, in)
	}
	return o, err
}

// change changes a resource as it is by now.
func (s *Service) change(ctx context.Context, k kind, id string, change func(wire.Object) error) (wire.Object, error) {
	o, err := s.Store.Change(ctx, k.bucket, id, func(o wire.Object) error {
		now := s.settle(o)
		if now == nil || !s.whole(ctx, o) {
			return k.missingError(id)
		}
		if o.Int(dueMember) != now.Int(dueMember) {
			clear(o)
			maps.Copy(o, now)
		}
		return change(o)
	})
	return o, k.orMissing(err, id)
}

// remove deletes a resource that check, which may be nil, has nothing against.
func (s *Service) remove(ctx context.Context, k kind, id string, check func(wire.Object) error) error {
	err := s.Store.Delete(ctx, k.bucket, id, func(o wire.Object) error {
		if o = s.settle(o); o == nil || !s.whole(ctx, o) {
			return k.missingError(id)
		}
		if check != nil {
			return check(o)
		}
		return nil
	})
	return k.orMissing(err, id)
}

// madeSoon is how long a resource that is noted as a user of another may take to be there.
const madeSoon = 10 * time.Second

// use notes in a resource that another one is about to use it, and with what, such as a subnet with its CIDR block. Check,
// which may be nil, is told the uses that there are. The other resource is made after that; when it is deleted, so is
// the note. One that has died in between leaves a note that counts for nothing after madeSoon.
func (s *Service) use(
	ctx context.Context, k kind, id, ref string, with any, check func(o wire.Object, uses map[string]any) error,
) error {
	_, err := s.change(ctx, k, id, func(o wire.Object) error {
		live := s.uses(ctx, o)
		delete(live, ref)
		if check != nil {
			if err := check(o, live); err != nil {
				return err
			}
		}
		uses := o.Object(usesMember)
		if uses == nil {
			uses = wire.Object{}
		}
		for other := range uses { // what died is cleared away here
			if _, there := live[other]; !there {
				delete(uses, other)
			}
		}
		uses[ref] = s.note(with)
		o[usesMember] = uses
		return nil
	})
	return err
}

// note is a note of use that is made now.
func (s *Service) note(with any) wire.Object {
	return wire.Object{"With": with, "Since": s.Now().UnixMicro()}
}

// uses returns by what a resource is used, by ref, and with what.
func (s *Service) uses(ctx context.Context, o wire.Object) map[string]any {
	live := map[string]any{}
	for ref := range o.Object(usesMember) {
		use := o.Object(usesMember).Object(ref)
		bucket, id, _ := strings.Cut(ref, "/")
		id, _, _ = strings.Cut(id, "/") // a resource may use another in several ways
		made, err := s.Store.Get(ctx, bucket, id)
		uses := true
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && !s.whole(ctx, made):
			uses = s.young(use)
		case err == nil:
			made = s.settle(made)
			uses = made != nil && !made.Bool(endedMember) && (!unnamed(use, made) || s.young(use))
		}
		if uses {
			live[ref] = use["With"]
		}
	}
	return live
}

// young reports whether the other resource of a use may only not yet be as it will be.
func (s *Service) young(use wire.Object) bool {
	return s.Now().UnixMicro()-use.Int("Since") < madeSoon.Microseconds()
}

// unuse takes a note of use away. Where that fails it counts for nothing, as the one that it is of is gone.
func (s *Service) unuse(ctx context.Context, k kind, id, ref string) {
	_, _ = s.change(ctx, k, id, func(o wire.Object) error {
		delete(o.Object(usesMember), ref)
		return nil
	})
}

// unused is an error where a resource is used.
func (s *Service) unused(ctx context.Context, k kind, id string) func(wire.Object) error {
	return func(o wire.Object) error {
		if len(s.uses(ctx, o)) > 0 {
			return wire.Errorf(
				"DependencyViolation", "The %s '%s' has dependencies and cannot be deleted.", k.bucket, id)
		}
		return nil
	}
}
