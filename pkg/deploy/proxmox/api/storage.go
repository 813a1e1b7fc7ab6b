package api

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Storage is a storage as one hypervisor sees it. Sizes are bytes.
type Storage struct {
	Name                string
	Type                string   // dir, lvmthin, zfspool, nfs, ...
	Content             []string // kinds that it may hold, sorted: images, iso, import, snippets, ...
	Active, Shared      bool
	Available, Capacity uint64
}

// Holds tells whether the storage is configured for a kind of content.
func (s Storage) Holds(kind string) bool { return slices.Contains(s.Content, kind) }

// Volume is something that lies on a storage.
type Volume struct {
	ID   string // such as local:iso/debian-12.img
	Kind string
	Size uint64 // bytes
	VMID int    // whose disk it is; 0 if it is none
	Base int    // the template whose disk it needs, as a linked clone does; 0: none, or the storage does not say
	// Created is when it was put there; zero: the storage does not say.
	Created time.Time
}

// Storages lists the storages of a hypervisor that the token may see, sorted by name.
func (c *Client) Storages(ctx context.Context, hypervisor string) ([]Storage, error) {
	var rows []struct {
		Storage string `json:"storage"`
		Type    string `json:"type"`
		Content string `json:"content"`
		Active  number `json:"active"`
		Shared  number `json:"shared"`
		Avail   number `json:"avail"`
		Total   number `json:"total"`
	}
	if err := c.get(ctx, "/nodes/"+url.PathEscape(hypervisor)+"/storage", nil, &rows); err != nil {
		return nil, err
	}
	storages := make([]Storage, len(rows))
	for i, r := range rows {
		kinds := strings.FieldsFunc(r.Content, func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(kinds)
		storages[i] = Storage{
			Name: r.Storage, Type: r.Type, Content: kinds, Active: r.Active.bool(), Shared: r.Shared.bool(),
			Available: r.Avail.bytes(), Capacity: r.Total.bytes(),
		}
	}
	slices.SortFunc(storages, func(a, b Storage) int { return strings.Compare(a.Name, b.Name) })
	return storages, nil
}

// Content lists the volumes of one kind (iso, import, snippets, images) on a storage, sorted by id. A storage that is
// not configured for the kind gives an empty list, and so does one whose volumes the token may not see.
func (c *Client) Content(ctx context.Context, hypervisor, storage, kind string) ([]Volume, error) {
	var rows []struct {
		VolID   string `json:"volid"`
		Content string `json:"content"`
		Size    number `json:"size"`
		VMID    number `json:"vmid"`
		Parent  text   `json:"parent"`
		Created number `json:"ctime"`
	}
	path := "/nodes/" + url.PathEscape(hypervisor) + "/storage/" + url.PathEscape(storage) + "/content"
	query := url.Values{}
	if kind != "" {
		query.Set("content", kind)
	}
	if err := c.get(ctx, path, query, &rows); err != nil {
		return nil, err
	}
	volumes := make([]Volume, len(rows))
	for i, r := range rows {
		volumes[i] = Volume{ID: r.VolID, Kind: r.Content, Size: r.Size.bytes(), VMID: r.VMID.int()}
		if seconds := int64(r.Created.bytes()); seconds > 0 {
			volumes[i].Created = time.Unix(seconds, 0).UTC()
		}
		volumes[i].Base = baseOf(r.VolID, string(r.Parent), volumes[i].VMID)
	}
	slices.SortFunc(volumes, func(a, b Volume) int { return strings.Compare(a.ID, b.ID) })
	return volumes, nil
}

// baseVolume is what Proxmox VE calls the disks of templates (PVE::Storage::Plugin).
var baseVolume = regexp.MustCompile(`\bbase-([0-9]+)-`)

// baseOf returns the template that a volume of a VM is a linked clone of: the volume's own name begins with that of the
// template's disk, or its parent is called so. LVM-thin tells of none, and there none depends on another.
func baseOf(volume, parent string, vmid int) int {
	found := baseVolume.FindStringSubmatch(volume + " " + parent)
	if found == nil {
		return 0
	}
	if base, err := strconv.Atoi(found[1]); err == nil && base != vmid {
		return base
	}
	return 0
}

// Bridges lists the names of a hypervisor's bridges, SDN networks included, that the token may see, sorted.
func (c *Client) Bridges(ctx context.Context, hypervisor string) ([]string, error) {
	var rows []struct {
		Iface string `json:"iface"`
	}
	path := "/nodes/" + url.PathEscape(hypervisor) + "/network"
	if err := c.get(ctx, path, url.Values{"type": {"any_bridge"}}, &rows); err != nil {
		return nil, err
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Iface
	}
	slices.Sort(names)
	return names, nil
}
