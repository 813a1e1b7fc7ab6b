package pve

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"

	"hive-test/pkg/sim/host"
)

// guestReport changes what a guest tells of its interfaces into what other guests are known to tell.
type guestReport struct {
	// Omit are the names of interfaces that the guest does not have, or not yet.
	Omit []string `json:"omit,omitempty"`
	// First are interfaces that the guest tells before all others.
	First []reportedInterface `json:"first,omitempty"`
	// Prepend are addresses, by interface, that the guest tells before those that it has.
	Prepend map[string][]netip.Prefix `json:"prepend,omitempty"`
	// Replace are addresses, by interface, that the guest tells instead of those that it has.
	Replace map[string][]netip.Prefix `json:"replace,omitempty"`
}

type reportedInterface struct {
	Name      string         `json:"name"`
	MAC       string         `json:"mac"`
	Addresses []netip.Prefix `json:"addresses"`
}

func (g *guestReport) of(list []host.Interface) []host.Interface {
	var told []host.Interface
	for _, i := range g.First {
		told = append(told, host.Interface(i))
	}
	for _, i := range list {
		if slices.Contains(g.Omit, i.Name) {
			continue
		}
		if other, ok := g.Replace[i.Name]; ok {
			i.Addresses = other
		}
		i.Addresses = slices.Concat(g.Prepend[i.Name], i.Addresses)
		told = append(told, i)
	}
	return told
}

// setVM does to a VM what no API call does: with {"renumber": true} DHCP gives its cards other addresses, and {"lock":
// "backup"} locks it as a backup does, {"lock": ""} no more; with {"lose_snapshot": "NAME"} its disk images lose that
// snapshot.
func (s *Server) setVM(id string, body []byte) error {
	var in struct {
		Renumber bool    `json:"renumber"`
		Lock     *string `json:"lock"`
		Lose     string  `json:"lose_snapshot"`
	}
	if err := json.Unmarshal(body, &in); err != nil || !in.Renumber && in.Lock == nil && in.Lose == "" {
		return &apiError{
			status: 400, message: `give {"renumber": true}, {"lock": "backup"} or {"lose_snapshot": "NAME"}`,
		}
	}
	s.mu.Lock()
	vmid, _ := strconv.Atoi(id)
	v := s.state.VMs[vmid]
	if v != nil && in.Lock != nil {
		v.Config["lock"] = *in.Lock
		s.changed()
	}
	if v != nil && v.snapshot(in.Lose) != nil {
		v.snapshot(in.Lose).Lost = true
		s.changed()
	}
	s.mu.Unlock()
	if v == nil {
		return &apiError{status: 404, message: "no VM " + id + " here"}
	}
	if !in.Renumber {
		return nil
	}
	return s.opt.Machines.Renumber(s.ctx, v.machineID())
}
