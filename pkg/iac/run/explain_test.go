package run

import (
	"testing"

	"hive-test/pkg/opentofu"
)

func TestWhatAFailureSays(t *testing.T) {
	ok := Call{Action: "DescribeSecurityGroups", Status: 200, RequestID: "r-0"}
	tolerated := Call{Action: "RevokeSecurityGroupEgress", Status: 400, Code: "InvalidPermission.NotFound", Root: "Response", RequestID: "r-1"}
	missing := Call{Action: "RevokeSecurityGroupEgress", Status: 400, Code: "InvalidAction", Message: "no such action", Root: "Response", RequestID: "r-2"}
	other := Call{Action: "DescribeTags", Status: 400, Code: "InvalidAction", Root: "Response", RequestID: "r-3"}
	root := Call{Action: "DeleteRouteTable", Status: 400, Code: "DependencyViolation", Root: "ErrorResponse", RequestID: "r-4"}
	page := Call{Action: "CreatePlacementGroup", Status: 500}
	silent := Call{Action: "CreateVpc", Error: "connection refused"}
	for name, c := range map[string]struct {
		address, summary, detail string
		calls                    []Call
		want                     string
	}{
		"SDK v1, by the code": {
			address: "aws_security_group.this", calls: []Call{ok, missing, tolerated, ok},
			summary: "revoking default egress rule for Security Group (sg-1): InvalidAction: no such action\n\tstatus code: 400, request id: ",
			want:    "aws_security_group.this: RevokeSecurityGroupEgress answered 400 InvalidAction: no such action",
		},
		"SDK v2, by the action": {
			address: "aws_security_group.this", calls: []Call{missing, other},
			summary: "x: operation error EC2: RevokeSecurityGroupEgress, https response error StatusCode: 400, RequestID: , api error InvalidAction: no",
			want:    "aws_security_group.this: RevokeSecurityGroupEgress answered 400 InvalidAction: no such action",
		},
		"by the id of the request": {
			calls: []Call{missing, other}, summary: "reading tags: InvalidAction\n\tstatus code: 400, request id: r-2",
			want: "RevokeSecurityGroupEgress answered 400 InvalidAction: no such action",
		},
		"a root that SDK v1 does not read": {
			address: "aws_route_table.this", calls: []Call{missing, root, ok},
			summary: "deleting EC2 Route Table: SerializationError: failed to decode ec2 xml error response",
			detail:  "caused by: expected element type <Response> but have <ErrorResponse>",
			want: "aws_route_table.this: DeleteRouteTable answered 400 DependencyViolation, which the provider cannot read " +
				"(its root is <ErrorResponse>)",
		},
		"a root of which SDK v2 reads no code": {
			address: "aws_route_table.this", calls: []Call{root},
			summary: "deleting: operation error EC2: DeleteRouteTable, https response error StatusCode: 400, RequestID: r-4, api error UnknownError: UnknownError",
			want: "aws_route_table.this: DeleteRouteTable answered 400 DependencyViolation, which the provider cannot read " +
				"(its root is <ErrorResponse>)",
		},
		"a page in place of an error": {
			address: "aws_placement_group.this", calls: []Call{page, ok}, summary: "creating: SerializationError: failed to decode",
			want: "aws_placement_group.this: CreatePlacementGroup answered 500 and no error that can be read, which the provider cannot read",
		},
		"no answer": {
			address: "aws_vpc.this", calls: []Call{silent}, summary: "creating EC2 VPC: ServiceUnavailable: the endpoint does not answer",
			want: "aws_vpc.this: CreateVpc had no answer: connection refused",
		},
		"a state that does not come": {
			address: "aws_security_group.this", calls: []Call{{Action: "CreateVpc", Status: 200}, ok, {Action: "DescribeTags", Status: 200}},
			summary: "timeout while waiting for state",
			want:    "aws_security_group.this: timeout while waiting for state (last call: DescribeSecurityGroups answered 200)",
		},
		"a code that is part of another": {
			calls: []Call{{Action: "DescribeVpcs", Status: 400, Code: "InvalidVpcID"}}, summary: "reading: InvalidVpcID.NotFound: gone",
			want: "reading: InvalidVpcID.NotFound: gone (last call: DescribeVpcs answered 400 InvalidVpcID)",
		},
		"no call at all": {summary: "Unsupported argument", detail: "no\n  such  thing", want: "Unsupported argument: no such thing"},
	} {
		problem := opentofu.Diagnostic{Address: c.address, Summary: c.summary, Detail: c.detail}
		if got := explain([]opentofu.Diagnostic{problem, problem}, c.calls); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}
