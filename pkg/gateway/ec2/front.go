package ec2

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"hive-test/pkg/gateway/wire"
)

// Cluster is an EC2 API that does some of the actions itself.
type Cluster interface {
	// Does reports whether it implements an action.
	Does(action string) bool
	// Call makes a call. Its error is a *wire.Error where the cluster refuses it.
	Call(ctx context.Context, action string, in wire.Object) (wire.Object, error)
}

// Front answers actions in front of a cluster. Kinds of resources that the cluster has are made, changed and ended there;
// what it does not keep or tell of them is kept in the service's store, under the cluster's ids. All other kinds and
// actions are the service's. It is safe for concurrent use; several may share a cluster and a store.
type Front struct {
	*Service
	cluster Cluster
	lives   []life
	home    map[string]bool // buckets of the kinds that the cluster has
	of      map[string]life // by action
	turns   sync.Map        // of requests with a ClientToken: *sync.Mutex by that
}

// NewFront returns what answers in front of a cluster with a service, which is from then on for that alone. What the
// cluster does is asked of it once, now.
func NewFront(s *Service, cluster Cluster) *Front {
	f := &Front{Service: s, cluster: cluster, lives: lives(), home: map[string]bool{}, of: map[string]life{}}
	for _, l := range f.lives {
		f.home[l.kind.bucket] = f.has(l)
		for _, action := range l.actions() {
			f.of[action] = l
		}
	}
	s.noStock = f.home[imageKind().bucket]
	return f
}

// has reports whether the cluster has a kind.
func (f *Front) has(l life) bool {
	return !slices.ContainsFunc(l.needs(), func(action string) bool { return !f.cluster.Does(action) }) &&
		!slices.ContainsFunc(l.parents, func(bucket string) bool { return !f.home[bucket] })
}

// Who answers an action.
const (
	InCluster = "cluster" // the cluster does it, and the gateway keeps what that does not tell
	Here      = "gateway" // the gateway does it
)

// Answers returns who answers an action.
func (f *Front) Answers(action string) string {
	l, known := f.of[action]
	if action == "CreateTags" || action == "DeleteTags" || action == "DescribeTags" || action == "DescribeInstanceTypeOfferings" {
		return Here
	}
	if f.cluster.Does(action) && (!known || f.home[l.kind.bucket]) {
		return InCluster
	}
	return Here
}

// Alone reports whether the cluster alone answers an action: nothing is kept here of what that is about.
func (f *Front) Alone(action string) bool {
	switch action {
	case "DescribeRegions", "DescribeAvailabilityZones", "DescribeAccountAttributes":
		return f.cluster.Does(action)
	}
	return false
}

// Do does an action. Its error is a *wire.Error where it is the client's.
func (f *Front) Do(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	if in.Bool("DryRun") { // a cluster might do it
		return f.Service.Do(ctx, action, in)
	}
	l, known := f.of[action]
	if !known || action != l.describe || !f.home[l.kind.bucket] { // that of a kind asks for all of it
		if err := f.learn(ctx, in); err != nil {
			return nil, err
		}
	}
	switch {
	case action == "ModifySecurityGroupRules" && f.home[groupKind().bucket]:
		return f.modifyRules(ctx, f.lifeOf(groupKind()), in)
	case !known:
		return f.doOther(ctx, action, in)
	case !f.home[l.kind.bucket]:
		return f.Service.Do(ctx, action, in)
	case action == l.describe:
		return f.tell(ctx, l, action, in)
	case action == "RunInstances":
		return f.run(ctx, l, in)
	case slices.Contains(l.create, action):
		return f.make(ctx, l, action, in)
	case action == "CreateImage":
		return f.make(ctx, l, action, in)
	}
	return f.pass(ctx, l, action, in)
}

// doOther does an action that is on no kind alone.
func (f *Front) doOther(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	switch action {
	case "CreateTags", "DeleteTags":
		return f.tag(ctx, action, in)
	case "DescribeInstanceTypes", "DescribeInstanceTypeOfferings":
		return f.tellTypes(ctx, action, in)
	case "DescribeInstanceStatus", "DescribeInstanceAttribute", "DescribeInstanceCreditSpecifications":
		if err := f.refresh(ctx, instanceKind().bucket); err != nil {
			return nil, err
		}
	case "DescribeVolumeStatus", "DescribeVolumesModifications":
		if err := f.refresh(ctx, volumeKind().bucket); err != nil {
			return nil, err
		}
	}
	return f.Service.Do(ctx, action, in)
}

