package ec2

import (
	"context"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) instanceTypeActions() map[string]handler {
	return map[string]handler{
		"DescribeInstanceTypes": s.describeInstanceTypes, "DescribeInstanceTypeOfferings": s.describeOfferings,
	}
}

// families are those of the types, as hive has them: burstable ones, and general, compute and memory ones (m, c and r) of
// each generation of processors.
func families() []string {
	list := []string{"t2", "t3", "t3a", "t4g"}
	for _, class := range []string{"m", "c", "r"} {
		for _, generation := range []string{"4", "5", "5a", "6i", "6a", "6g", "7i", "7a", "7g", "8i", "8a", "8g"} {
			list = append(list, class+generation)
		}
	}
	return list
}

// size is what a type has of something.
type size struct {
	name      string
	cpus, mib int64
}

// sizes are those of a family.
func sizes(family string) []size {
	const gib = 1024
	if family[0] == 't' {
		return []size{
			{"nano", 2, gib / 2},
			{"micro", 2, gib},
			{"small", 2, 2 * gib},
			{"medium", 2, 4 * gib},
			{"large", 2, 8 * gib},
			{"xlarge", 4, 16 * gib},
			{"2xlarge", 8, 32 * gib},
		}
	}
	each := map[byte]int64{'c': 2 * gib, 'm': 4 * gib, 'r': 8 * gib}[family[0]]
	var list []size
	for _, s := range []size{
		{"large", 2, 0},
		{"xlarge", 4, 0},
		{"2xlarge", 8, 0},
		{"4xlarge", 16, 0},
		{"8xlarge", 32, 0},
		{"12xlarge", 48, 0},
		{"16xlarge", 64, 0},
		{"24xlarge", 96, 0},
	} {
		small := strings.HasSuffix(family, "4") || strings.HasSuffix(family, "g")
		const most = 48 // of those families in hive
		if !small || s.cpus <= most {
			s.mib = s.cpus * each
			list = append(list, s)
		}
	}
	return list
}

// instanceType returns what is told of a type, and whether there is one of that name.
func instanceType(name string) (wire.Object, bool) {
	family, called, _ := strings.Cut(name, ".")
	if !slices.Contains(families(), family) {
		return nil, false
	}
	all := sizes(family)
	i := slices.IndexFunc(all, func(s size) bool { return s.name == called })
	if i < 0 {
		return nil, false
	}
	return typeInfo(family, all[i]), true
}

func burstable(typeName string) bool { return strings.HasPrefix(typeName, "t") }

// typeInfo tells of a type what AWS tells of those of its family.
func typeInfo(family string, s size) wire.Object {
	arm := strings.HasSuffix(family, "g")
	old := family == "t2" || strings.HasSuffix(family, "4")
	architecture, threads, maker := "x86_64", int64(2), "Intel"
	switch {
	case arm:
		architecture, threads, maker = "arm64", 1, "AWS"
	case strings.HasSuffix(family, "a"):
		maker = "AMD"
	case family == "t2":
		threads = 1
	}
	threads = min(threads, s.cpus)
	nvme, ena := "required", "required"
	if old {
		nvme, ena = "unsupported", "unsupported"
	}
	placement := []string{"cluster", "partition", "spread"}
	if burstable(family) {
		placement = placement[1:]
	}
	return wire.Object{
		"InstanceType": family + "." + s.name, "CurrentGeneration": !old, "FreeTierEligible": s.name == "micro",
		"SupportedUsageClasses": wire.Strings("on-demand", "spot"), "SupportedRootDeviceTypes": wire.Strings("ebs"),
		"SupportedVirtualizationTypes": wire.Strings("hvm"), "BareMetal": false, "Hypervisor": "kvm",
		"ProcessorInfo": wire.Object{
			"SupportedArchitectures": wire.Strings(architecture), "SustainedClockSpeedInGhz": 2.5, "Manufacturer": maker,
		},
		"VCpuInfo": wire.Object{
			"DefaultVCpus": s.cpus, "DefaultCores": s.cpus / threads, "DefaultThreadsPerCore": threads,
			"ValidCores": []any{s.cpus / threads}, "ValidThreadsPerCore": []any{threads},
		},
		"MemoryInfo": wire.Object{"SizeInMiB": s.mib}, "InstanceStorageSupported": false,
		"EbsInfo": wire.Object{
			"EbsOptimizedSupport": "default", "EncryptionSupport": "supported", "NvmeSupport": nvme,
			"EbsOptimizedInfo": wire.Object{
				"BaselineBandwidthInMbps": int64(650), "BaselineThroughputInMBps": 81.25, "BaselineIops": int64(3600),
				"MaximumBandwidthInMbps": int64(4750), "MaximumThroughputInMBps": 593.75, "MaximumIops": int64(18750),
			},
		},
		"NetworkInfo": wire.Object{
			"NetworkPerformance": "Up to 10 Gigabit", "MaximumNetworkInterfaces": mostInterfaces(s),
			"MaximumNetworkCards": int64(1), "DefaultNetworkCardIndex": int64(0), "EnaSupport": ena, "EfaSupported": false,
			"Ipv4AddressesPerInterface": int64(10), "Ipv6AddressesPerInterface": int64(10), "Ipv6Supported": true,
			"EncryptionInTransitSupported": false, "EnaSrdSupported": false,
			"NetworkCards": wire.List(wire.Object{
				"NetworkCardIndex": int64(0), "NetworkPerformance": "Up to 10 Gigabit",
				"MaximumNetworkInterfaces": mostInterfaces(s),
			}),
		},
		"PlacementGroupInfo":   wire.Object{"SupportedStrategies": wire.Strings(placement...)},
		"HibernationSupported": !arm, "BurstablePerformanceSupported": burstable(family), "DedicatedHostsSupported": false,
		"AutoRecoverySupported": true, "SupportedBootModes": wire.Strings("legacy-bios", "uefi"),
		"NitroEnclavesSupport": "unsupported", "NitroTpmSupport": "unsupported",
	}
}

