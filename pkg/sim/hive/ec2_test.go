package simhive

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

// api calls EC2 actions of a node's gateway, and remembers ids of their answers.
type api struct {
	*node
	ids map[string]string
}

var (
	codePattern = regexp.MustCompile(`<Code>([^<]+)</Code>`)
	idPattern   = regexp.MustCompile(`\$(\w+)`)
)

// ask makes a call, with NAME=VALUE&… of which $kind is the last id of a kind, such as $vpc.
func (a api) ask(action, parameters string) (int, string) {
	a.t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for pair := range strings.SplitSeq(parameters, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name != "" {
			form.Set(name, idPattern.ReplaceAllStringFunc(value, func(kind string) string { return a.ids[kind[1:]] }))
		}
	}
	body := form.Encode()
	request, err := http.NewRequest(http.MethodPost, "https://"+a.ip+":9999/", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, answer := a.signed(request, body, a.credentials(), "ec2", time.Now())
	if status == http.StatusOK && wire.Knows(action) {
		a.held(action, answer)
	}
	for _, id := range regexp.MustCompile(`>((?:[a-z]+-)+)[0-9a-f]{17}<`).FindAllStringSubmatch(answer, -1) {
		if strings.HasPrefix(action, "Create") || strings.HasPrefix(action, "Run") || strings.HasPrefix(action, "All") {
			a.ids[strings.TrimSuffix(id[1], "-")] = strings.Trim(id[0], "<>")
		}
	}
	return status, answer
}

// held fails the test if an answer has an element that the API does not know, or one of another type.
func (a api) held(action, answer string) {
	a.t.Helper()
	result, err := wire.DecodeXML(action, http.StatusOK, strings.NewReader(answer), true)
	if err != nil {
		a.t.Errorf("%s: %v", action, err)
		return
	}
	again, err := wire.EncodeXML(action, "", result)
	if err != nil || strings.Count(string(again), "</") < strings.Count(answer, "</") {
		a.t.Errorf("%s has elements that are none of its answer (%v):\n%s\n%s", action, err, answer, again)
	}
}

// fact is what hive does with a call: its status and code, and texts that are in its answer, or are not (with ! before).
type fact struct {
	call, parameters string
	pre, spx         string // status and code, with / between; empty spx: as in pre; "-": not called
	has              []string
}

func (a api) hold(t *testing.T, facts []fact) {
	t.Helper()
	for _, f := range facts {
		want := f.pre
		if a.spx() && f.spx != "" {
			want = f.spx
		}
		if want == "-" {
			continue
		}
		status, answer := a.ask(f.call, f.parameters)
		got := http.StatusText(status)
		if code := codePattern.FindStringSubmatch(answer); code != nil {
			got = code[1]
		}
		if wantStatus, wantCode, _ := strings.Cut(want, "/"); got != wantCode && wantStatus != "200" || wantStatus != text(status) {
			t.Errorf("%s %s: %d %s, want %s\n%s", f.call, f.parameters, status, got, want, answer)
		}
		for _, has := range f.has {
			if part, not := strings.CutPrefix(has, "!"); strings.Contains(answer, part) == not {
				t.Errorf("%s %s: %s\n%s", f.call, f.parameters, has, answer)
			}
		}
	}
}

func text(status int) string { return scalarText(status) }

func TestEC2(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		a := api{cluster(t, era, 1, map[string]any{"time_scale": 0.05})[0], map[string]string{}}
		if a.spx() {
			a.hold(t, []fact{{"AllocateAddress", "", "500/InternalError", "", nil}}) // no external network
		}
		t.Run("requests", a.requests)
		t.Run("networks", a.networks)
		t.Run("groups and routes", a.groupsAndRoutes)
		t.Run("volumes and keys", a.volumesAndKeys)
		t.Run("instances", a.instancesOf)
	})
}

// unknownTo is what an era answers that lacks an action.
const unknownTo = "400/InvalidAction"

