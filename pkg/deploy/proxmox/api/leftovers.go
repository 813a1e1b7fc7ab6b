package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// anyDrive are the settings of a VM that name volumes of its own.
var anyDrive = regexp.MustCompile(`^(virtio|scsi|sata|ide|unused|efidisk|tpmstate)[0-9]+$`)

// storagesOf are the storages that a VM's own volumes are on, its cloud-init drive's included.
func storagesOf(config map[string]text) []string {
	found := map[string]bool{}
	for key, value := range config {
		fields := property(string(value))
		store, _, ok := strings.Cut(cmp.Or(fields[""], fields["file"]), ":")
		if (anyDrive.MatchString(key) || key == "vmstate") && ok {
			found[store] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// snippetsOf are the volumes that a VM's cloud-init data comes from.
func snippetsOf(config map[string]text) []string {
	found := map[string]bool{}
	for _, volume := range property(string(config["cicustom"])) {
		if _, name, ok := strings.Cut(volume, ":"); ok && strings.HasPrefix(name, "snippets/") {
			found[volume] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Origin says where a VM that is gone may have left something.
type Origin struct {
	VMID       int
	Hypervisor string
	Storages   []string
	Snippets   []string // volume ids
}

// Leftover is a volume of a VM that is gone.
type Leftover struct {
	Hypervisor, Volume string
	VMID               int // 0 for a snippet
}

// String names the volume and where it is.
func (l Leftover) String() string { return l.Volume + " on " + l.Hypervisor }

// Rest is what is left of VMs that are gone.
type Rest struct {
	Volumes []Leftover
	// Kept are volumes that look alike and are left alone, with the reason.
	Kept []string
	// Unseen says what the token may not look at.
	Unseen []string
}

// VolumeReader is what finding leftovers needs.
type VolumeReader interface {
	Content(ctx context.Context, hypervisor, storage, kind string) ([]Volume, error)
	Permissions(ctx context.Context) (map[string]map[string]bool, error)
	CheckID(ctx context.Context, vmid int) (free bool, err error)
}

// privilegesLimit is how long an answer about the token's own privileges may take; without it the look goes on, and
// says so.
const privilegesLimit = 5 * time.Second

// Leftovers looks for disks and snippets of VMs that are proved gone. A disk counts only if no VM has its id any more
// after the disk was seen: a VM that takes the id later gets disks of other names.
func Leftovers(ctx context.Context, c VolumeReader, origins []Origin) (Rest, error) {
	s := sweep{ctx: ctx, api: c}
	asking, cancel := context.WithTimeout(ctx, privilegesLimit)
	defer cancel()
	privs, err := c.Permissions(asking)
	if ctx.Err() != nil {
		return Rest{}, context.Cause(ctx)
	}
	if err != nil { // an empty listing would say nothing
		return Rest{Unseen: []string{fmt.Sprintf("whether the token may see storages is not known: %v", err)}}, nil
	}
	s.privs = privs
	for _, place := range placesOf(origins) {
		if err := s.look(place); err != nil {
			return s.rest, err
		}
	}
	return s.rest, s.dropTaken()
}

// place is a storage of a hypervisor and what to look for there.
type place struct {
	hypervisor, storage string
	vmids               []int
	snippets            []string
}

func placesOf(origins []Origin) []*place {
	var places []*place
	at := func(hypervisor, storage string) *place {
		i := slices.IndexFunc(places, func(p *place) bool { return p.hypervisor == hypervisor && p.storage == storage })
		if i < 0 {
			places = append(places, &place{hypervisor: hypervisor, storage: storage})
			i = len(places) - 1
		}
		return places[i]
	}
	for _, o := range origins {
		for _, storage := range o.Storages {
			p := at(o.Hypervisor, storage)
			p.vmids = append(p.vmids, o.VMID)
		}
		for _, volume := range o.Snippets {
			storage, _, _ := strings.Cut(volume, ":")
			p := at(o.Hypervisor, storage)
			p.snippets = append(p.snippets, volume)
		}
	}
	return places
}

type sweep struct {
	ctx   context.Context
	api   VolumeReader
	privs map[string]map[string]bool
	rest  Rest
}

func (s *sweep) look(p *place) error {
	all := privileged(s.privs, "/storage/"+p.storage, "Datastore.Allocate")
	if len(p.vmids) > 0 {
		blind := slices.ContainsFunc(
			p.vmids, func(id int) bool { return !privileged(s.privs, fmt.Sprintf("/vms/%d", id), "VM.Audit") },
		)
		if blind && !all {
			s.unseen(p, "disks", "VM.Audit on /vms")
		} else if err := s.list(p, "images", func(v Volume) bool { return slices.Contains(p.vmids, v.VMID) }); err != nil {
			return err
		}
	}
	if len(p.snippets) == 0 {
		return nil
	}
	if !all {
		s.unseen(p, "snippets", "Datastore.Allocate on /storage/"+p.storage)
		return nil
	}
	return s.list(p, "snippets", func(v Volume) bool { return slices.Contains(p.snippets, v.ID) })
}

func (s *sweep) unseen(p *place, what, lacks string) {
	s.rest.Unseen = append(
		s.rest.Unseen, fmt.Sprintf("%s on %s of %s: the token lacks %s", what, p.storage, p.hypervisor, lacks),
	)
}

func (s *sweep) list(p *place, kind string, ours func(Volume) bool) error {
	volumes, err := s.api.Content(s.ctx, p.hypervisor, p.storage, kind)
	switch {
	case errors.Is(err, ErrNotFound): // where there is no such storage, nothing is left on it
		return nil
	case errors.Is(err, ErrForbidden):
		s.rest.Unseen = append(s.rest.Unseen, fmt.Sprintf("%s on %s of %s: %v", kind, p.storage, p.hypervisor, err))
		return nil
	case err != nil:
		return fmt.Errorf("looking what is left on %s of %s: %w", p.storage, p.hypervisor, err)
	}
	for _, v := range volumes {
		if !ours(v) {
			continue
		}
		// A shared storage shows a volume on each of its hypervisors.
		if !slices.ContainsFunc(
			s.rest.Volumes, func(l Leftover) bool { return l.Volume == v.ID && l.Hypervisor == p.hypervisor },
		) {
			s.rest.Volumes = append(s.rest.Volumes, Leftover{Hypervisor: p.hypervisor, Volume: v.ID, VMID: v.VMID})
		}
	}
	return nil
}

// dropTaken leaves alone what may belong to a VM that has taken the id of one that is gone.
func (s *sweep) dropTaken() error {
	taken := map[int]bool{}
	for _, l := range s.rest.Volumes {
		if _, known := taken[l.VMID]; known || l.VMID == 0 {
			continue
		}
		free, err := s.api.CheckID(s.ctx, l.VMID)
		if err != nil {
			return fmt.Errorf("checking whether VM id %d is free: %w", l.VMID, err)
		}
		taken[l.VMID] = !free
	}
	s.rest.Volumes = slices.DeleteFunc(s.rest.Volumes, func(l Leftover) bool {
		if taken[l.VMID] {
			s.rest.Kept = append(s.rest.Kept, fmt.Sprintf("%s: another VM has the id %d now", l, l.VMID))
		}
		return taken[l.VMID]
	})
	return nil
}

// DeleteVolume deletes a volume and waits for that. One that is not there is no error. Disks of VMs take
// Datastore.AllocateSpace, snippets Datastore.Allocate.
func (c *Client) DeleteVolume(ctx context.Context, hypervisor, volume string) error {
	storage, _, _ := strings.Cut(volume, ":")
	path := "/nodes/" + url.PathEscape(hypervisor) + "/storage/" + url.PathEscape(storage) + "/content/" +
		url.PathEscape(volume)
	return c.runAgain(ctx, http.MethodDelete, path, nil)
}

// Unprotect takes the protection off a VM (VM.Config.Options).
func (c *Client) Unprotect(ctx context.Context, hypervisor string, vmid int) error {
	return retry(ctx, func() error {
		return c.call(
			ctx, http.MethodPut, vmPath(hypervisor, vmid, "/config"), nil, map[string]string{"protection": "0"}, nil,
		)
	})
}
