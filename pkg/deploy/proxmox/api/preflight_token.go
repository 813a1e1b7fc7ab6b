package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/deploy"
)

func (p *preflight) access() []deploy.Finding {
	c := &check{id: "pve-access", title: "Proxmox API can be used"}
	if major := p.version.Major(); major != 0 && major < 8 {
		c.add(
			deploy.Fail, "upgrade the hypervisors to Proxmox VE 8 or 9",
			"the API is of Proxmox VE %s; 8.0 is the oldest that works", p.version.Version,
		)
	}
	late := ""
	if p.slowest >= slowAnswer {
		late = fmt.Sprintf(", and is slow: an answer took %s", p.slowest.Round(100*time.Millisecond))
	}
	return c.done("Proxmox VE %s accepts the API token %s%s", p.version.Version, p.req.TokenID, late)
}

// needed are privileges that the provider or hive-test itself needs (observed on PVE 8.4 with a token that lacked one
// at a time; names of PVE 9 from its published permission checks). They may be held on any of paths; "A|B" is either.
type needed struct {
	paths []string
	privs []string
}

func (p *preflight) privileges() []deploy.Finding {
	c := &check{id: "pve-privileges", title: "API token has the privileges"}
	if p.privsErr != nil {
		c.unknown("the token's privileges", p.privsErr)
		return c.done("")
	}
	if empty(p.privs) {
		fix := p.grant("/")
		if user, name := splitToken(p.req.TokenID); user == "root@pam" {
			fix += "; or let it have its user's rights: pveum user token modify " + user + " " + name + " --privsep 0"
		}
		c.add(
			deploy.Fail, fix,
			"the API token %s has no privilege at all: a token with privilege separation needs its own ACL",
			p.tokenName(),
		)
		return c.done("")
	}
	for _, n := range p.neededPrivileges() {
		var missing []string
		for _, priv := range n.privs {
			if !p.holds(n.paths, priv) {
				missing = append(missing, first(priv))
			}
		}
		if len(missing) > 0 {
			c.add(
				deploy.Fail, p.grant(n.paths[0]), "the API token %s lacks %s on %s", p.tokenName(),
				strings.Join(missing, ", "), n.paths[0],
			)
		}
	}
	if missing := slices.DeleteFunc(
		[]string{"Pool.Allocate", "Pool.Audit"},
		func(priv string) bool { return p.has("/pool/"+idLeasePrefix+"0", priv) },
	); len(missing) > 0 {
		c.add(
			deploy.Warn, p.grant("/pool"),
			"the API token %s lacks %s on /pool: other machines cannot see which VM ids a run is about to use, nor "+
				"reap whether it lives",
			p.tokenName(), strings.Join(missing, ", "),
		)
	}
	if p.tokenErr == nil && !p.token.Expires.IsZero() && time.Until(p.token.Expires) < soon {
		user, name := splitToken(p.req.TokenID)
		c.add(
			deploy.Warn, "pveum user token modify "+user+" "+name+" --expire 0", "the API token %s expires at %s",
			p.tokenName(), p.token.Expires.UTC().Format(time.RFC3339),
		)
	}
	return c.done("the token has what creating and deleting the VMs needs%s", p.separation())
}

// soon is when a token's end is worth a word: a run and what follows it may be longer.
const soon = 24 * time.Hour

func (p *preflight) separation() string {
	switch {
	case p.tokenErr != nil:
		return ""
	case p.token.Separated:
		return " (by its own ACL: privilege separation is on)"
	}
	return " (its user's: privilege separation is off)"
}

func (p *preflight) tokenName() string {
	if p.req.TokenID == "" {
		return "USER@REALM!NAME"
	}
	return p.req.TokenID
}

// grant are the commands that give the token all privileges on a path and below. A token with privilege separation has
// what both it and its user have there; one without has its user's.
func (p *preflight) grant(path string) string {
	user, _ := splitToken(p.tokenName())
	who := ""
	if p.tokenErr != nil || p.token.Separated {
		who = " --tokens '" + p.tokenName() + "'"
	}
	if user != "root@pam" {
		who += " --users " + user
	}
	return makeRole(p.version.Major()) + "; pveum acl modify " + path + who + " --roles " + RoleName
}