func (a api) requests(t *testing.T) {
	a.hold(t, []fact{
		{"", "", unknownTo, "400/MissingAction", nil},
		{"Explode", "", unknownTo, "", []string{"<Message></Message>"}},
		{"DescribeSecurityGroupRules", "", unknownTo, "", nil},
		{"DescribeNetworkAcls", "", unknownTo, "", nil},
		{"DescribeInstanceStatus", "", unknownTo, "", nil},
		{"AttachNetworkInterface", "", unknownTo, "", nil},
		{"DescribeSecurityGroups", "", unknownTo, "200", nil},
		{"DescribeRouteTables", "", unknownTo, "200", nil},
		{"DescribeVpcs", "MaxResults=many", "500/InternalError", "", nil},
		{"DescribeVpcs", "MaxResults=5&DryRun=true", "200", "", []string{"!xmlns", "!requestId"}},
		{"DescribeVpcs", "Filter.1.Name=nonsense&Filter.1.Value.1=x", "200", "400/InvalidParameterValue", nil},
		{"DescribeAvailabilityZones", "", "200", "", []string{"<zoneId>" + a.of("hivez1", "spinifexz1"), "<messageSet></messageSet>"}},
		{"DescribeAccountAttributes", "AttributeName.1=default-vpc", "200", "", []string{"<attributeValue>none<", "!max-instances"}},
		{"DescribeInstanceTypes", "InstanceType.1=t3.micro", "200", "", []string{"t3.micro", a.of("t3.nano", "!t3.nano")}},
		{"EnableEbsEncryptionByDefault", "", "200", "", nil},
		{"GetEbsEncryptionByDefault", "", "200", "", []string{"<ebsEncryptionByDefault>true<"}},
		{"DescribeInstances", "", "200", "", []string{"<DescribeInstancesResponse></DescribeInstancesResponse>"}},
	})
	_, body := a.ask("Explode", "")
	if root := a.of("<Response>", `<ErrorResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">`); !strings.Contains(body, root) {
		t.Errorf("no %s in %s", root, body)
	}
}

func (a api) networks(t *testing.T) {
	const tags = "TagSpecification.1.ResourceType=vpc&TagSpecification.1.Tag.1.Key=Name&TagSpecification.1.Tag.1.Value=one"
	a.hold(t, []fact{
		{"CreateVpc", "", "400/MissingParameter", "", nil},
		{"CreateVpc", "CidrBlock=10.0.0.0/8", "400/InvalidVpcRange", "", nil},
		{"CreateVpc", "CidrBlock=10.7.3.4/16&" + tags, "200", "", []string{"<cidrBlock>10.7.0.0/16<", "<key>Name</key><value>one<"}},
		{"DescribeVpcs", "VpcId.1=vpc-no", "404/InvalidVpcID.NotFound", "", nil},
		{"DescribeVpcs", "Filter.1.Name=tag:Name&Filter.1.Value.1=o*", "200", "", []string{"$vpc"}[:0]},
		{"CreateTags", "ResourceId.1=$vpc&Tag.1.Key=Two&Tag.1.Value=2", "200", "", []string{"<CreateTagsResponse></CreateTagsResponse>"}},
		{"DescribeVpcs", "VpcId.1=$vpc", "200", "", []string{"<value>one<", "!Two"}},
		{"DescribeTags", "Filter.1.Name=resource-id&Filter.1.Value.1=$vpc", "200", "", []string{"<resourceType>vpc<", "<key>Two<", "!Name"}},
		{"DescribeTags", "Filter.1.Name=nonsense&Filter.1.Value.1=x", "400/InvalidParameterValue", "", nil},
		{"CreateSubnet", "VpcId=$vpc&CidrBlock=10.8.0.0/24", "400/InvalidSubnet.Range", "", nil},
		{"CreateSubnet", "VpcId=$vpc&CidrBlock=10.7.1.0/24", "200", "", []string{"<availableIpAddressCount>251<", "<mapPublicIpOnLaunch>false<"}},
		{"CreateSubnet", "VpcId=$vpc&CidrBlock=10.7.1.128/25", "409/InvalidSubnet.Conflict", "", nil},
		{"DescribeSubnets", "Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-other", "200", "", []string{"!subnetId"}},
		{"DescribeSubnets", "Filter.1.Name=cidr-block&Filter.1.Value.1=1.0.0.0/24", "200", "", []string{a.of("subnetId", "!subnetId")}},
		{"ModifySubnetAttribute", "SubnetId=$subnet&MapPublicIpOnLaunch.Value=true", unknownTo, "200", nil},
		{"DescribeSubnets", "SubnetId.1=$subnet", "200", "", []string{"<mapPublicIpOnLaunch>" + a.of("false", "true")}},
		{"DescribeVpcAttribute", "VpcId=$vpc&Attribute=enableDnsSupport", unknownTo, "200", nil},
		{"DeleteVpc", "VpcId=$vpc", "400/DependencyViolation", "", nil},
		{"CreateInternetGateway", "", "200", "", nil},
		{"AttachInternetGateway", "InternetGatewayId=$igw&VpcId=$vpc", "200", "", nil},
		{"AttachInternetGateway", "InternetGatewayId=$igw&VpcId=$vpc", "409/Resource.AlreadyAssociated", "", nil},
		{"DescribeInternetGateways", "InternetGatewayId.1=$igw", "200", "", []string{"<state>" + a.of("attached", "available"), "!ownerId"}},
		{"DeleteInternetGateway", "InternetGatewayId=$igw", "400/DependencyViolation", "", nil},
		{"CreateNetworkInterface", "SubnetId=$subnet&SecurityGroupId.1=sg-1&PrivateIpAddresses.1.PrivateIpAddress=10.7.1.50", "200", "", []string{"<privateIpAddress>10.7.1.4<", a.of("<groupSet></groupSet>", "<groupId>sg-1<")}},
		{"DescribeNetworkInterfaces", "Filter.1.Name=group-id&Filter.1.Value.1=sg-2", "200", "", []string{a.of("eni-", "<networkInterfaceSet></networkInterfaceSet>")}},
		{"DeleteSubnet", "SubnetId=$subnet", "200", "", nil},
		{"DeleteVpc", "VpcId=$vpc", "200", "", []string{"<DeleteVpcResponse></DeleteVpcResponse>"}},
		{"DeleteVpc", "VpcId=$vpc", "404/InvalidVpcID.NotFound", "", nil},
	})
}

