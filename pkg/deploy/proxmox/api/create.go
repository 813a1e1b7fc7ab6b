package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Create makes a VM of these options of Proxmox VE and waits until it is there, switched off.
func (c *Client) Create(ctx context.Context, hypervisor string, options map[string]string) error {
	return c.run(ctx, http.MethodPost, "/nodes/"+url.PathEscape(hypervisor)+"/qemu", nil, options)
}

// Resize makes a disk of the VM that large, in GiB, and waits until it is. A disk never shrinks.
func (c *Client) Resize(ctx context.Context, hypervisor string, vmid int, disk string, gib int) error {
	body := map[string]string{"disk": disk, "size": strconv.Itoa(gib) + "G"}
	return c.run(ctx, http.MethodPut, vmPath(hypervisor, vmid, "/resize"), nil, body)
}

// Start switches the VM on and waits until it is.
func (c *Client) Start(ctx context.Context, hypervisor string, vmid int) error {
	return c.runAgain(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/status/start"), nil)
}
