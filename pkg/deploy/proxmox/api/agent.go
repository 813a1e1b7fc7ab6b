package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Interface is a network interface as the guest sees it.
type Interface struct {
	Name     string
	MAC      string // upper case, empty if the guest gives none
	Prefixes []netip.Prefix
}

// Interfaces asks the guest agent for the guest's interfaces, lo included, in the guest's order. Errors match
// ErrAgentNotRunning, ErrAgentDisabled, ErrNotRunning or ErrForbidden; a frozen guest is an error too.
func (c *Client) Interfaces(ctx context.Context, hypervisor string, vmid int) ([]Interface, error) {
	var answer struct {
		Result json.RawMessage `json:"result"`
	}
	if err := c.get(ctx, vmPath(hypervisor, vmid, "/agent/network-get-interfaces"), nil, &answer); err != nil {
		return nil, err
	}
	var rows []struct {
		Name      string `json:"name"`
		MAC       string `json:"hardware-address"`
		Addresses []struct {
			Address string `json:"ip-address"`
			Prefix  number `json:"prefix"`
		} `json:"ip-addresses"`
	}
	if err := json.Unmarshal(answer.Result, &rows); err != nil {
		return nil, agentFailure(vmid, answer.Result, err)
	}
	interfaces := make([]Interface, len(rows))
	for i, row := range rows {
		interfaces[i] = Interface{Name: row.Name, MAC: strings.ToUpper(row.MAC)}
		for _, a := range row.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if err != nil {
				continue // a guest may report what is no address; the others still count
			}
			interfaces[i].Prefixes = append(interfaces[i].Prefixes, netip.PrefixFrom(addr, a.Prefix.int()))
		}
	}
	return interfaces, nil
}

// agentFailure reads the 200 answer of an agent that refuses: {"error":{"class":...,"desc":...}} in place of a list.
func agentFailure(vmid int, result json.RawMessage, err error) error {
	var refusal struct {
		Error struct {
			Desc string `json:"desc"`
		} `json:"error"`
	}
	if json.Unmarshal(result, &refusal) == nil && refusal.Error.Desc != "" {
		return fmt.Errorf("guest agent of VM %d: %s", vmid, refusal.Error.Desc)
	}
	return fmt.Errorf("guest agent of VM %d gave an answer of an unknown shape: %w", vmid, err)
}

// ReadFile reads a small file of the guest through its agent. A file that is cut off is an error. It needs VM.Monitor
// on PVE 8, VM.GuestAgent.FileRead (or Unrestricted) on PVE 9.
func (c *Client) ReadFile(ctx context.Context, hypervisor string, vmid int, path string) ([]byte, error) {
	var answer struct {
		Content   string `json:"content"`
		Truncated number `json:"truncated"`
	}
	query := url.Values{"file": {path}}
	if err := c.get(ctx, vmPath(hypervisor, vmid, "/agent/file-read"), query, &answer); err != nil {
		return nil, fmt.Errorf("reading %s in VM %d: %w", path, vmid, err)
	}
	if answer.Truncated.bool() {
		return nil, fmt.Errorf("reading %s in VM %d: the file is too large for the guest agent", path, vmid)
	}
	return fromLatin1(answer.Content), nil
}