func (a api) groupsAndRoutes(t *testing.T) {
	if !a.spx() {
		return
	}
	const everything = "GroupId=$sg&IpPermissions.1.IpProtocol=-1&IpPermissions.1.IpRanges.1.CidrIp=0.0.0.0/0"
	const ssh = "GroupId=$sg&IpPermissions.1.IpProtocol=tcp&IpPermissions.1.FromPort=22&IpPermissions.1.ToPort=22" +
		"&IpPermissions.1.IpRanges.1.CidrIp=10.0.0.0/8&IpPermissions.1.IpRanges.1.Description=x"
	a.hold(t, []fact{
		{"DescribeVpcs", "", "200", "", []string{"<cidrBlock>172.31.0.0/16<", "<isDefault>true<"}},
		{"DescribeSecurityGroups", "", "200", "", []string{"<groupName>default<"}},
		{"CreateVpc", "CidrBlock=10.7.0.0/16", "200", "", nil},
		{"CreateSubnet", "VpcId=$vpc&CidrBlock=10.7.1.0/24", "200", "", nil},
		{"DescribeSecurityGroups", "Filter.1.Name=vpc-id&Filter.1.Value.1=$vpc", "200", "", []string{"!groupId"}},
		{"DescribeRouteTables", "Filter.1.Name=vpc-id&Filter.1.Value.1=$vpc", "200", "", []string{"<main>true<", "<gatewayId>local<"}},
		{"CreateSecurityGroup", "VpcId=$vpc&GroupName=g&GroupDescription=d", "200", "", []string{"!tagSet"}},
		{"CreateSecurityGroup", "VpcId=$vpc&GroupName=g", "400/InvalidGroup.Duplicate", "", nil},
		{"AuthorizeSecurityGroupEgress", everything, "409/InvalidPermission.Duplicate", "", nil},
		{"RevokeSecurityGroupEgress", everything, "200", "", []string{"<return>true<"}},
		{"RevokeSecurityGroupEgress", everything, "200", "", nil},
		{"AuthorizeSecurityGroupIngress", ssh, "200", "", []string{"!securityGroupRuleSet"}},
		{"AuthorizeSecurityGroupIngress", "GroupId=$sg&IpProtocol=udp&CidrIp=10.0.0.0/8", "200", "", nil},
		{"AuthorizeSecurityGroupIngress", "GroupId=$sg&IpPermissions.1.IpProtocol=icmp&IpPermissions.1.Ipv6Ranges.1.CidrIpv6=::/0", "200", "", nil},
		{"DescribeSecurityGroups", "GroupId.1=$sg", "200", "", []string{"<cidrIp>10.0.0.0/8<", "!description", "!udp", "icmp", "!ipv6Ranges", "<ipPermissionsEgress></ipPermissionsEgress>"}},
		{"RevokeSecurityGroupIngress", ssh, "200", "", nil},
		{"DescribeSecurityGroups", "GroupId.1=$sg", "200", "", []string{"!10.0.0.0/8"}},
		{"CreateRouteTable", "VpcId=$vpc&TagSpecification.1.ResourceType=route-table&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=b", "200", "", []string{"!tagSet", "!associationSet"}},
		{"CreateInternetGateway", "", "200", "", nil},
		{"CreateRoute", "RouteTableId=$rtb&DestinationCidrBlock=0.0.0.0/0&GatewayId=$igw", "400/InvalidParameterValue", "", nil},
		{"AttachInternetGateway", "InternetGatewayId=$igw&VpcId=$vpc", "200", "", nil},
		{"CreateRoute", "RouteTableId=$rtb&DestinationCidrBlock=0.0.0.0/0&GatewayId=$igw", "200", "", nil},
		{"CreateRoute", "RouteTableId=$rtb&DestinationCidrBlock=0.0.0.0/0&GatewayId=$igw", "409/RouteAlreadyExists", "", nil},
		{"DeleteRoute", "RouteTableId=$rtb&DestinationCidrBlock=9.0.0.0/8", "404/InvalidRoute.NotFound", "", nil},
		{"DeleteRoute", "RouteTableId=$rtb&DestinationCidrBlock=10.7.0.0/16", "400/InvalidParameterValue", "", nil},
		{"AssociateRouteTable", "RouteTableId=$rtb&SubnetId=$subnet", "200", "", []string{"<state>associated<"}},
		{"AssociateRouteTable", "RouteTableId=$rtb&SubnetId=$subnet", "409/Resource.AlreadyAssociated", "", nil},
		{"DeleteRouteTable", "RouteTableId=$rtb", "400/DependencyViolation", "", nil},
		{"DisassociateRouteTable", "AssociationId=rtbassoc-no", "404/InvalidAssociationID.NotFound", "", nil},
		{"CreatePlacementGroup", "GroupName=p&Strategy=spread", "200", "", []string{"<spreadLevel>host<", "!groupArn"}},
		{"CreatePlacementGroup", "GroupName=p&Strategy=cluster", "409/InvalidPlacementGroup.Duplicate", "", nil},
		{"DescribePlacementGroups", "GroupName.1=q", "400/InvalidPlacementGroup.Unknown", "", nil},
		{"DeletePlacementGroup", "GroupName=p", "200", "", nil},
	})
}