// first is the narrower one of alternative privileges.
func first(priv string) string { name, _, _ := strings.Cut(priv, "|"); return name }

func (p *preflight) holds(paths []string, priv string) bool {
	for alternative := range strings.SplitSeq(priv, "|") {
		for _, path := range paths {
			if p.has(path, alternative) {
				return true
			}
		}
	}
	return false
}

func empty(privs map[string]map[string]bool) bool {
	for _, names := range privs {
		if len(names) > 0 {
			return false
		}
	}
	return true
}

func (p *preflight) neededPrivileges() []needed {
	vms := []string{"/vms"}
	if p.req.Pool != "" {
		vms = []string{"/pool/" + p.req.Pool, "/vms"}
	}
	agent := "VM.Monitor"
	if p.version.Major() >= 9 {
		agent = "VM.GuestAgent.Audit|VM.GuestAgent.Unrestricted"
	}
	clone := []string{}
	if slices.ContainsFunc(p.targets, func(t target) bool { return p.templateOf(t) != 0 }) {
		clone = append(clone, "VM.Clone")
	}
	if slices.ContainsFunc(p.usable(), p.migrates) {
		clone = append(clone, "VM.Migrate")
	}
	list := []needed{{vms, append(clone,
		"VM.Allocate", "VM.Audit", "VM.PowerMgmt", agent, "VM.Config.Disk", "VM.Config.CPU", "VM.Config.Memory",
		"VM.Config.Network",
		"VM.Config.HWType", "VM.Config.Options", "VM.Config.CDROM", "VM.Config.Cloudinit",
	)}}
	seen := map[string]bool{}
	add := func(path string, privs ...string) {
		if !seen[path+privs[0]] {
			seen[path+privs[0]] = true
			list = append(list, needed{[]string{path}, privs})
		}
	}
	for _, t := range p.targets {
		add("/storage/"+t.spec.Datastore, "Datastore.AllocateSpace")
		if p.req.Spec.Snippets() {
			add("/storage/"+t.spec.SnippetStore, "Datastore.Allocate")
		}
		if store, _, found := strings.Cut(p.req.Spec.OSImage, ":"); found && p.templateOf(t) == 0 {
			add("/storage/"+store, "Datastore.AllocateSpace|Datastore.Audit")
		}
	}
	for _, bridge := range []string{p.req.Spec.ManagementBridge, p.req.Spec.DataBridge} {
		if strings.HasPrefix(bridge, "vmbr") { // an SDN network's path holds its zone, which is not known here
			add("/sdn/zones/localnetwork/"+bridge, "SDN.Use")
		}
	}
	return list
}

// sees tells whether the token holds any of the privileges on the path; what it does not see cannot be told from what
// is not there.
func (p *preflight) sees(path string, privs ...string) bool {
	return p.privsErr != nil || slices.ContainsFunc(privs, func(priv string) bool { return p.has(path, priv) })
}

func (p *preflight) has(path, priv string) bool { return privileged(p.privs, path, priv) }

// privileged walks up from path: the nearest listed path decides, and what it has counts below only if it propagates.
func privileged(privs map[string]map[string]bool, path, priv string) bool {
	exact := true
	for {
		if names, listed := privs[path]; listed {
			propagates, held := names[priv]
			return held && (exact || propagates)
		}
		if path == "/" {
			return false
		}
		exact = false
		path = path[:strings.LastIndex(path, "/")]
		if path == "" {
			path = "/"
		}
	}
}

func (p *preflight) pool() []deploy.Finding {
	c := &check{id: "pve-pool", title: "resource pool exists"}
	name := p.req.Pool
	if name == "" {
		c.skip("no pool is set")
		return c.done("")
	}
	switch err := p.api.HasPool(p.ctx, name); {
	case errors.Is(err, ErrNotFound):
		c.add(deploy.Fail, "pveum pool add "+name, "pool %s does not exist", name)
	case err != nil:
		c.unknown("pool "+name, err)
	}
	return c.done("%s", name)
}
