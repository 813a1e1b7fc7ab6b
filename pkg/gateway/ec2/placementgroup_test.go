package ec2_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
)

// twoGateways are services with stores of their own, which share what is kept.
func twoGateways(t *testing.T) []*account {
	e, err := store.StartEmbedded(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	var both []*account
	for range 2 {
		kept, err := store.Open(context.Background(), e.JetStream, 1, ec2.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(kept.Close)
		both = append(both, &account{t: t, Service: ec2.New(ec2.Options{
			Store: kept, Region: "ap-southeast-2", Account: "000000000000", Now: time.Now,
		})})
	}
	return both
}

// oneWins proves that of many requests for one thing, made to two gateways at once, one is granted.
func oneWins(t *testing.T, both []*account, action string, in wire.Object) {
	t.Helper()
	var made atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := both[i%2].try(action, in); err == nil {
				made.Add(1)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("%s: %d were granted", action, made.Load())
	}
}

func TestPlacementGroups(t *testing.T) {
	a := newAccount(t, time.Second)
	made := a.must("CreatePlacementGroup", wire.Object{
		"GroupName": "near", "Strategy": "cluster", "TagSpecifications": wire.List(
			wire.Object{"ResourceType": "placement-group", "Tags": wire.List(wire.Object{"Key": "a", "Value": "b"})}),
	}).Object("PlacementGroup")
	if made.Text("State") != "pending" ||
		made.Text("GroupArn") != "arn:aws:ec2:ap-southeast-2:000000000000:placement-group/near" {
		t.Errorf("made: %v", made)
	}
	a.pass(2 * time.Second)
	named := func(names ...string) wire.Object { return wire.Object{"GroupNames": wire.Strings(names...)} }
	if found := a.must("DescribePlacementGroups", named("near")).Objects("PlacementGroups"); len(found) != 1 ||
		found[0].Text("State") != "available" || found[0].Text("GroupId") != made.Text("GroupId") {
		t.Errorf("found: %v", found)
	}
	a.refused("InvalidPlacementGroup.Duplicate", "CreatePlacementGroup", wire.Object{
		"GroupName": "near", "Strategy": "spread",
	})
	a.refused("InvalidPlacementGroup.Unknown", "DescribePlacementGroups", named("far"))
	a.refused("InvalidPlacementGroup.Unknown", "DescribePlacementGroups", wire.Object{"GroupIds": wire.Strings("pg-1")})
	a.refused("InvalidPlacementGroup.Unknown", "DeletePlacementGroup", wire.Object{"GroupName": "far"})
	a.refused("MissingParameter", "DeletePlacementGroup", wire.Object{})

	a.must("CreateTags", wire.Object{
		"Resources": wire.Strings(made.Text("GroupId")), "Tags": wire.List(wire.Object{"Key": "c", "Value": "d"}),
	})
	if tags := a.must("DescribeTags", with("resource-type", "placement-group")).Objects("Tags"); len(tags) != 2 {
		t.Errorf("tags: %v", tags)
	}
	a.must("DeletePlacementGroup", wire.Object{"GroupName": "near"})
	a.refused("InvalidPlacementGroup.Unknown", "DescribePlacementGroups", named("near"))
	a.must("CreatePlacementGroup", wire.Object{"GroupName": "near"})
}

func TestPlacementStrategies(t *testing.T) {
	a := newAccount(t, 0)
	for _, test := range []struct {
		in   wire.Object
		code string
		want string
	}{
		{wire.Object{}, "", "cluster 0 "},
		{wire.Object{"Strategy": "spread"}, "", "spread 0 rack"},
		{wire.Object{"Strategy": "spread", "SpreadLevel": "host"}, "", "spread 0 host"},
		{wire.Object{"Strategy": "partition"}, "", "partition 2 "},
		{wire.Object{"Strategy": "partition", "PartitionCount": 7}, "", "partition 7 "},
		{wire.Object{"Strategy": "partition", "PartitionCount": 8}, "InvalidParameterValue", ""},
		{wire.Object{"Strategy": "cluster", "PartitionCount": 2}, "InvalidParameterCombination", ""},
		{wire.Object{"Strategy": "cluster", "SpreadLevel": "rack"}, "InvalidParameterCombination", ""},
		{wire.Object{"Strategy": "spread", "SpreadLevel": "floor"}, "InvalidParameterValue", ""},
		{wire.Object{"Strategy": "together"}, "InvalidParameterValue", ""},
	} {
		test.in["GroupName"] = "one"
		if test.code != "" {
			a.refused(test.code, "CreatePlacementGroup", test.in)
			continue
		}
		o := a.must("CreatePlacementGroup", test.in).Object("PlacementGroup")
		if got := fmt.Sprint(o.Text("Strategy"), " ", o.Int("PartitionCount"), " ", o.Text("SpreadLevel")); got != test.want {
			t.Errorf("%v: %q", test.in, got)
		}
		for name, value := range map[string]string{
			"group-name": "one", "group-arn": "*/one", "state": "available", "strategy": o.Text("Strategy"),
		} {
			if found := a.must("DescribePlacementGroups", with(name, value)).Objects("PlacementGroups"); len(found) != 1 {
				t.Errorf("filter %s %s: %v", name, value, found)
			}
		}
		found := a.must("DescribePlacementGroups", with("spread-level", "rack")).Objects("PlacementGroups")
		if (len(found) == 1) != (o.Text("SpreadLevel") == "rack") {
			t.Errorf("filter spread-level: %v", found)
		}
		a.must("DeletePlacementGroup", wire.Object{"GroupName": "one"})
	}
}

func TestOnePlacementGroupOfAName(t *testing.T) {
	oneWins(t, twoGateways(t), "CreatePlacementGroup", wire.Object{"GroupName": "near"})
}