func TestEC2Addresses(t *testing.T) {
	t.Parallel()
	n := nodes(t, EraSpx, 1)[0]
	n.must("admin", "init", "--node", n.name, "--nodes", "1", "--bind", n.ip, "--external-mode", "pool")
	n.startAll()
	startGateways(n)
	a := api{n, map[string]string{}}
	a.hold(t, []fact{{"AllocateAddress", "Domain=vpc", "503/InsufficientAddressCapacity", "", nil}})
	n.settings(map[string]any{"ovn": true})
	a.hold(t, []fact{
		{"AllocateAddress", "Domain=vpc", "200", "", []string{"<domain>vpc<"}},
		{"ReleaseAddress", "AllocationId=eipalloc-no", "404/InvalidAllocationID.NotFound", "", nil},
		{"DisassociateAddress", "AssociationId=eipassoc-no", "404/InvalidAssociationID.NotFound", "", nil},
		{"CreateVpc", "CidrBlock=10.7.0.0/16", "200", "", nil},
		{"CreateSubnet", "VpcId=$vpc&CidrBlock=10.7.1.0/24", "200", "", nil},
		{"CreateNetworkInterface", "SubnetId=$subnet", "200", "", nil},
		{"AssociateAddress", "AllocationId=$eipalloc&NetworkInterfaceId=$eni", "200", "", []string{"<associationId>eipassoc-"}},
		{"ReleaseAddress", "AllocationId=$eipalloc", "400/InvalidAddress.Locked", "", nil},
		{"DescribeAddresses", "AllocationId.1=$eipalloc", "200", "", []string{"<privateIpAddress>10.7.1.4<", "<publicIpv4Pool>wan<"}},
	})
}

