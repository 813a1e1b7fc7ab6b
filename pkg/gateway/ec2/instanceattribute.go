package ec2

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) instanceAttributeActions() map[string]handler {
	return map[string]handler{
		"DescribeInstanceAttribute": s.describeInstanceAttribute, "ModifyInstanceAttribute": s.modifyInstanceAttribute,
		"DescribeInstanceCreditSpecifications": s.describeCredits, "ModifyInstanceCreditSpecification": s.modifyCredits,
		"ModifyInstanceMetadataOptions": s.modifyMetadata,
	}
}

func value(v any) wire.Object { return wire.Object{"Value": v} }

// describeInstanceAttribute always answers with the attribute's element: the provider takes it without looking.
func (s *Service) describeInstanceAttribute(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "InstanceId", "Attribute"); err != nil {
		return nil, err
	}
	o, err := s.shownInstance(ctx, in.Text("InstanceId"))
	if err != nil {
		return nil, err
	}
	attributes, answer := o.Object(attributesMember), wire.Object{"InstanceId": o.Text("InstanceId")}
	switch name := in.Text("Attribute"); name {
	case "instanceType":
		answer["InstanceType"] = value(o.Text("InstanceType"))
	case "rootDeviceName":
		answer["RootDeviceName"] = value(o.Text("RootDeviceName"))
	case "instanceInitiatedShutdownBehavior":
		answer["InstanceInitiatedShutdownBehavior"] = value(attributes.Text("InstanceInitiatedShutdownBehavior"))
	case "disableApiTermination":
		answer["DisableApiTermination"] = value(attributes.Bool("DisableApiTermination"))
	case "disableApiStop":
		answer["DisableApiStop"] = value(attributes.Bool("DisableApiStop"))
	case "userData":
		answer["UserData"] = wire.Object{} // AWS has no value where there is no user data
		if data := attributes.Text("UserData"); data != "" {
			answer["UserData"] = value(data)
		}
	case "sourceDestCheck":
		answer["SourceDestCheck"] = value(orBool(o, "SourceDestCheck", true))
	case "ebsOptimized":
		answer["EbsOptimized"] = value(o.Bool("EbsOptimized"))
	case "enaSupport":
		answer["EnaSupport"] = value(o.Bool("EnaSupport"))
	case "sriovNetSupport":
		answer["SriovNetSupport"] = value("simple")
	case "enclaveOptions":
		answer["EnclaveOptions"] = o["EnclaveOptions"]
	case "groupSet":
		answer["Groups"] = o["SecurityGroups"]
	case "blockDeviceMapping":
		answer["BlockDeviceMappings"] = o["BlockDeviceMappings"]
	case "productCodes":
		answer["ProductCodes"] = []any{}
	case "kernel":
		answer["KernelId"] = wire.Object{}
	case "ramdisk":
		answer["RamdiskId"] = wire.Object{}
	default:
		return nil, invalid("Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
	}
	return answer, nil
}

// modifyInstanceAttribute changes an attribute, which is given by its member, or by Attribute and Value.
func (s *Service) modifyInstanceAttribute(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "InstanceId"); err != nil {
		return nil, err
	}
	in, err := spelledOut(in)
	if err != nil {
		return nil, err
	}
	o, err := s.shownInstance(ctx, in.Text("InstanceId"))
	if err != nil {
		return nil, err
	}
	switch {
	case ending(o):
		return nil, wire.Errorf("IncorrectInstanceState",
			"The instance '%s' is not in a state in which its attributes can be modified.", o.Text("InstanceId"))
	case in.Has("Groups"), in.Has("SourceDestCheck"):
		return returned(), s.modifyPrimary(ctx, o, in)
	case in.Has("BlockDeviceMappings"):
		return returned(), s.modifyMappings(ctx, o, in)
	}
	_, err = s.change(ctx, instanceKind(), in.Text("InstanceId"), func(o wire.Object) error { return setAttribute(o, in) })
	return returned(), err
}

