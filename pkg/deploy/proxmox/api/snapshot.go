package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Snapshot is a snapshot of a VM.
type Snapshot struct {
	Name, Description string
	Created           time.Time
	Memory            bool // it has the VM's memory, too
	// Unfinished says that it is being made or deleted, or that this was cut off.
	Unfinished bool
}

// Snapshots lists the snapshots of a VM, the oldest first (VM.Audit).
func (c *Client) Snapshots(ctx context.Context, hypervisor string, vmid int) ([]Snapshot, error) {
	var rows []struct {
		Name        text   `json:"name"`
		Description text   `json:"description"`
		SnapTime    number `json:"snaptime"`
		VMState     number `json:"vmstate"`
		SnapState   text   `json:"snapstate"`
	}
	if err := c.get(ctx, vmPath(hypervisor, vmid, "/snapshot"), nil, &rows); err != nil {
		return nil, err
	}
	var list []Snapshot
	for _, r := range rows {
		if r.Name == "current" { // not a snapshot: the state that the VM is in
			continue
		}
		list = append(list, Snapshot{
			Name: string(r.Name), Description: string(r.Description), Created: time.Unix(int64(r.SnapTime), 0),
			Memory: r.VMState.bool(), Unfinished: r.SnapState != "",
		})
	}
	slices.SortStableFunc(list, func(a, b Snapshot) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// SaveSnapshot makes a snapshot of a VM and waits until it is there (VM.Snapshot). Proxmox VE freezes the guest's file
// systems for it where the guest agent answers. Memory keeps that of a VM that runs.
func (c *Client) SaveSnapshot(ctx context.Context, hypervisor string, vmid int, s Snapshot) error {
	body := map[string]string{"snapname": s.Name, "description": s.Description}
	if s.Memory {
		body["vmstate"] = "1"
	}
	return c.run(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/snapshot"), nil, body)
}

// Rollback brings a VM back to a snapshot, has it running, and waits for that (VM.Snapshot or VM.Snapshot.Rollback), be
// it that the task has only asked the HA manager to start it.
// All of its configuration but the description is the snapshot's again, tags and protection included (observed on PVE
// 8.4).
func (c *Client) Rollback(ctx context.Context, hypervisor string, vmid int, name string) error {
	path := vmPath(hypervisor, vmid, "/snapshot/"+url.PathEscape(name)+"/rollback")
	if err := c.run(ctx, http.MethodPost, path, nil, map[string]string{"start": "1"}); err != nil {
		return err
	}
	return c.awaitManager(ctx, hypervisor, strconv.Itoa(vmid), "running")
}

// DeleteSnapshot deletes a snapshot and waits until it is gone (VM.Snapshot). One that is not there matches
// ErrNotFound. One that is unfinished goes from the VM's configuration also where a disk has none of it.
func (c *Client) DeleteSnapshot(ctx context.Context, hypervisor string, vmid int, s Snapshot) error {
	query := url.Values{}
	if s.Unfinished {
		query.Set("force", "1")
	}
	return c.runAgain(ctx, http.MethodDelete, vmPath(hypervisor, vmid, "/snapshot/"+url.PathEscape(s.Name)), query)
}

// Protect keeps everybody from deleting a VM (VM.Config.Options).
func (c *Client) Protect(ctx context.Context, hypervisor string, vmid int) error {
	body := map[string]string{"protection": "1"}
	return retry(ctx, func() error {
		return c.call(ctx, http.MethodPut, vmPath(hypervisor, vmid, "/config"), nil, body, nil)
	})
}

// MaySnapshot reports whether the token may make and delete snapshots of a VM, which is in that pool if it is not
// empty. Where that cannot be asked it may.
func (c *Client) MaySnapshot(ctx context.Context, vmid int, pool string) bool {
	privs, err := c.Permissions(ctx)
	return err != nil || privileged(privs, "/vms/"+strconv.Itoa(vmid), "VM.Snapshot") ||
		pool != "" && privileged(privs, "/pool/"+pool, "VM.Snapshot")
}

// NoSnapshots says why no snapshot can be made of a VM where Proxmox VE says that none can; empty: one can.
func (c *Client) NoSnapshots(ctx context.Context, hypervisor string, vmid int) (string, error) {
	var answer struct {
		HasFeature number `json:"hasFeature"`
	}
	path := vmPath(hypervisor, vmid, "/feature")
	if err := c.get(ctx, path, url.Values{"feature": {"snapshot"}}, &answer); err != nil {
		return "", err
	}
	if answer.HasFeature.bool() {
		return "", nil
	}
	config := map[string]text{}
	if err := c.get(ctx, vmPath(hypervisor, vmid, "/config"), nil, &config); err != nil {
		return "", err
	}
	storages, err := c.Storages(ctx, hypervisor)
	if err != nil {
		return "", err
	}
	reasons := unsnapshotable(config, storages)
	return cmp.Or(strings.Join(reasons, "; "), "Proxmox VE does not say why"), nil
}

// volumeSlot are settings that hold a volume which is part of a snapshot.
var volumeSlot = regexp.MustCompile(`^((virtio|scsi|sata|ide)[0-9]+|efidisk0|tpmstate0)$`)

// unsnapshotable are the devices of a VM that are known to take no snapshot.
func unsnapshotable(config map[string]text, storages []Storage) (reasons []string) {
	for _, slot := range slices.Sorted(maps.Keys(config)) {
		fields := property(string(config[slot]))
		volume := cmp.Or(fields[""], fields["file"])
		store, name, onStorage := strings.Cut(volume, ":")
		switch {
		case !volumeSlot.MatchString(slot) || fields["media"] == "cdrom" || strings.Contains(name, "cloudinit"):
		case !onStorage && volume != "" && volume != "none":
			reasons = append(reasons, fmt.Sprintf("%s is %s of the hypervisor itself", slot, volume))
		default:
			i := slices.IndexFunc(storages, func(s Storage) bool { return s.Name == store })
			if i < 0 {
				continue
			}
			if why := withoutSnapshots(storages[i].Type, name); why != "" {
				reasons = append(reasons, fmt.Sprintf("%s is on storage %s, %s", slot, store, why))
			}
		}
	}
	return reasons
}

// withoutSnapshots says why a volume of a kind of storage has no snapshots; empty: it is not known to have none.
func withoutSnapshots(kind, volume string) string {
	switch kind {
	case "dir", "nfs", "cifs", "glusterfs", "btrfs":
		if kind != "btrfs" && !strings.HasSuffix(volume, ".qcow2") {
			return "where only qcow2 has snapshots (" + kind + ")"
		}
	case "lvm", "iscsi", "iscsidirect":
		return "which has no snapshots (" + kind + ")"
	}
	return ""
}
