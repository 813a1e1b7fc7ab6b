package ec2

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
)

// Members of what is kept of a cluster's resources.
const (
	// hiddenMember is true of what the cluster does not tell of now. It may come again, with a node that was away.
	hiddenMember = "_hidden"
	// seenMember is true of what was not made through a gateway, or was seen before that had written it down.
	seenMember = "_seen"
)

// refresh brings what is kept of kinds, which the cluster may have, in line with what it tells now.
func (f *Front) refresh(ctx context.Context, buckets ...string) error {
	var all sync.WaitGroup
	told := make([][]wire.Object, len(f.lives))
	kept := make([][]wire.Object, len(f.lives))
	errs := make([]error, len(f.lives))
	for i, l := range f.lives {
		if !f.home[l.kind.bucket] || !slices.Contains(buckets, l.kind.bucket) {
			continue
		}
		all.Go(func() {
			// What is kept is read first: what is made after that is not taken for gone.
			if kept[i], errs[i] = f.Store.All(ctx, l.kind.bucket); errs[i] == nil {
				told[i], errs[i] = f.list(ctx, l)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return unreachable(err)
	}
	for i, l := range f.lives { // parents come first
		if f.home[l.kind.bucket] && slices.Contains(buckets, l.kind.bucket) {
			if err := f.reconcile(ctx, l, kept[i], told[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// list returns all resources of a kind that the cluster tells of.
func (f *Front) list(ctx context.Context, l life) ([]wire.Object, error) {
	answer, err := f.cluster.Call(ctx, l.describe, wire.Object{})
	if err != nil {
		return nil, err
	}
	if l.kind.bucket != instanceKind().bucket {
		return answer.Objects(l.kind.list), nil
	}
	var list []wire.Object
	for _, r := range answer.Objects("Reservations") {
		for _, o := range r.Objects("Instances") {
			o[reservationMember], o[ownerMember] = r["ReservationId"], r["OwnerId"]
			list = append(list, o)
		}
	}
	return list, nil
}

// reconcile has what is kept of a kind be as the cluster tells it.
func (f *Front) reconcile(ctx context.Context, l life, kept, told []wire.Object) error {
	had := map[string]wire.Object{}
	for _, o := range kept {
		had[o.Text(l.kind.id)] = o
	}
	is := map[string]bool{}
	var strangers []wire.Object
	for _, o := range told {
		id := f.keptID(l, o)
		is[id] = true
		if had[id] == nil {
			strangers = append(strangers, o)
		} else if err := f.update(ctx, l, had[id], o); err != nil {
			return err
		}
	}
	for id, o := range had {
		if o.Bool(homeMember) && !is[id] {
			if err := f.hide(ctx, l, o); err != nil {
				return err
			}
		}
	}
	return f.meet(ctx, l, strangers)
}

// update takes over what the cluster knows better of a resource.
func (f *Front) update(ctx context.Context, l life, kept, told wire.Object) error {
	next := kept.Clone()
	if !f.takeLive(l, next, told) {
		return nil
	}
	_, err := f.Store.Change(ctx, l.kind.bucket, kept.Text(l.kind.id), func(o wire.Object) error {
		f.takeLive(l, o, told)
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // it has ended meanwhile
	}
	return err
}

// takeLive sets the members of a resource that the cluster knows better, and reports whether any was another.
func (f *Front) takeLive(l life, o, told wire.Object) bool {
	changed := !o.Bool(homeMember) || o.Bool(hiddenMember)
	o[homeMember] = true
	delete(o, hiddenMember)
	members := l.live
	if l.told {
		members = slices.DeleteFunc(slices.Collect(maps.Keys(told)), func(name string) bool {
			// Hive tells key pairs as made when they are read: when something was made does not change.
			return name == "Tags" || name == l.kind.id || name == "CreateTime" && o.Has(name)
		})
	}
	for _, name := range members {
		value := told[name]
		if name == "Attachments" {
			value = attachmentsAs(o.Objects(name), told.Objects(name))
		}
		if empty(value) {
			continue
		}
		if o.Has(dueMember) && o.Object(thenMember).Has(name) { // it comes when the cluster says so
			delete(o, dueMember)
			delete(o, thenMember)
			changed = true
		}
		if alike(o[name], value) {
			continue
		}
		o[name], changed = clone(value), true
	}
	if l.kind.bucket == instanceKind().bucket && stateOf(o) == "terminated" && !o.Bool(endedMember) {
		o[endedMember], changed = true, true
		if !o.Has(goneMember) {
			o[goneMember] = f.Now().Add(toldFor).UnixMicro()
		}
	}
	if l.kind.bucket == volumeKind().bucket && told.Text("State") == "available" && len(o.Objects("Attachments")) > 0 {
		o["Attachments"], changed = []any{}, true
	}
	return changed
}

// attachmentsAs are a volume's attachments as the cluster tells them, under the names of devices that they were asked for
// with: hive tells those that the guest sees.
func attachmentsAs(kept, told []wire.Object) []any {
	for i, a := range told {
		j := slices.IndexFunc(kept, func(o wire.Object) bool { return o.Text("InstanceId") == a.Text("InstanceId") })
		if j >= 0 && kept[j].Text("Device") != "" {
			told[i] = a.Clone()
			told[i]["Device"] = kept[j]["Device"]
		}
	}
	return wire.List(told...)
}

func clone(v any) any { return wire.Object{"v": v}.Clone()["v"] }

// empty reports whether a member tells nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	return false
}

// alike reports whether two members tell the same, of which one may have been read from a store.
func alike(a, b any) bool {
	one, _ := json.Marshal(a) // members always can be
	other, _ := json.Marshal(b)
	return string(one) == string(other)
}

// hide has what the cluster does not tell of any more not be told of here, but for an instance that was ended: that is
// told of as terminated for a while.
func (f *Front) hide(ctx context.Context, l life, kept wire.Object) error {
	isInstance := l.kind.bucket == instanceKind().bucket
	if kept.Bool(hiddenMember) || isInstance && stateOf(f.settle(kept)) == "terminated" {
		return nil
	}
	_, err := f.Store.Change(ctx, l.kind.bucket, kept.Text(l.kind.id), func(o wire.Object) error {
		if isInstance && ending(o) {
			o["State"], o[endedMember] = instanceState("terminated"), true
			delete(o, dueMember)
			delete(o, thenMember)
			return nil
		}
		o[hiddenMember] = true
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// meet takes in resources of the cluster that are not known here: they were made without a gateway. What cannot be taken in
// is met again the next time.
func (f *Front) meet(ctx context.Context, l life, strangers []wire.Object) error {
	if len(strangers) == 0 {
		return nil
	}
	if err := f.refresh(ctx, f.unmet(ctx, l, strangers)...); err != nil {
		return err
	}
	for _, told := range strangers {
		if err := f.take(ctx, l, told); err != nil && clientError(err) == nil {
			return err
		}
	}
	return nil
}

// unmet are the parents of a kind of which strangers name some that are not known either.
func (f *Front) unmet(ctx context.Context, l life, strangers []wire.Object) (buckets []string) {
	for _, bucket := range l.parents {
		unknown := slices.ContainsFunc(strangers, func(o wire.Object) bool {
			found := false
			walk(o, func(text string) {
				if k, is := f.kindOf(text); is && k.bucket == bucket {
					_, err := f.Service.get(ctx, k, text)
					found = found || err != nil
				}
			})
			return found
		})
		if unknown {
			buckets = append(buckets, bucket)
		}
	}
	return buckets
}

// keptAnew keeps what a request has made in the cluster in place of what was seen of it there before that was written down,
// and reports whether there was such.
func (s *Service) keptAnew(ctx context.Context, k kind, o wire.Object) (bool, error) {
	seen := false
	if isSeen(ctx) {
		return false, nil
	}
	_, err := s.Store.Change(ctx, k.bucket, o.Text(k.id), func(kept wire.Object) error {
		if seen = kept.Bool(seenMember); seen {
			uses := kept[usesMember]
			clear(kept)
			maps.Copy(kept, o)
			kept[homeMember] = true
			if uses != nil {
				kept[usesMember] = uses
			}
		}
		return nil
	})
	return seen, err
}

// drop deletes what is kept of resources that the cluster has ended, whatever is noted of them.
func (f *Front) drop(ctx context.Context, l life, in wire.Object) {
	for _, id := range f.subjects(ctx, l, in) {
		_ = f.Store.Delete(ctx, l.kind.bucket, id, nil)
	}
}
