package placement

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	"hive-test/pkg/cluster"
)

// NIC is a network card as Proxmox VE writes it (net0). An empty model is the default one, vlan 0 is none.
func NIC(model, mac, bridge string, vlan int) string {
	text := cmp.Or(model, cluster.DefaultNICModel) + "=" + strings.ToUpper(mac) + ",bridge=" + bridge
	if vlan > 0 {
		text += ",tag=" + strconv.Itoa(vlan)
	}
	return text
}

// IPConfig is what the cloud-init drive of a VM is told of a NIC, as Proxmox VE writes it (ipconfig0): a static address, or DHCP
// where there is none.
func IPConfig(static netip.Prefix, gateway string) string {
	if !static.IsValid() {
		return "ip=dhcp"
	}
	family := map[bool]string{true: "6"}[static.Addr().Is6()]
	text := "ip" + family + "=" + static.String()
	if gateway != "" {
		text += ",gw" + family + "=" + gateway
	}
	return text
}
