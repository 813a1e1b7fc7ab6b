package api

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// shutdownTime is how long a guest may take to shut down before it is switched off.
const shutdownTime = 2 * time.Minute

// PendingSettings are the names of the settings of a VM that wait for its next start.
func (c *Client) PendingSettings(ctx context.Context, hypervisor string, vmid int) ([]string, error) {
	var rows []struct {
		Key     string `json:"key"`
		Pending *text  `json:"pending"`
		Delete  number `json:"delete"`
	}
	if err := c.get(ctx, vmPath(hypervisor, vmid, "/pending"), nil, &rows); err != nil {
		return nil, err
	}
	var names []string
	for _, row := range rows {
		if row.Pending != nil || row.Delete.bool() {
			names = append(names, row.Key)
		}
	}
	return names, nil
}

// Restart shuts the VM down, switches it off if the guest does not do that within two minutes, and starts it again with
// the settings that waited for that. A VM that is off is started.
func (c *Client) Restart(ctx context.Context, hypervisor string, vmid int) error {
	body := map[string]string{"forceStop": "1", "timeout": strconv.Itoa(int(shutdownTime.Seconds()))}
	if err := c.run(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/status/shutdown"), nil, body); err != nil {
		return err
	}
	return c.run(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/status/start"), nil, nil)
}