// mostInterfaces is how many network interfaces an instance of a size may have.
func mostInterfaces(s size) int64 {
	const small, medium, large = 3, 4, 8
	switch {
	case s.cpus <= 2 && s.mib <= 2048:
		return small
	case s.cpus <= 4:
		return medium
	}
	return large
}

func allTypes() []wire.Object {
	var list []wire.Object
	for _, family := range families() {
		for _, s := range sizes(family) {
			list = append(list, typeInfo(family, s))
		}
	}
	return list
}

func (s *Service) describeInstanceTypes(_ context.Context, in wire.Object) (wire.Object, error) {
	return typesAmong(allTypes(), in)
}

// typesAmong answers a request for types with those of a list.
func typesAmong(all []wire.Object, in wire.Object) (wire.Object, error) {
	match, err := filter(map[string]string{
		"auto-recovery-supported": "AutoRecoverySupported", "bare-metal": "BareMetal",
		"burstable-performance-supported": "BurstablePerformanceSupported", "current-generation": "CurrentGeneration",
		"dedicated-hosts-supported": "DedicatedHostsSupported", "free-tier-eligible": "FreeTierEligible",
		"ebs-info.ebs-optimized-support": "EbsInfo.EbsOptimizedSupport",
		"ebs-info.encryption-support":    "EbsInfo.EncryptionSupport", "ebs-info.nvme-support": "EbsInfo.NvmeSupport",
		"hibernation-supported": "HibernationSupported", "hypervisor": "Hypervisor",
		"instance-storage-supported": "InstanceStorageSupported", "instance-type": "InstanceType",
		"memory-info.size-in-mib": "MemoryInfo.SizeInMiB", "network-info.efa-supported": "NetworkInfo.EfaSupported",
		"network-info.ena-support":                    "NetworkInfo.EnaSupport",
		"network-info.ipv4-addresses-per-interface":   "NetworkInfo.Ipv4AddressesPerInterface",
		"network-info.ipv6-supported":                 "NetworkInfo.Ipv6Supported",
		"network-info.maximum-network-interfaces":     "NetworkInfo.MaximumNetworkInterfaces",
		"network-info.network-performance":            "NetworkInfo.NetworkPerformance",
		"processor-info.supported-architecture":       "ProcessorInfo.SupportedArchitectures",
		"processor-info.sustained-clock-speed-in-ghz": "ProcessorInfo.SustainedClockSpeedInGhz",
		"supported-boot-mode":                         "SupportedBootModes",
		"supported-root-device-type":                  "SupportedRootDeviceTypes",
		"supported-usage-class":                       "SupportedUsageClasses",
		"supported-virtualization-type":               "SupportedVirtualizationTypes",
		"vcpu-info.default-cores":                     "VCpuInfo.DefaultCores",
		"vcpu-info.default-threads-per-core":          "VCpuInfo.DefaultThreadsPerCore",
		"vcpu-info.default-vcpus":                     "VCpuInfo.DefaultVCpus",
	}, in)
	if err != nil {
		return nil, err
	}
	var list []wire.Object
	var missing []string
	for _, name := range in.Texts("InstanceTypes") {
		i := slices.IndexFunc(all, func(o wire.Object) bool { return o.Text("InstanceType") == name })
		if i < 0 {
			missing = append(missing, name)
			continue
		}
		list = append(list, all[i])
	}
	if len(missing) > 0 {
		return nil, wire.Errorf("InvalidInstanceType",
			"The following supplied instance types do not exist: [%s]", strings.Join(missing, ", "))
	}
	if !in.Has("InstanceTypes") {
		list = all
	}
	return page("InstanceTypes", slices.DeleteFunc(list, func(o wire.Object) bool { return !match(o) }), in, "InstanceType")
}

func (s *Service) describeOfferings(_ context.Context, in wire.Object) (wire.Object, error) {
	return s.offeringsOf(allTypes(), in)
}

// offeringsOf tells where types are offered: in the region's only zone.
func (s *Service) offeringsOf(types []wire.Object, in wire.Object) (wire.Object, error) {
	match, err := filter(map[string]string{"instance-type": "InstanceType", "location": "Location"}, in)
	if err != nil {
		return nil, err
	}
	if err := oneOf(in, "LocationType", "region", "availability-zone", "availability-zone-id"); err != nil {
		return nil, err
	}
	kind := orText(in, "LocationType", "region")
	location := map[string]string{
		"region": s.Region, "availability-zone": s.Region + "a", "availability-zone-id": zoneID(s.Region),
	}[kind]
	var list []wire.Object
	for _, info := range types {
		offering := wire.Object{"InstanceType": info.Text("InstanceType"), "LocationType": kind, "Location": location}
		if match(offering) {
			list = append(list, offering)
		}
	}
	return page("InstanceTypeOfferings", list, in, "InstanceType")
}
