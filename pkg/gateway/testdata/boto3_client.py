"""Reads an EC2 and STS endpoint with boto3, and fails at the first thing that is not read as AWS's would be.

The endpoint and the keys are those of the environment, as boto3 takes them; the account is the argument.
"""

import datetime
import sys

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

QUICK = {"Delay": 1, "MaxAttempts": 20}
ACCOUNT = sys.argv[1]

# What fails is not tried again: it is looked at.
ec2 = boto3.client("ec2", config=Config(retries={"total_max_attempts": 1}))


def same(what, got, want):
    if got != want or type(got) is not type(want):
        sys.exit(f"{what}: {got!r}, want {want!r}")


def refused(code, status, call, **asked):
    try:
        answer = call(**asked)
    except ClientError as e:
        same("the error's code", e.response["Error"]["Code"], code)
        same(f"the status of {code}", e.response["ResponseMetadata"]["HTTPStatusCode"], status)
        if not e.response["Error"]["Message"] or not e.response["ResponseMetadata"]["RequestId"]:
            sys.exit(f"{code} has no message or request id: {e.response}")
        return
    sys.exit(f"{code} is not answered: {answer}")


def tags_of(kind, **tags):
    return [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]


def by(name, *values):
    return [{"Name": name, "Values": list(values)}]


def caller():
    identity = boto3.client("sts").get_caller_identity()
    same("the account", identity["Account"], ACCOUNT)
    same("the caller", identity["Arn"], f"arn:aws:iam::{ACCOUNT}:root")
    other = botocore.session.get_session().create_client("sts", aws_access_key_id="AKIANOBODY", aws_secret_access_key="x")
    refused("InvalidClientTokenId", 403, other.get_caller_identity)
    wrong = boto3.client("ec2", aws_secret_access_key="wrong", aws_access_key_id="AKIAEXAMPLE")
    refused("AuthFailure", 401, wrong.describe_vpcs)


def network():
    same("VPCs before there are any", ec2.describe_vpcs(Filters=by("is-default", "false"))["Vpcs"], [])
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags_of("vpc", Name="a <b> & ü"))["Vpc"]
    ec2.get_waiter("vpc_available").wait(VpcIds=[vpc["VpcId"]], WaiterConfig=QUICK)
    read = ec2.describe_vpcs(VpcIds=[vpc["VpcId"]])["Vpcs"][0]
    same("the VPC's network", read["CidrBlock"], "10.0.0.0/16")
    same("whether the VPC is a default one", read["IsDefault"], False)
    same("the VPC's tags", read["Tags"], [{"Key": "Name", "Value": "a <b> & ü"}])
    hosts = ec2.describe_vpc_attribute(VpcId=vpc["VpcId"], Attribute="enableDnsSupport")
    same("an attribute of the VPC", hosts["EnableDnsSupport"], {"Value": True})

    asked = {"VpcId": vpc["VpcId"], "CidrBlock": "10.0.1.0/24"}
    subnet = ec2.create_subnet(**asked)["Subnet"]["SubnetId"]
    ec2.get_waiter("subnet_available").wait(SubnetIds=[subnet], WaiterConfig=QUICK)
    refused("InvalidSubnet.Conflict", 400, ec2.create_subnet, **asked)
    ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    read = ec2.describe_subnets(Filters=by("vpc-id", vpc["VpcId"]))["Subnets"]
    same("the VPC's subnets", [s["SubnetId"] for s in read], [subnet])
    same("a boolean that is true", read[0]["MapPublicIpOnLaunch"], True)
    same("a number", read[0]["AvailableIpAddressCount"], 251)
    refused("DependencyViolation", 400, ec2.delete_vpc, VpcId=vpc["VpcId"])
    refused("DryRunOperation", 412, ec2.create_subnet, DryRun=True, VpcId=vpc["VpcId"], CidrBlock="10.0.2.0/24")
    return vpc["VpcId"], subnet


def group_of(vpc):
    group = ec2.create_security_group(GroupName="web", Description="web", VpcId=vpc)["GroupId"]
    ec2.get_waiter("security_group_exists").wait(GroupIds=[group], WaiterConfig=QUICK)
    ranges = [{"CidrIp": "192.0.2.0/24", "Description": "docs"}]
    rule = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 81, "IpRanges": ranges}
    asked = {"GroupId": group, "IpPermissions": [rule]}
    made = ec2.authorize_security_group_ingress(**asked)
    same("the answer to a rule", made["Return"], True)
    one = made["SecurityGroupRules"][0]
    same("the rule's ports", (one["FromPort"], one["ToPort"], one["IsEgress"]), (80, 81, False))
    refused("InvalidPermission.Duplicate", 400, ec2.authorize_security_group_ingress, **asked)
    read = ec2.describe_security_groups(Filters=by("group-id", group))["SecurityGroups"][0]
    permission = read["IpPermissions"][0]
    same("the permission's ranges", permission["IpRanges"], ranges)
    same("the permission's port", permission["ToPort"], 81)
    same("a list that is empty", permission["UserIdGroupPairs"], [])
    return group


