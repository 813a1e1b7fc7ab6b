package ec2_test

import (
	"encoding/base64"
	"testing"

	"hive-test/pkg/gateway/wire"
)

func TestInstanceAttributes(t *testing.T) {
	a := newAccount(t, lag)
	vpc := a.vpc("10.0.0.0/16")
	data := base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))
	id := a.run(a.subnet(vpc, "10.0.1.0/24"), wire.Object{"UserData": data}).Text("InstanceId")
	attribute := func(name, member string) string {
		t.Helper()
		out := a.must("DescribeInstanceAttribute", wire.Object{"InstanceId": id, "Attribute": name})
		if !out.Object(member).Has("Value") {
			t.Errorf("%s has no value: %v", name, out)
		}
		return out.Object(member).Text("Value")
	}
	modify := func(member string, v any) wire.Object {
		return wire.Object{"InstanceId": id, member: wire.Object{"Value": v}}
	}
	for name, want := range map[string][2]string{
		"instanceType":                      {"InstanceType", "t3.micro"},
		"userData":                          {"UserData", data},
		"disableApiTermination":             {"DisableApiTermination", "false"},
		"disableApiStop":                    {"DisableApiStop", "false"},
		"instanceInitiatedShutdownBehavior": {"InstanceInitiatedShutdownBehavior", "stop"},
		"sourceDestCheck":                   {"SourceDestCheck", "true"},
		"rootDeviceName":                    {"RootDeviceName", "/dev/xvda"},
		"ebsOptimized":                      {"EbsOptimized", "false"},
		"enaSupport":                        {"EnaSupport", "true"},
	} {
		if got := attribute(name, want[0]); got != want[1] {
			t.Errorf("%s is %q, want %q", name, got, want[1])
		}
	}
	for _, name := range []string{"groupSet", "blockDeviceMapping", "productCodes", "kernel", "ramdisk", "enclaveOptions"} {
		a.must("DescribeInstanceAttribute", wire.Object{"InstanceId": id, "Attribute": name})
	}
	a.refused("InvalidParameterValue", "DescribeInstanceAttribute", wire.Object{"InstanceId": id, "Attribute": "colour"})
	a.refused("InvalidInstanceID.NotFound", "DescribeInstanceAttribute",
		wire.Object{"InstanceId": "i-00000000000000000", "Attribute": "userData"})

	a.refused("IncorrectInstanceState", "ModifyInstanceAttribute", modify("InstanceType", "t3.small"))
	a.refused("IncorrectInstanceState", "ModifyInstanceAttribute", modify("UserData", data))
	a.refused("InvalidParameterValue", "ModifyInstanceAttribute", modify("InstanceInitiatedShutdownBehavior", "sleep"))
	a.refused("InvalidParameterCombination", "ModifyInstanceAttribute", wire.Object{"InstanceId": id})
	a.must("ModifyInstanceAttribute", modify("InstanceInitiatedShutdownBehavior", "terminate"))
	a.must("ModifyInstanceAttribute", modify("SourceDestCheck", false))
	a.must("ModifyInstanceAttribute", wire.Object{"InstanceId": id, "Attribute": "disableApiStop", "Value": "true"})
	group := a.group(vpc, "web")
	a.must("ModifyInstanceAttribute", wire.Object{"InstanceId": id, "Groups": wire.Strings(group)})
	a.must("ModifyInstanceAttribute", wire.Object{"InstanceId": id, "BlockDeviceMappings": wire.List(
		wire.Object{"DeviceName": "/dev/xvda", "Ebs": wire.Object{"DeleteOnTermination": false}})})
	a.refused("InvalidInstanceAttributeValue", "ModifyInstanceAttribute", wire.Object{
		"InstanceId": id, "BlockDeviceMappings": wire.List(wire.Object{"DeviceName": "/dev/sdz"}),
	})
	o := a.instance(id)
	switch {
	case attribute("instanceInitiatedShutdownBehavior", "InstanceInitiatedShutdownBehavior") != "terminate",
		attribute("disableApiStop", "DisableApiStop") != "true", o.Bool("SourceDestCheck"),
		o.Objects("SecurityGroups")[0].Text("GroupId") != group,
		o.Objects("BlockDeviceMappings")[0].Object("Ebs").Bool("DeleteOnTermination"):
		t.Errorf("modified: %v", o)
	}
	a.must("ModifyInstanceAttribute", modify("DisableApiStop", false))
	a.must("StopInstances", ids("InstanceIds", id))
	a.pass(lag)
	a.must("ModifyInstanceAttribute", modify("InstanceType", "m5.xlarge"))
	a.must("ModifyInstanceAttribute", modify("UserData", "Yg=="))
	a.refused("InvalidParameterValue", "ModifyInstanceAttribute", modify("InstanceType", "t9.huge"))
	if attribute("userData", "UserData") != "Yg==" || a.instance(id).Object("CpuOptions").Int("CoreCount") != 2 {
		t.Errorf("modified: %v", a.instance(id))
	}
}

