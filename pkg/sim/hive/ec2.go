package simhive

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// What hive's gateway does with an EC2 action was read in hive's source and is said beside each action with the place
// where it is to be found: hive 4152e442 for the era pre (below hive/), a216d6f5 for spx (below spinifex/). Where both
// eras do the same, the place in pre is given. "gateway" is what the gateway itself does before it asks a daemon.
//
// Common to all of them (gateway/ec2.go, gateway/gateway.go, awsec2query/parser.go, utils/utils.go):
//   - the action and its parameters are read from the body alone; parameters that hive does not know are ignored, as
//     are DryRun, ClientToken, MaxResults and NextToken;
//   - a number or boolean that is none is InternalError (500);
//   - pre answers InvalidAction for no action at all, spx MissingAction;
//   - answers have no namespace and no request id; what is nil is left out, a list that is empty but not nil is an empty
//     element; elements come in any order;
//   - pre ignores filters but those named below; spx refuses those that it does not know (InvalidParameterValue), and
//     knows * in values and tag:KEY, which it compares with the tags that a resource tells of;
//   - tags are told in the answers of Describe calls as they were given when the resource was made. CreateTags and
//     DeleteTags write elsewhere, which DescribeTags alone reads (handlers/ec2/tags/service_impl.go:89, :152).

// ec2Action answers one action.
type ec2Action func(c *ec2Call) item

// ec2Actions are the actions of an era.
func ec2Actions(era Era) map[string]ec2Action {
	actions := map[string]ec2Action{}
	add := func(more map[string]ec2Action) {
		for name, action := range more {
			actions[name] = action
		}
	}
	for _, more := range []func(Era) map[string]ec2Action{
		accountActions, instanceActions, volumeActions, imageActions, keyActions, tagActions, vpcActions, gatewayActions,
		interfaceActions,
	} {
		add(more(era))
	}
	if era == EraSpx {
		for _, more := range []map[string]ec2Action{
			attributeActions(), groupActions(), routeActions(), addressActions(), placementActions(),
		} {
			add(more)
		}
	}
	return actions
}

// ec2State guards the resources of a cluster against this gateway's own calls at the same time. Gateways of several
// nodes overwrite each other's changes, as most of hive's daemons do.
type ec2State struct {
	mu      sync.Mutex
	actions map[string]ec2Action // of the era
}

// ec2Call is one call of an action. The first refusal is the answer.
type ec2Call struct {
	*params
	g       *gateway
	ctx     context.Context
	account string
	action  string
	refusal *apiError
}

// ec2Timeout is how long the records may take altogether.
const ec2Timeout = 30 * time.Second

// ec2 answers an action.
func (g *gateway) ec2(account string, form map[string]string) (answer any, refusal *apiError) {
	name := form["Action"]
	if name == "" && g.program.settings.spx() {
		return nil, refused("MissingAction")
	}
	switch name {
	case "DescribeInstanceTypes": // asks the daemons and no record
		types, asked := g.types(), (&params{values: form}).list("InstanceType")
		if g.program.settings.spx() && len(asked) > 0 { // pre tells of all, whatever is asked for
			types = slices.DeleteFunc(types, func(t instanceTypeItem) bool { return !slices.Contains(asked, t.Name) })
		}
		return describeInstanceTypes{Types: types}, nil
	case "DescribeRegions":
		return describeRegions{Regions: []regionItem{{
			Name: g.config.self().Region, Endpoint: "https://localhost:9999", OptIn: "opt-in-not-required",
		}}}, nil
	}
	action := g.state.actions[name]
	if action == nil {
		return nil, refused("InvalidAction")
	}
	ctx, cancel := context.WithTimeout(context.Background(), ec2Timeout)
	defer cancel()
	c := &ec2Call{params: &params{values: form}, g: g, ctx: ctx, account: account, action: name}
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	c.flag("DryRun")
	c.number("MaxResults")
	if c.malformed {
		return nil, refused("InternalError")
	}
	c.makeDefaults()
	c.settle()
	content := action(c)
	if c.malformed {
		c.refuse("InternalError")
	}
	if c.refusal != nil {
		return nil, c.refusal
	}
	return ec2Answer{name: name + "Response", content: content}, nil
}

func (c *ec2Call) spx() bool { return c.g.program.settings.spx() }

// refuse makes a code the answer, unless there is one already. It returns nil, for the action to return.
func (c *ec2Call) refuse(code string) item {
	if c.refusal == nil {
		c.refusal = refused(code)
	}
	return nil
}

// missing refuses the call if one of the parameters is not there or empty.
func (c *ec2Call) missing(names ...string) bool {
	for _, name := range names {
		if c.text(name) == "" {
			c.refuse("MissingParameter")
			return true
		}
	}
	return false
}

// stub is an action that hive knows and this one does not: it refuses as hive does where nothing is given.
func stub(c *ec2Call) item { return c.refuse("MissingParameter") }

// nothing is an action that tells of resources of which there are none.
func nothing(*ec2Call) item { return item{} }

// refused is an error of hive's with the status that hive gives it (awserrors/awserrors.go).
func refused(code string) *apiError {
	return &apiError{cmp.Or(statusOf(code), http.StatusBadRequest), code}
}

// statusOf is the HTTP status of those codes that have another one than 400.
func statusOf(code string) int {
	for status, codes := range map[int][]string{
		http.StatusForbidden: {"AuthFailure", "UnauthorizedOperation", "AccessDenied"},
		http.StatusNotFound: {
			"InvalidAllocationID.NotFound", "InvalidAssociationID.NotFound", "InvalidEgressOnlyInternetGatewayId.NotFound",
			"InvalidGroup.NotFound", "InvalidInstanceID.NotFound", "InvalidInternetGatewayID.NotFound",
			"InvalidKeyPair.NotFound", "InvalidNatGatewayID.NotFound", "InvalidNetworkInterfaceID.NotFound",
			"InvalidRoute.NotFound", "InvalidRouteTableID.NotFound", "InvalidSnapshot.NotFound", "InvalidSubnetID.NotFound",
			"InvalidVolume.NotFound", "InvalidVpcID.NotFound",
		},
		http.StatusConflict: {
			"IncorrectInstanceState", "InvalidKeyPair.Duplicate", "InvalidNetworkInterface.InUse",
			"InvalidPermission.Duplicate", "InvalidPlacementGroup.Duplicate", "InvalidPlacementGroup.InUse",
			"InvalidSnapshot.InUse", "InvalidSubnet.Conflict", "Resource.AlreadyAssociated", "RouteAlreadyExists",
		},
		http.StatusInternalServerError: {"InternalError", "ServerInternal"},
		http.StatusServiceUnavailable:  {"InsufficientAddressCapacity"},
	} {
		if slices.Contains(codes, code) {
			return status
		}
	}
	return 0
}