func (a api) volumesAndKeys(t *testing.T) {
	public := base64.StdEncoding.EncodeToString([]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0mRYz7jZP5 me"))
	a.hold(t, []fact{
		{"CreateVolume", "Size=1", "400/InvalidParameterValue", "", nil},
		{"CreateVolume", "Size=1&AvailabilityZone=mars", "400/InvalidAvailabilityZone", "", nil},
		{"CreateVolume", "Size=1&AvailabilityZone=ap-southeast-2a&VolumeType=gp2", "400/InvalidParameterValue", "", nil},
		{"CreateVolume", "Size=2&AvailabilityZone=ap-southeast-2a&Iops=9000&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=b", "200", "", []string{"<iops>3000<", "!tagSet", "<status>available<"}},
		{"DescribeVolumes", "VolumeId.1=vol-no", "404/InvalidVolume.NotFound", "", nil},
		{"DescribeVolumes", "VolumeId.1=$vol&Filter.1.Name=attachment.device&Filter.1.Value.1=/dev/sdf", "200", "", []string{a.of("<volumeId>", "<volumeSet></volumeSet>")}},
		{"ModifyVolume", "VolumeId=$vol&Size=2", "400/InvalidParameterValue", "", nil},
		{"ModifyVolume", "VolumeId=$vol&Size=3&VolumeType=gp2&Iops=0", "200", "", []string{"<modificationState>completed<", "<originalSize>2<", "<targetIops>0<"}},
		{"DescribeVolumes", "VolumeId.1=$vol", "200", "", []string{"<size>3<", "<volumeType>gp2<", "!iops"}},
		{"DescribeVolumesModifications", "VolumeId.1=$vol", unknownTo, "200", nil},
		{"DescribeVolumeStatus", "VolumeId.1=$vol", "200", "", []string{"<status>ok<", "<actionsSet></actionsSet>"}},
		{"CreateSnapshot", "VolumeId=$vol", "200", "", []string{"<status>completed<"}},
		{"DescribeSnapshots", "SnapshotId.1=snap-no", "200", "", []string{"!snapshotId"}},
		{"DeleteVolume", "VolumeId=$vol", "400/VolumeInUse", "", nil},
		{"DeleteSnapshot", "SnapshotId=$snap", "200", "", nil},
		{"DeleteSnapshot", "SnapshotId=$snap", "404/InvalidSnapshot.NotFound", "", nil},
		{"DeleteVolume", "VolumeId=$vol", "200", "", nil},
		{"ImportKeyPair", "KeyName=a/b&PublicKeyMaterial=" + public, "400/InvalidKeyPair.Format", "", nil},
		{"ImportKeyPair", "KeyName=k&PublicKeyMaterial=" + base64.StdEncoding.EncodeToString([]byte("nonsense")), "400/InvalidKey.Format", "", nil},
		{"ImportKeyPair", "KeyName=k&PublicKeyMaterial=" + public, "200", "", []string{"SHA256:", "<tagSet></tagSet>"}},
		{"ImportKeyPair", "KeyName=k&PublicKeyMaterial=" + public, "409/InvalidKeyPair.Duplicate", "", nil},
		{"CreateKeyPair", "KeyName=k2", "200", "", []string{"BEGIN OPENSSH PRIVATE KEY"}},
		{"DescribeKeyPairs", "KeyName.1=none", "200", "", []string{"!keyName"}},
		{"DeleteKeyPair", "KeyName=none", "200", "", nil},
		{"DescribeImages", "Owner.1=system", "200", "", []string{"<imageState>available<"}},
		{"DescribeImages", "Owner.1=amazon", "200", "", []string{"!imageId"}},
		{"DescribeImages", "Filter.1.Name=name&Filter.1.Value.1=nothing*", "200", "", []string{a.of("<imageId>", "!imageId")}},
		{"DescribeImages", "ImageId.1=ami-no", "400/InvalidAMIID.NotFound", "", nil},
	})
	a.settings(map[string]any{"no_image": true})
	a.hold(t, []fact{{"DescribeImages", "", "200", "", []string{"!imageId"}}})
	a.settings(map[string]any{"time_scale": 0.05})
}

// state waits until an instance is in a state.
func (a api) state(t *testing.T, want string) {
	t.Helper()
	eventually(t, "the instance is "+want, func() bool {
		_, answer := a.ask("DescribeInstances", "InstanceId.1=$i")
		return strings.Contains(answer, "<name>"+want+"</name>")
	})
}

func (a api) instancesOf(t *testing.T) {
	public := base64.StdEncoding.EncodeToString([]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0mRYz7jZP5 me"))
	_, images := a.ask("DescribeImages", "")
	a.ids["ami"] = regexp.MustCompile(`ami-[0-9a-f]{17}`).FindString(images)
	const one = "MinCount=1&MaxCount=1&InstanceType=t3.nano&KeyName=mine&ImageId=$ami"
	a.hold(t, []fact{
		{"CreateVpc", "CidrBlock=10.7.0.0/16", "200", "", nil},
		{"CreateSubnet", "VpcId=$vpc&CidrBlock=10.7.1.0/24", "200", "", nil},
		{"CreateVolume", "Size=2&AvailabilityZone=ap-southeast-2a", "200", "", nil},
		{"RunInstances", one, "404/InvalidKeyPair.NotFound", "", nil},
		{"ImportKeyPair", "KeyName=mine&PublicKeyMaterial=" + public, "200", "", nil},
		{"RunInstances", "MinCount=1&MaxCount=1&InstanceType=huge&KeyName=mine&ImageId=$ami", "400/InvalidInstanceType", "", nil},
		{"RunInstances", "MinCount=1&MaxCount=1&InstanceType=t3.nano&KeyName=mine&ImageId=ami-no", "400/InvalidAMIID.NotFound", "", nil},
		{"RunInstances", "MinCount=9&MaxCount=9&InstanceType=t3.nano&KeyName=mine&ImageId=$ami", "400/InsufficientInstanceCapacity", "", nil},
		{"RunInstances", one + "&SubnetId=subnet-no", "404/InvalidSubnetID.NotFound", "400/InsufficientInstanceCapacity", nil},
		{"RunInstances", "MinCount=1&MaxCount=1&InstanceType=t3.nano&ImageId=$ami&ClientToken=t", "200", "400/MissingParameter", []string{a.of("<name>pending<", "!pending"), "!vpcId"}},
		{"StopInstances", "InstanceId.1=i-0123456789abcdef0", "200", "", []string{"<currentState><code>16<"}},
		{"StartInstances", "InstanceId.1=i-0123456789abcdef0", "404/InvalidInstanceID.NotFound", "", nil},
		{"TerminateInstances", "InstanceId.1=i-0123456789abcdef0", "500/InternalError", "", nil},
		{"DescribeInstances", "InstanceId.1=i-0123456789abcdef0", "200", "", []string{"!instanceId"}},
		{"DescribeInstances", "InstanceId.1=nonsense", "200", "400/InvalidInstanceID.Malformed", nil},
		{"StopInstances", "", "500/InternalError", "400/MissingParameter", nil},
		{"RunInstances", one + "&SubnetId=$subnet&SecurityGroupId.1=sg-1&Placement.AvailabilityZone=&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=b", "200", "", []string{"<privateIpAddress>10.7.1.4<", "!tagSet", "!groupSet", "!placement", a.of("<ownerId>", "!ownerId")}},
	})
	a.state(t, "running")
	a.hold(t, []fact{
		{"DescribeInstances", "InstanceId.1=$i", "200", "", []string{"<deviceName>/dev/vda<", "<status>attached<", "!tagSet", "!groupSet", "!rootDeviceName"}},
		{"DescribeNetworkInterfaces", "Filter.1.Name=subnet-id&Filter.1.Value.1=$subnet", "200", "", []string{a.of("<status>available<", "<status>in-use<")}},
		{"StartInstances", "InstanceId.1=$i", "404/InvalidInstanceID.NotFound", "", nil},
		{"RebootInstances", "InstanceId.1=$i", "200", "", nil},
		{"ModifyInstanceAttribute", "InstanceId=$i&DisableApiTermination.Value=false", "400/InvalidParameterValue", "", nil},
		{"ModifyInstanceAttribute", "InstanceId=$i&SourceDestCheck.Value=false", "400/InvalidParameterValue", "200", nil},
		{"ModifyInstanceAttribute", "InstanceId=$i&InstanceType.Value=t3.small", "404/InvalidInstanceID.NotFound", "", nil},
		{"DescribeInstanceAttribute", "InstanceId=$i&Attribute=disableApiTermination", unknownTo, "200", []string{a.of("", "<value>false<")}},
		{"AttachVolume", "VolumeId=$vol&InstanceId=$i&Device=/dev/sdf", "200", "", []string{"<device>/dev/vdc<", "<status>attached<"}},
		{"AttachVolume", "VolumeId=$vol&InstanceId=$i&Device=/dev/sdg", "400/VolumeInUse", "", nil},
		{"DescribeVolumes", "VolumeId.1=$vol", "200", "", []string{"<status>in-use<", "<device>/dev/vdc<"}},
		{"DetachVolume", "VolumeId=$vol&Device=/dev/vdc", "400/InvalidParameterValue", "", nil},
		{"DetachVolume", "VolumeId=$vol&Device=/dev/sdf", "200", "", []string{"<status>detaching<"}},
		{"DetachVolume", "VolumeId=$vol", "400/IncorrectState", "", nil},
		{"StopInstances", "InstanceId.1=$i", "200", "", []string{"<name>stopping<"}},
	})
	a.state(t, "stopped")
	a.hold(t, []fact{
		{"AttachVolume", "VolumeId=$vol&InstanceId=$i&Device=/dev/sdf", "409/IncorrectInstanceState", "", nil},
		{"ModifyInstanceAttribute", "InstanceId=$i&InstanceType.Value=x.y", "200", "", nil},
		{"StartInstances", "InstanceId.1=$i", "400/InsufficientInstanceCapacity", "", nil},
		{"ModifyInstanceAttribute", "InstanceId=$i&InstanceType.Value=t3.small", "200", "", nil},
		{"StartInstances", "InstanceId.1=$i", "200", "", []string{"<name>pending<"}},
		{"DescribeInstances", "InstanceId.1=$i", "200", "", []string{"<name>running<", "t3.small"}},
		{"TerminateInstances", "InstanceId.1=$i", "200", "", []string{"<name>shutting-down<"}},
	})
	a.state(t, "terminated")
	a.hold(t, []fact{
		{"TerminateInstances", "InstanceId.1=$i", "200", "", []string{"<previousState><code>48<"}},
		{"DescribeNetworkInterfaces", "Filter.1.Name=subnet-id&Filter.1.Value.1=$subnet", "200", "", []string{"!eni-"}},
	})
}

func TestEC2IsTheClusters(t *testing.T) {
	soak(t)
	t.Parallel()
	members := cluster(t, EraPre, 3, nil)
	first, second := api{members[0], map[string]string{}}, api{members[1], map[string]string{}}
	second.home = members[0].home // its keys
	first.hold(t, []fact{{"CreateVpc", "CidrBlock=10.7.0.0/16", "200", "", nil}})
	second.ids = first.ids
	second.hold(t, []fact{{"DescribeVpcs", "VpcId.1=$vpc", "200", "", nil}, {"DeleteVpc", "VpcId=$vpc", "200", "", nil}})
	first.hold(t, []fact{
		{"DescribeVpcs", "VpcId.1=$vpc", "404/InvalidVpcID.NotFound", "", nil},
		{"CreateVpc", "CidrBlock=10.8.0.0/16", "200", "", nil},
	})
	members[0].kill1("awsgw")
	startGateways(members[0])
	first.hold(t, []fact{{"DescribeVpcs", "VpcId.1=$vpc", "200", "", []string{"10.8.0.0/16"}}})
}

func TestEC2Actions(t *testing.T) {
	t.Parallel()
	pre, spx := ec2Actions(EraPre), ec2Actions(EraSpx)
	for name := range pre {
		if spx[name] == nil {
			t.Errorf("the later era has lost %s", name)
		}
	}
	// hive's own tables have two more, DescribeRegions and DescribeInstanceTypes (gateway/ec2.go)
	if len(pre) != 53 || len(spx) != 94 {
		t.Errorf("%d and %d actions", len(pre), len(spx))
	}
	if slices.ContainsFunc([]string{"DescribeNetworkAcls", "DescribeSecurityGroupRules", "DescribeInstanceStatus"}, func(name string) bool { return spx[name] != nil }) {
		t.Error("hive lacks them")
	}
}