// tell answers a Describe of a kind that the cluster has.
func (f *Front) tell(ctx context.Context, l life, action string, in wire.Object) (wire.Object, error) {
	buckets := []string{l.kind.bucket}
	if l.kind.bucket == instanceKind().bucket {
		buckets = append(buckets, volumeKind().bucket, interfaceKind().bucket)
	}
	if err := f.refresh(ctx, buckets...); err != nil {
		return nil, err
	}
	return f.Service.Do(ctx, action, in)
}

// make has the cluster make a resource, and keeps what it was asked for with.
func (f *Front) make(ctx context.Context, l life, action string, in wire.Object) (wire.Object, error) {
	passed, err := f.passable(ctx, in)
	if err != nil {
		return nil, err
	}
	told, err := f.cluster.Call(ctx, action, passed)
	if err != nil {
		return nil, unreachable(err)
	}
	if l.told {
		return f.keepTold(ctx, l, action, in, told)
	}
	ids := idsIn(told)
	f.companions(ctx, l, ids)
	answer, err := f.Service.Do(withGiven(ctx, ids), action, hereOnly(in))
	if err != nil {
		f.unmakeThere(ctx, l, told)
		return nil, err
	}
	return f.withLive(ctx, l, answer, told), nil
}

// hereOnly is a request without what only the cluster decides.
func hereOnly(in wire.Object) wire.Object {
	out := in.Clone()
	delete(out, "AvailabilityZone")
	delete(out, "AvailabilityZoneId")
	return out
}

// unmakeThere has the cluster end what it has made and what cannot be kept here. One that stays is told of as it is there.
func (f *Front) unmakeThere(ctx context.Context, l life, told wire.Object) {
	ids := idsIn(told)[l.kind.prefix]
	if len(ids) == 0 {
		return
	}
	in := wire.Object{l.kind.id: ids[0]}
	if l.kind.bucket == instanceKind().bucket {
		in = wire.Object{l.kind.ids: wire.Strings(ids...)}
	}
	if l.named != "" {
		in = wire.Object{l.named: told.At(l.named)}
	}
	_, _ = f.cluster.Call(context.WithoutCancel(ctx), l.remove, in)
}

// pass has the cluster change or end resources that are there, and does the same here.
func (f *Front) pass(ctx context.Context, l life, action string, in wire.Object) (wire.Object, error) {
	there, err := f.inCluster(ctx, l, in)
	if err != nil {
		return nil, err
	}
	if !there || !f.cluster.Does(action) || !keeps(action, in) {
		return f.Service.Do(ctx, action, in)
	}
	if err := f.allowed(ctx, l, action, in); err != nil {
		return nil, err
	}
	passed, err := f.passable(ctx, in)
	if err != nil {
		return nil, err
	}
	if passed, err = f.inTermsOf(ctx, l, action, passed); err != nil {
		return nil, err
	}
	told, err := f.callChange(ctx, action, passed)
	if err != nil && !(action == l.remove && l.kind.isMissing(err)) {
		return nil, unreachable(err)
	}
	answer, err := f.Service.Do(withGiven(ctx, idsIn(told)), action, in)
	if l.told && action == l.remove {
		f.drop(ctx, l, in)
		if l.kind.isMissing(err) {
			return returned(), nil
		}
	}
	return answer, err
}

// keeps reports whether hive keeps what a change asks for. Of the attributes of instances and network interfaces it knows
// two each, and refuses requests without one of those (hive a216d6f5: gateway/ec2/instance/ModifyInstanceAttribute.go and
// handlers/ec2/vpc/eni.go).
func keeps(action string, in wire.Object) bool {
	switch action {
	case "ModifyInstanceAttribute":
		name := in.Text("Attribute")
		return in.Has("InstanceType") || in.Has("UserData") || name == "instanceType" || name == "userData"
	case "ModifyNetworkInterfaceAttribute":
		return in.Has("Groups") || in.Has("Description")
	}
	return true
}

// inCluster reports whether what a request is about is in the cluster. It is an error where it is not there at all.
func (f *Front) inCluster(ctx context.Context, l life, in wire.Object) (bool, error) {
	for _, id := range f.subjects(ctx, l, in) {
		o, err := f.Service.get(ctx, l.kind, id)
		if err != nil {
			return false, err
		}
		if o.Bool(homeMember) {
			return true, nil
		}
	}
	return false, nil
}

