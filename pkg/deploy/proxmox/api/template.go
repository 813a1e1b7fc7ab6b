package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// ShutDown has the guest switch the VM off and waits for that. One that is off is no error.
func (c *Client) ShutDown(ctx context.Context, hypervisor string, vmid int) error {
	body := map[string]string{"forceStop": "0", "timeout": strconv.Itoa(int(shutdownTime.Seconds()))}
	return c.run(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/status/shutdown"), nil, body)
}

// ToTemplate makes a template of a VM that is off, which nothing makes a VM of again (VM.Allocate).
func (c *Client) ToTemplate(ctx context.Context, hypervisor string, vmid int) error {
	return c.run(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/template"), nil, nil)
}

// cloudInitSettings are what a VM's cloud-init drive is made of: what is of one VM alone is no template's.
const cloudInitSettings = "cicustom,ciuser,sshkeys,ipconfig0,ipconfig1"

// DescribeTemplate gives a VM the name, description and tags of a template, and takes what its cloud-init drive was made of
// away, in one request.
func (c *Client) DescribeTemplate(
	ctx context.Context, hypervisor string, vmid int, name, description string, tags []string,
) error {
	body := map[string]string{
		"name": name, "description": description, "tags": strings.Join(tags, ";"), "delete": cloudInitSettings,
	}
	return retry(ctx, func() error {
		return c.call(ctx, http.MethodPut, vmPath(hypervisor, vmid, "/config"), nil, body, nil)
	})
}

// Clone makes a VM of a template with these options of Proxmox VE, newid among them, and waits until it is there, switched
// off (VM.Clone).
func (c *Client) Clone(ctx context.Context, hypervisor string, template int, options map[string]string) error {
	return c.run(ctx, http.MethodPost, vmPath(hypervisor, template, "/clone"), nil, options)
}

// Migrate moves a VM that is off, with its disks, to a storage of another hypervisor, and waits until it is there (VM.Migrate).
func (c *Client) Migrate(ctx context.Context, hypervisor string, vmid int, target, storage string) error {
	body := map[string]string{"target": target, "targetstorage": storage}
	return c.run(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/migrate"), nil, body)
}

// Configure changes settings of a VM that is off.
func (c *Client) Configure(ctx context.Context, hypervisor string, vmid int, options map[string]string) error {
	return c.call(ctx, http.MethodPut, vmPath(hypervisor, vmid, "/config"), nil, options, nil)
}
