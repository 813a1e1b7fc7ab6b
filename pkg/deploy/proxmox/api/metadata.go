package api

import (
	"context"
	"net/http"
	"strings"
)

// UpdateMetadata replaces description and tags of a VM (VM.Config.Options). They are in force at once, running or not.
func (c *Client) UpdateMetadata(
	ctx context.Context, hypervisor string, vmid int, description string, tags []string,
) error {
	body := map[string]string{"description": description, "tags": strings.Join(tags, ";")}
	return retry(ctx, func() error {
		return c.call(ctx, http.MethodPut, vmPath(hypervisor, vmid, "/config"), nil, body, nil)
	})
}