// subjects are the ids of the resources of a kind that a request is about.
func (f *Front) subjects(ctx context.Context, l life, in wire.Object) (ids []string) {
	if l.named != "" && in.Has(l.named) {
		return []string{f.namedID(l.kind, in.Text(l.named))}
	}
	if association := in.Text("AssociationId"); association != "" {
		return f.associated(ctx, l, association)
	}
	for _, id := range append(in.Texts(l.kind.ids), in.Text(l.kind.id)) {
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// associated is what has an association: a route table or an address.
func (f *Front) associated(ctx context.Context, l life, association string) []string {
	if l.kind.bucket == tableKind().bucket {
		user, err := f.userOf(ctx, association)
		if err != nil {
			return nil
		}
		return []string{user.of.Object(tableMember).Text("RouteTableId")}
	}
	list, err := f.addressesWith(ctx, "AssociationId", association)
	if err != nil || len(list) == 0 {
		return nil
	}
	return []string{list[0].Text(l.kind.id)}
}

// allowed is an error where what is kept here forbids what the cluster would do.
func (f *Front) allowed(ctx context.Context, l life, action string, in wire.Object) error {
	check := func(wire.Object) error { return nil }
	switch action {
	case "TerminateInstances":
		check = guarded("DisableApiTermination", "disableApiTermination", "terminated")
	case "StopInstances":
		check = guarded("DisableApiStop", "disableApiStop", "stopped")
	case "DeleteSecurityGroup":
		check = func(o wire.Object) error { return f.groupUnused(ctx, o) }
	case "DeleteVpc", "DeleteSubnet", "DeleteRouteTable":
		check = func(o wire.Object) error { return f.unused(ctx, l.kind, o.Text(l.kind.id))(o) }
	}
	for _, id := range f.subjects(ctx, l, in) {
		o, err := f.Service.get(ctx, l.kind, id)
		if err == nil {
			err = check(o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tag changes tags here, which are told with what they are of, and has the cluster know them, too. What it refuses of that
// is no matter: what is told are the tags here.
func (f *Front) tag(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	answer, err := f.Service.Do(ctx, action, in)
	if err != nil || !f.cluster.Does(action) {
		return answer, err
	}
	var there []string
	for _, id := range in.Texts("Resources") {
		k, known := f.kindOf(id)
		if l := f.lifeOf(k); !known || l.named != "" || !f.home[k.bucket] {
			continue
		}
		if o, err := f.Store.Get(ctx, k.bucket, id); err == nil && o.Bool(homeMember) {
			there = append(there, id)
		}
	}
	if len(there) == 0 {
		return answer, nil
	}
	passed := in.Clone()
	passed["Resources"] = wire.Strings(there...)
	_, err = f.cluster.Call(ctx, action, passed)
	if refused := clientError(err); refused != nil && refused.Status < http.StatusInternalServerError {
		err = nil
	}
	return answer, err
}

func (f *Front) lifeOf(k kind) life {
	for _, l := range f.lives {
		if l.kind.bucket == k.bucket {
			return l
		}
	}
	return life{}
}

// idsIn are all ids in an answer of the cluster, by prefix.
func idsIn(v any) map[string][]string {
	ids := map[string][]string{}
	walk(v, func(text string) {
		if i := strings.LastIndex(text, "-"); i > 0 && isHex(text[i+1:]) && !slices.Contains(ids[text[:i]], text) {
			ids[text[:i]] = append(ids[text[:i]], text)
		}
	})
	return ids
}

func isHex(text string) bool {
	const short = 8
	return len(text) >= short && strings.Trim(text, "0123456789abcdef") == ""
}

// walk tells of all texts in an object or a list.
func walk(v any, see func(string)) {
	switch v := v.(type) {
	case string:
		see(v)
	case []any:
		for _, e := range v {
			walk(e, see)
		}
	default:
		for _, e := range wire.AsObject(v) {
			walk(e, see)
		}
	}
}

// unreachable is the answer where the cluster gives none.
func unreachable(err error) error {
	if clientError(err) != nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &wire.Error{
		Code: "Unavailable", Status: http.StatusServiceUnavailable, Message: "The cluster gives no answer: " + err.Error(),
	}
}