// Credits are as they were asked for; where nothing was, they are the family's.
func TestCredits(t *testing.T) {
	a := newAccount(t, 0)
	asked := func(more wire.Object) string { return a.run("", more).Text("InstanceId") }
	credits := func(id string) string {
		t.Helper()
		out := a.must("DescribeInstanceCreditSpecifications", ids("InstanceIds", id))
		return out.Objects("InstanceCreditSpecifications")[0].Text("CpuCredits")
	}
	standard := asked(wire.Object{"CreditSpecification": wire.Object{"CpuCredits": "standard"}})
	for id, want := range map[string]string{
		standard: "standard", asked(nil): "unlimited", asked(wire.Object{"InstanceType": "t2.micro"}): "standard",
	} {
		if got := credits(id); got != want {
			t.Errorf("credits %s, want %s", got, want)
		}
	}
	big := asked(wire.Object{"InstanceType": "m5.large"})
	a.refused("UnsupportedOperation", "DescribeInstanceCreditSpecifications", ids("InstanceIds", big))
	out := a.must("ModifyInstanceCreditSpecification", wire.Object{"InstanceCreditSpecifications": wire.List(
		wire.Object{"InstanceId": standard, "CpuCredits": "unlimited"}, wire.Object{"InstanceId": big, "CpuCredits": "standard"},
	)})
	if len(out.Objects("SuccessfulInstanceCreditSpecifications")) != 1 ||
		len(out.Objects("UnsuccessfulInstanceCreditSpecifications")) != 1 || credits(standard) != "unlimited" {
		t.Errorf("modified: %v", out)
	}
	if n := a.count("DescribeInstanceCreditSpecifications", "InstanceCreditSpecifications", nil); n != 2 {
		t.Errorf("%d have unlimited credits", n)
	}
}

func TestMetadataOptions(t *testing.T) {
	a := newAccount(t, 0)
	id := a.run("", wire.Object{"MetadataOptions": wire.Object{"HttpTokens": "required"}}).Text("InstanceId")
	modify := func(name string, v any) wire.Object { return wire.Object{"InstanceId": id, name: v} }
	out := a.must("ModifyInstanceMetadataOptions", modify("HttpPutResponseHopLimit", 2))
	if out.Object("InstanceMetadataOptions").Text("State") != "pending" {
		t.Errorf("modified: %v", out)
	}
	got := a.instance(id).Object("MetadataOptions")
	if got.Text("HttpTokens") != "required" || got.Int("HttpPutResponseHopLimit") != 2 || got.Text("State") != "applied" {
		t.Errorf("options: %v", got)
	}
	a.refused("InvalidParameterValue", "ModifyInstanceMetadataOptions", modify("HttpPutResponseHopLimit", 65))
	a.refused("InvalidParameterValue", "ModifyInstanceMetadataOptions", modify("HttpEndpoint", "on"))
	a.refused("MissingParameter", "ModifyInstanceMetadataOptions", wire.Object{})
}

func TestInstanceTypes(t *testing.T) {
	a := newAccount(t, 0)
	one := a.must("DescribeInstanceTypes", ids("InstanceTypes", "t3.nano")).Objects("InstanceTypes")
	if len(one) != 1 || one[0].Object("MemoryInfo").Int("SizeInMiB") != 512 || !one[0].Bool("BurstablePerformanceSupported") {
		t.Errorf("t3.nano: %v", one)
	}
	a.refused("InvalidInstanceType", "DescribeInstanceTypes", ids("InstanceTypes", "t9.huge"))
	a.found("DescribeInstanceTypes", "InstanceTypes", map[string]string{"instance-type": "t3.*"}, 7)
	a.found("DescribeInstanceTypes", "InstanceTypes", map[string]string{"instance-type": "m4.*"}, 6)
	if n := a.count("DescribeInstanceTypes", "InstanceTypes", wire.Object{"MaxResults": 100}); n != 100 {
		t.Errorf("%d on a page", n)
	}
	in := with("instance-type", "m5.large")
	for kind, where := range map[string]string{
		"region": "ap-southeast-2", "availability-zone": zone, "availability-zone-id": "apse2-az1",
	} {
		in["LocationType"] = kind
		got := a.must("DescribeInstanceTypeOfferings", in).Objects("InstanceTypeOfferings")
		if len(got) != 1 || got[0].Text("Location") != where {
			t.Errorf("offerings by %s: %v", kind, got)
		}
	}
	a.refused("InvalidParameterValue", "DescribeInstanceTypeOfferings", wire.Object{"LocationType": "planet"})
}

func TestRegion(t *testing.T) {
	a := newAccount(t, 0)
	a.found("DescribeRegions", "Regions", map[string]string{"region-name": "ap-*", "opt-in-status": "opt-in-not-required"}, 1)
	a.found("DescribeRegions", "Regions", map[string]string{"region-name": "us-*"}, 0)
	a.refused("InvalidParameterValue", "DescribeRegions", ids("RegionNames", "mars-1"))
	a.found("DescribeAvailabilityZones", "AvailabilityZones", map[string]string{
		"state": "available", "zone-name": zone, "zone-id": "apse2-az1", "group-name": "ap-southeast-2",
	}, 1)
	a.refused("InvalidParameterValue", "DescribeAvailabilityZones", ids("ZoneNames", "mars-1a"))
	if n := a.count("DescribeAccountAttributes", "AccountAttributes", ids("AttributeNames", "default-vpc")); n != 1 {
		t.Errorf("%d attributes", n)
	}
	a.refused("InvalidParameterValue", "DescribeAccountAttributes", ids("AttributeNames", "colour"))
}

// Volumes of one snapshot are each on one page.
func TestPagesOfVolumes(t *testing.T) {
	a := newAccount(t, 0)
	images := a.must("DescribeImages", ids("ImageIds", a.ami())).Objects("Images")
	snapshot := images[0].Objects("BlockDeviceMappings")[0].Object("Ebs").Text("SnapshotId")
	for range 12 {
		a.newVolume(wire.Object{"SnapshotId": snapshot, "Size": nil})
	}
	seen := map[string]bool{}
	in := wire.Object{"MaxResults": 5}
	for range 3 {
		out := a.must("DescribeVolumes", in)
		for _, v := range out.Objects("Volumes") {
			seen[v.Text("VolumeId")] = true
		}
		in["NextToken"] = out["NextToken"]
	}
	if len(seen) != 12 || in.Has("NextToken") {
		t.Errorf("%d on three pages, next %v", len(seen), in["NextToken"])
	}
}
