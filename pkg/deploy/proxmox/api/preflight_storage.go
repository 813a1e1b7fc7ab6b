package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/deploy"
)

// image looks for the OS image on every hypervisor: a local storage holds it on some of them only.
func (p *preflight) image() []deploy.Finding {
	c := &check{id: "pve-image", title: "OS image is on every hypervisor"}
	image := p.req.Spec.OSImage
	targets := slices.DeleteFunc(p.judged(c), func(t target) bool { return p.templateOf(t) != 0 })
	if c.needless {
		return c.done("")
	}
	if len(targets) == 0 && len(p.usable()) > 0 {
		c.skip("nodes are clones of a template")
		return c.done("")
	}
	store, rest, ok := strings.Cut(image, ":")
	kind, _, isPath := strings.Cut(rest, "/")
	if !ok || !isPath || store == "" {
		c.add(
			deploy.Fail, "set os_image to a volume such as local:iso/debian-12-genericcloud-amd64.img",
			"os_image %q is not of the form STORAGE:iso/FILE or STORAGE:import/FILE", image,
		)
		return c.done("")
	}
	if kind == "import" && p.version.before(8, 4) {
		c.add(
			deploy.Fail, "upgrade to Proxmox VE 8.4 or later, or set os_image to a volume of content iso",
			"%s is an import volume, which needs Proxmox VE 8.4; this is %s", image, p.version.Version,
		)
		return c.done("")
	}
	onEach(targets, c, func(t target, c *check) { p.imageOn(t, store, kind, c) })
	return c.done("%s on %s", image, p.targetNames())
}

func (p *preflight) imageOn(t target, store, kind string, c *check) {
	image := p.req.Spec.OSImage
	if t.err != nil {
		c.unknown("image "+image+" on "+t.spec.Name, t.err)
		return
	}
	s, found := t.storage(store)
	if !found && !p.sees("/storage/"+store, "Datastore.Audit", "Datastore.AllocateSpace") {
		c.skip("storage %s is not visible to the token", store)
		return
	}
	if !found {
		c.addOn(
			t.spec.Name, deploy.Fail, "set os_image to a volume on one of: "+t.storageNames(kind),
			"storage %s of image %s does not exist on {host}", store, image,
		)
		return
	}
	if !s.Holds(kind) {
		c.addOn(
			t.spec.Name, deploy.Fail,
			fmt.Sprintf("pvesm set %s --content %s", store, strings.Join(append(slices.Clone(s.Content), kind), ",")),
			"storage %s on {host} is not configured for content %s", store, kind,
		)
		return
	}
	volumes, err := p.api.Content(p.ctx, t.spec.Name, store, kind)
	if err != nil {
		c.unknown("image "+image+" on "+t.spec.Name, err)
		return
	}
	if slices.ContainsFunc(volumes, func(v Volume) bool { return v.ID == image }) {
		return
	}
	c.addOn(t.spec.Name, deploy.Fail, imageFix(image, volumes), "image %s does not exist on {host}", image)
}

func imageFix(image string, volumes []Volume) string {
	file := image[strings.LastIndex(image, "/")+1:]
	fix := fmt.Sprintf("on {host} put %s where 'pvesm path %s' says", file, image)
	var there []string
	for _, v := range volumes {
		there = append(there, v.ID)
	}
	if len(there) > 5 {
		there = append(there[:5], "...")
	}
	if len(there) > 0 {
		fix += ", or set os_image to one that is there: " + strings.Join(there, ", ")
	}
	return fix
}

func (p *preflight) datastore() []deploy.Finding {
	c := &check{id: "pve-datastore", title: "datastores take VM disks"}
	onEach(p.judged(c), c, func(t target, c *check) { p.store(t, t.spec.Datastore, "images", "datastore_id", c) })
	return c.done("every hypervisor's datastore holds images")
}

func (p *preflight) snippets() []deploy.Finding {
	c := &check{id: "pve-snippets", title: "snippet storages take cloud-init snippets"}
	if !p.req.Spec.Snippets() {
		c.skip("cloud_init is none: nothing is uploaded")
		return c.done("")
	}
	onEach(p.judged(c), c, func(t target, c *check) { p.store(t, t.spec.SnippetStore, "snippets", "snippet_store", c) })
	return c.done("every hypervisor's snippet storage holds snippets")
}

func (p *preflight) store(t target, name, kind, setting string, c *check) {
	if t.err != nil {
		c.unknown(fmt.Sprintf("storage %s on %s", name, t.spec.Name), t.err)
		return
	}
	s, found := t.storage(name)
	switch {
	case !found && !p.sees("/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace"):
		c.skip("storage %s is not visible to the token", name)
	case !found:
		c.addOn(t.spec.Name, deploy.Fail, fmt.Sprintf(
			"set %s of hypervisor {host} to one of: %s", setting, t.storageNames(kind),
		),
			"storage %s does not exist on {host}, or the token has no privilege on it", name)
	case !s.Holds(kind):
		c.addOn(t.spec.Name, deploy.Fail, fmt.Sprintf(
			"pvesm set %s --content %s", name, strings.Join(append(slices.Clone(s.Content), kind), ","),
		),
			"storage %s on {host} is not configured for content %s (it holds %s)", name, kind, strings.Join(s.Content, ", "))
	case !s.Active:
		c.addOn(
			t.spec.Name, deploy.Fail, "on {host} look at: pvesm status --storage "+name,
			"storage %s on {host} is not active", name,
		)
	}
}

// disk adds up what the whole cluster needs of each datastore; a shared one serves several hypervisors.
func (p *preflight) disk() []deploy.Finding {
	c := &check{id: "pve-disk", title: "datastores have enough space"}
	type demand struct {
		store Storage
		host  string // empty for a shared one
		nodes int
	}
	demands := map[string]*demand{}
	var order []string
	for _, t := range p.judged(c) {
		if TimedOut(t.err) || errors.Is(t.err, deploy.ErrTimeUp) {
			c.unknown("the space on "+t.spec.Name, t.err)
			continue
		}
		s, found := t.storage(t.spec.Datastore)
		if !found || t.err != nil || !s.Active {
			continue // the check of the datastore itself says so
		}
		key, host := s.Name+" on "+t.spec.Name, t.spec.Name
		if s.Shared {
			key, host = s.Name, ""
		}
		if demands[key] == nil {
			demands[key] = &demand{store: s, host: host}
			order = append(order, key)
		}
		demands[key].nodes += len(t.nodes)
	}
	for _, key := range order {
		d := demands[key]
		need := uint64(d.nodes) * uint64(p.req.Spec.DiskSizeGB) << 30
		where := d.store.Name + " on {each}"
		if d.host == "" {
			where = d.store.Name + " (shared)"
		}
		if need > d.store.Available {
			c.addOn(d.host, deploy.Fail, fmt.Sprintf(
				"set disk_size_gb to %d or less, use fewer nodes, another datastore_id, or free space on %s",
				d.store.Available/uint64(d.nodes)>>30, where,
			),
				"%s %s %s of space on datastore %s, where %s is left of %s", count(d.nodes), needs(d.nodes), size(need), where, size(d.store.Available), size(d.store.Capacity))
		}
	}
	return c.done("enough for %d GiB a node", p.req.Spec.DiskSizeGB)
}
