package ec2_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

// clash is what several clients ask two gateways for at once, and what must have come of it.
type clash struct {
	t   *testing.T
	two []*account

	mu    sync.Mutex
	codes map[string]int // of answers; empty: done
}

// ask has clients ask for the same, half of them each gateway.
func (c *clash) ask(clients int, action string, in func(client int) wire.Object) {
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			_, err := c.two[i%2].Do(c.t.Context(), action, in(i))
			code := ""
			if failure, ok := errors.AsType[*wire.Error](err); ok {
				code = failure.Code
			} else if err != nil {
				code = err.Error()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.codes[action+" "+code]++
		})
	}
	all.Wait()
}

func (c *clash) do(action string, in wire.Object) wire.Object {
	out, err := c.two[0].Do(c.t.Context(), action, in)
	if err != nil {
		c.t.Fatalf("%s: %v", action, err)
	}
	return out
}

// want proves how often an action has answered with a code.
func (c *clash) want(round string, n int, action, code string) {
	if got := c.codes[action+" "+code]; got != n {
		c.t.Errorf("%s: %d of %s %q, want %d: %v", round, got, action, code, n, c.codes)
	}
}

// Of writes that conflict, made by two gateways at once, one is done and the others are refused; none is lost.
func TestTwoGatewaysAgree(t *testing.T) {
	rounds, clients := 4, 10
	if os.Getenv("HIVE_TEST_SOAK") != "" {
		rounds = 250 // with the clients: 10,000 writes
	}
	two := twoGateways(t)
	begun := time.Now()
	for n := range rounds {
		round := fmt.Sprintf("round %d", n)
		c := &clash{t: t, two: two, codes: map[string]int{}}
		vpc := c.do("CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/16"}).Object("Vpc").Text("VpcId")

		c.ask(clients, "CreateSubnet", func(int) wire.Object { return wire.Object{"VpcId": vpc, "CidrBlock": "10.0.1.0/24"} })
		c.want(round, 1, "CreateSubnet", "")
		c.want(round, clients-1, "CreateSubnet", "InvalidSubnet.Conflict")
		for i, s := range two {
			out, err := s.Do(t.Context(), "DescribeSubnets", with("vpc-id", vpc))
			if err != nil || len(out.Objects("Subnets")) != 1 {
				t.Errorf("%s: gateway %d tells of %v, %v", round, i, out.At("Subnets.SubnetId"), err)
			}
		}

		group := c.do("CreateSecurityGroup", wire.Object{"GroupName": "g", "Description": "d", "VpcId": vpc}).Text("GroupId")
		c.ask(clients, "AuthorizeSecurityGroupIngress", func(int) wire.Object {
			return wire.Object{"GroupId": group, "IpPermissions": wire.List(wire.Object{
				"IpProtocol": "tcp", "FromPort": int64(80), "ToPort": int64(80),
				"IpRanges": wire.List(wire.Object{"CidrIp": "192.0.2.0/24"}),
			})}
		})
		c.want(round, 1, "AuthorizeSecurityGroupIngress", "")
		c.want(round, clients-1, "AuthorizeSecurityGroupIngress", "InvalidPermission.Duplicate")
		found := c.do("DescribeSecurityGroups", wire.Object{"GroupIds": wire.Strings(group)})
		if cidrs := found.At("SecurityGroups.IpPermissions.IpRanges.CidrIp"); len(cidrs) != 1 {
			t.Errorf("%s: the group has the rules %v", round, cidrs)
		}

		c.ask(clients, "CreateTags", func(client int) wire.Object {
			key := fmt.Sprintf("key-%d", client)
			return wire.Object{"Resources": wire.Strings(vpc), "Tags": wire.List(wire.Object{"Key": key, "Value": "v"})}
		})
		if tags := c.do("DescribeVpcs", wire.Object{"VpcIds": wire.Strings(vpc)}).At("Vpcs.Tags.Key"); len(tags) != clients {
			t.Errorf("%s: of %d tags there are %v", round, clients, tags)
		}
		c.deleteAgainstCreate(round, clients)
	}
	t.Logf("%d writes in %s", rounds*4*clients, time.Since(begun))
}

// deleteAgainstCreate has a VPC be deleted while subnets are made in it: it stays, or there is none.
func (c *clash) deleteAgainstCreate(round string, clients int) {
	vpc := c.do("CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/16"}).Object("Vpc").Text("VpcId")
	c.codes = map[string]int{}
	var both sync.WaitGroup
	both.Go(func() { c.ask(clients/2, "DeleteVpc", func(int) wire.Object { return wire.Object{"VpcId": vpc} }) })
	both.Go(func() {
		c.ask(clients/2, "CreateSubnet", func(client int) wire.Object {
			return wire.Object{"VpcId": vpc, "CidrBlock": fmt.Sprintf("10.0.%d.0/24", client)}
		})
	})
	both.Wait()
	out := c.do("DescribeSubnets", with("vpc-id", vpc))
	made, deleted := c.codes["CreateSubnet "], c.codes["DeleteVpc "]
	if made > 0 && deleted > 0 || deleted > 1 || len(out.Objects("Subnets")) != made {
		c.t.Errorf("%s: %d subnets made, %d told of, VPC deleted %d times: %v",
			round, made, len(out.Objects("Subnets")), deleted, c.codes)
	}
	for code := range c.codes {
		switch code {
		case "CreateSubnet ", "DeleteVpc ", "CreateSubnet InvalidVpcID.NotFound", "DeleteVpc InvalidVpcID.NotFound",
			"DeleteVpc DependencyViolation":
		default:
			c.t.Errorf("%s: an answer that AWS does not give: %s", round, code)
		}
	}
}