// spelledOut is a request with the attribute's member in place of Attribute and Value.
func spelledOut(in wire.Object) (wire.Object, error) {
	name := in.Text("Attribute")
	if name == "" {
		return in, nil
	}
	in = in.Clone()
	if name == "blockDeviceMapping" { // whose value is BlockDeviceMappings
		return in, nil
	}
	member := strings.ToUpper(name[:1]) + name[1:]
	switch name {
	case "instanceType", "instanceInitiatedShutdownBehavior", "userData":
		in[member] = value(in.Text("Value"))
	case "disableApiTermination", "disableApiStop", "ebsOptimized", "sourceDestCheck", "enaSupport":
		set, err := strconv.ParseBool(in.Text("Value"))
		if err != nil {
			return nil, invalid("Value (%s) for parameter value is invalid.", in.Text("Value"))
		}
		in[member] = value(set)
	default:
		return nil, invalid("Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
	}
	return in, nil
}

// setAttribute changes an attribute that the instance has itself. Some are only changed while it is stopped.
func setAttribute(o, in wire.Object) error {
	attributes := o.Object(attributesMember)
	for _, name := range []string{"InstanceType", "UserData", "EbsOptimized", "EnaSupport", "EnclaveOptions"} {
		if in.Has(name) && stateOf(o) != "stopped" {
			return incorrectInstance(o.Text("InstanceId"), "stopped")
		}
	}
	switch {
	case in.Has("DisableApiTermination"):
		attributes["DisableApiTermination"] = in.Object("DisableApiTermination").Bool("Value")
	case in.Has("DisableApiStop"):
		attributes["DisableApiStop"] = in.Object("DisableApiStop").Bool("Value")
	case in.Has("InstanceInitiatedShutdownBehavior"):
		asked := wire.Object{"instanceInitiatedShutdownBehavior": in.Object("InstanceInitiatedShutdownBehavior").Text("Value")}
		attributes["InstanceInitiatedShutdownBehavior"] = asked.Text("instanceInitiatedShutdownBehavior")
		return oneOf(asked, "instanceInitiatedShutdownBehavior", "stop", "terminate")
	case in.Has("UserData"):
		data := in.Object("UserData").Text("Value")
		if _, err := base64.StdEncoding.DecodeString(data); err != nil {
			return invalid("Invalid BASE64 encoding of user data.")
		}
		attributes["UserData"] = data
	case in.Has("EbsOptimized"):
		o["EbsOptimized"] = in.Object("EbsOptimized").Bool("Value")
	case in.Has("EnaSupport"):
		o["EnaSupport"] = in.Object("EnaSupport").Bool("Value")
	case in.Has("InstanceType"):
		return setType(o, in.Object("InstanceType").Text("Value"))
	default:
		return wire.Errorf("InvalidParameterCombination", "No attributes specified.")
	}
	return nil
}

func setType(o wire.Object, name string) error {
	info, known := instanceType(name)
	if !known {
		return invalid("Invalid value '%s' for InstanceType.", name)
	}
	cpus := info.Object("VCpuInfo")
	o["InstanceType"] = name
	o["CpuOptions"] = wire.Object{"CoreCount": cpus["DefaultCores"], "ThreadsPerCore": cpus["DefaultThreadsPerCore"]}
	return nil
}

// modifyPrimary changes what an instance has of its primary network interface.
func (s *Service) modifyPrimary(ctx context.Context, o, in wire.Object) error {
	nics := o.Objects("NetworkInterfaces")
	if len(nics) == 0 {
		return wire.Errorf("InvalidParameterCombination", "The instance '%s' is not in a VPC", o.Text("InstanceId"))
	}
	if len(nics) > 1 {
		return wire.Errorf("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. "+
			"Please specify an interface ID for the operation instead.", o.Text("InstanceId"))
	}
	id := nics[0].Text("NetworkInterfaceId")
	if in.Has("Groups") {
		return s.setGroups(ctx, id, in.Texts("Groups"))
	}
	_, err := s.change(ctx, interfaceKind(), id, func(eni wire.Object) error {
		eni["SourceDestCheck"] = in.Object("SourceDestCheck").Bool("Value")
		return nil
	})
	return err
}

// modifyMappings changes whether volumes are deleted when their instance is terminated.
func (s *Service) modifyMappings(ctx context.Context, o, in wire.Object) error {
	volumes := map[string]string{}
	for _, m := range o.Objects("BlockDeviceMappings") {
		volumes[m.Text("DeviceName")] = m.Object("Ebs").Text("VolumeId")
	}
	for _, m := range in.Objects("BlockDeviceMappings") {
		id, there := volumes[m.Text("DeviceName")]
		if !there {
			return wire.Errorf("InvalidInstanceAttributeValue", "No device is currently mapped at %s", m.Text("DeviceName"))
		}
		_, err := s.change(ctx, volumeKind(), id, func(volume wire.Object) error {
			for _, list := range [][]wire.Object{
				volume.Objects("Attachments"), volume.Object(thenMember).Objects("Attachments"),
			} {
				for _, a := range list {
					if a.Text("InstanceId") == o.Text("InstanceId") {
						a["DeleteOnTermination"] = m.Object("Ebs").Bool("DeleteOnTermination")
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// describeCredits tells of the instances of a request, or of all that may use more than they have saved.
func (s *Service) describeCredits(ctx context.Context, in wire.Object) (wire.Object, error) {
	k := instanceKind()
	k.list, k.filters = "InstanceCreditSpecifications", map[string]string{"instance-id": "InstanceId"}
	return s.describeAs(ctx, k, in, func(_ context.Context, instances []wire.Object) (list []wire.Object, err error) {
		for _, o := range instances {
			id, credits := o.Text("InstanceId"), o.Object(attributesMember).Text("CpuCredits")
			bursts := burstable(o.Text("InstanceType"))
			switch {
			case in.Has("InstanceIds") && !bursts:
				return nil, wire.Errorf("UnsupportedOperation",
					"The instance type of '%s' does not support credit specifications.", id)
			case bursts && (in.Has("InstanceIds") || credits == "unlimited") && !ending(o):
				list = append(list, wire.Object{"InstanceId": id, "CpuCredits": credits})
			}
		}
		return list, nil
	})
}

// modifyCredits changes the instances that can be changed, and tells of the others why not.
func (s *Service) modifyCredits(ctx context.Context, in wire.Object) (wire.Object, error) {
	var done, failed []wire.Object
	for _, spec := range in.Objects("InstanceCreditSpecifications") {
		if err := oneOf(spec, "CpuCredits", "standard", "unlimited"); err != nil {
			return nil, err
		}
		id := spec.Text("InstanceId")
		_, err := s.change(ctx, instanceKind(), id, func(o wire.Object) error {
			if !burstable(o.Text("InstanceType")) {
				return wire.Errorf("InstanceCreditSpecification.NotSupported",
					"The instance type does not support credit specifications.")
			}
			o.Object(attributesMember)["CpuCredits"] = orText(spec, "CpuCredits", "standard")
			return nil
		})
		if failure := clientError(err); failure != nil {
			failed = append(failed, wire.Object{
				"InstanceId": id, "Error": wire.Object{"Code": failure.Code, "Message": failure.Message},
			})
			continue
		}
		if err != nil {
			return nil, err
		}
		done = append(done, wire.Object{"InstanceId": id})
	}
	if done == nil && failed == nil {
		return nil, require(in, "InstanceCreditSpecification")
	}
	return wire.Object{
		"SuccessfulInstanceCreditSpecifications":   wire.List(done...),
		"UnsuccessfulInstanceCreditSpecifications": wire.List(failed...),
	}, nil
}

// checkMetadata is an error where options of the metadata service have values that there are not.
func checkMetadata(asked wire.Object) error {
	for _, name := range []string{"HttpEndpoint", "HttpProtocolIpv6", "InstanceMetadataTags"} {
		if err := oneOf(asked, name, "enabled", "disabled"); err != nil {
			return err
		}
	}
	const most = 64
	if hops := asked.Int("HttpPutResponseHopLimit"); asked.Has("HttpPutResponseHopLimit") && (hops < 1 || hops > most) {
		return invalid("Value (%d) for parameter HttpPutResponseHopLimit is invalid. It must be from 1 to %d.", hops, most)
	}
	return oneOf(asked, "HttpTokens", "optional", "required")
}

// withMetadata is options of the metadata service with those that are asked for.
func withMetadata(options, asked wire.Object) wire.Object {
	options = options.Clone()
	for _, name := range []string{
		"HttpTokens", "HttpPutResponseHopLimit", "HttpEndpoint", "HttpProtocolIpv6", "InstanceMetadataTags",
	} {
		if asked.Has(name) {
			options[name] = asked[name]
		}
	}
	return options
}

func (s *Service) modifyMetadata(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "InstanceId"); err != nil {
		return nil, err
	}
	if err := checkMetadata(in); err != nil {
		return nil, err
	}
	id := in.Text("InstanceId")
	o, err := s.change(ctx, instanceKind(), id, func(o wire.Object) error {
		if ending(o) {
			return incorrectInstance(id, "running")
		}
		o["MetadataOptions"] = withMetadata(o.Object("MetadataOptions"), in)
		return nil
	})
	if err != nil {
		return nil, err
	}
	options := o.Object("MetadataOptions").Clone()
	options["State"] = "pending"
	return wire.Object{"InstanceId": id, "InstanceMetadataOptions": options}, nil
}
