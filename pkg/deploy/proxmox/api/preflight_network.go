package api

import (
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/deploy"
)

func (p *preflight) bridges() []deploy.Finding {
	c := &check{id: "pve-bridges", title: "network bridges exist"}
	wanted := slices.Compact([]string{p.req.Spec.ManagementBridge, p.req.Spec.DataBridge})
	onEach(p.judged(c), c, func(t target, c *check) {
		if t.bridgesErr != nil {
			c.unknown("the bridges of "+t.spec.Name, t.bridgesErr)
			return
		}
		for _, bridge := range wanted {
			switch {
			case slices.Contains(t.bridges, bridge):
			case strings.HasPrefix(bridge, "vmbr") && !p.sees(
				"/sdn/zones/localnetwork/"+bridge, "SDN.Use", "SDN.Audit",
			):
				c.skip("bridge %s is not visible to the token", bridge)
			default:
				c.addOn(t.spec.Name, deploy.Fail, fmt.Sprintf("create %s on {host} (System > Network), set management_bridge or data_bridge to one of: %s, or give the token SDN.Use on it",
					bridge, strings.Join(t.bridges, ", ")), "bridge %s does not exist on {host}, or the token may not use it", bridge)
			}
		}
	})
	return c.done("%s on %s", strings.Join(wanted, " and "), p.targetNames())
}