def pages():
    for i in range(6):
        ec2.create_vpc(CidrBlock="10.1.0.0/16", TagSpecifications=tags_of("vpc", Name=f"page-{i}", sort="page"))
    paginator = ec2.get_paginator("describe_vpcs")
    found = list(paginator.paginate(Filters=by("tag:Name", "page-*"), PaginationConfig={"PageSize": 5}))
    same("the pages", [len(page["Vpcs"]) for page in found], [5, 1])
    same("what is on them", len({v["VpcId"] for page in found for v in page["Vpcs"]}), 6)
    tags = ec2.get_paginator("describe_tags").paginate(Filters=by("key", "sort"), PaginationConfig={"PageSize": 5})
    same("tags", [t["Value"] for page in tags for t in page["Tags"]], ["page"] * 6)
    same("what a filter does not find", list(paginator.paginate(Filters=by("tag:Name", "other")))[0]["Vpcs"], [])


def instances(vpc, subnet, group):
    image = ec2.describe_images(Filters=by("state", "available"))["Images"][0]["ImageId"]
    asked = {
        "ImageId": image, "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1, "SubnetId": subnet,
        "SecurityGroupIds": [group], "ClientToken": "once", "UserData": "#!/bin/sh\n",
        "TagSpecifications": tags_of("instance", Name="one"),
    }
    first, again = ec2.run_instances(**asked), ec2.run_instances(**asked)
    one = first["Instances"][0]["InstanceId"]
    same("the instance of the same ClientToken", again["Instances"][0]["InstanceId"], one)
    ec2.get_waiter("instance_running").wait(InstanceIds=[one], WaiterConfig=QUICK)
    here = by("vpc-id", vpc) + by("instance-state-name", "running")
    found = ec2.get_paginator("describe_instances").paginate(Filters=here)
    found = [i for page in found for r in page["Reservations"] for i in r["Instances"]]
    same("instances that run", [i["InstanceId"] for i in found], [one])
    read = found[0]
    same("the instance's groups", [g["GroupId"] for g in read["SecurityGroups"]], [group])
    same("the instance's state", read["State"], {"Code": 16, "Name": "running"})
    since = datetime.datetime.now(datetime.timezone.utc) - read["LaunchTime"]
    if not -5 < since.total_seconds() < 600:
        sys.exit(f"the instance was launched {since} ago")
    same("a boolean inside", read["NetworkInterfaces"][0]["Attachment"]["DeleteOnTermination"], True)
    data = ec2.describe_instance_attribute(InstanceId=one, Attribute="userData")["UserData"]["Value"]
    same("the user data", data, "IyEvYmluL3NoCg==")
    refused("DependencyViolation", 400, ec2.delete_security_group, GroupId=group)
    ended = ec2.terminate_instances(InstanceIds=[one])["TerminatingInstances"][0]
    same("what ends was", ended["PreviousState"]["Name"], "running")
    ec2.get_waiter("instance_terminated").wait(InstanceIds=[one], WaiterConfig=QUICK)


def volumes():
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    made = ec2.create_volume(AvailabilityZone=zone, Size=2, VolumeType="gp3")
    ec2.get_waiter("volume_available").wait(VolumeIds=[made["VolumeId"]], WaiterConfig=QUICK)
    read = ec2.describe_volumes(VolumeIds=[made["VolumeId"]])["Volumes"][0]
    same("a volume's attachments", read["Attachments"], [])
    same("its size", read["Size"], 2)
    same("the zone of its time", read["CreateTime"].utcoffset(), datetime.timedelta(0))
    ec2.delete_volume(VolumeId=made["VolumeId"])
    ec2.get_waiter("volume_deleted").wait(VolumeIds=[made["VolumeId"]], WaiterConfig=QUICK)


def gone(vpc, subnet, group):
    ec2.delete_security_group(GroupId=group)
    ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)
    refused("InvalidVpcID.NotFound", 400, ec2.describe_vpcs, VpcIds=[vpc])
    refused("InvalidGroup.NotFound", 400, ec2.describe_security_groups, GroupIds=[group])
    refused("InvalidInstanceID.NotFound", 400, ec2.terminate_instances, InstanceIds=["i-00000000000000000"])
    refused("InvalidInstanceID.Malformed", 400, ec2.describe_instances, InstanceIds=["i-x"])


caller()
made = network()
made += (group_of(made[0]),)
pages()
instances(*made)
volumes()
gone(*made)
print("read")
