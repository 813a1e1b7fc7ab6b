package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
)

// TagRules say which tags the token may give to VMs without Sys.Modify on /.
type TagRules struct {
	Registered []string // only with Sys.Modify
	Allow      string   // none, list, existing, or free: any; empty is free
	List       []string // what list and existing allow
	// what may be set by name: of List and of what VMs have, as far as Allow goes, without Registered
	Allowed []string
}

// TagRules reads the rules for tags. Registered, Allow and List are empty, too, where the token lacks Sys.Audit on /.
func (c *Client) TagRules(ctx context.Context) (TagRules, error) {
	var options struct {
		Registered []string `json:"registered-tags"`
		Access     struct {
			Allow string   `json:"user-allow"`
			List  []string `json:"user-allow-list"`
		} `json:"user-tag-access"`
		Allowed []string `json:"allowed-tags"`
	}
	if err := c.get(ctx, "/cluster/options", nil, &options); err != nil {
		return TagRules{}, err
	}
	return TagRules{
			Registered: options.Registered, Allow: options.Access.Allow, List: options.Access.List,
			Allowed: options.Allowed,
		},
		nil
}

func (r TagRules) free() bool { return r.Allow == "" || r.Allow == "free" }

// registered are those of the tags that are for users with Sys.Modify.
func (r TagRules) registered(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !slices.Contains(r.Registered, tag) })
}

// unlisted are those of the tags that may not be set because not any may be.
func (r TagRules) unlisted(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool {
		return r.free() || slices.Contains(r.Allowed, tag) || slices.Contains(r.Registered, tag)
	})
}

// tags looks whether VMs may be given the tags by which hive-test knows them. New VMs are checked since 9.2, clones and
// changes always (read in the source of qemu-server 9.2.6 and 8.4.10).
func (p *preflight) tags() []deploy.Finding {
	c := &check{id: "pve-tags", title: "VMs may be given their tags"}
	switch {
	case p.has("/", "Sys.Modify"):
		return c.done("the token may set any")
	case len(p.targets) == 0:
		c.skip("no VM is to be made")
		return c.done("")
	}
	wanted := slices.DeleteFunc(cluster.Tags(p.req.Name), func(tag string) bool { return tag == "" })
	rules, err := p.api.TagRules(p.ctx)
	hidden := p.privsErr == nil && !p.has("/", "Sys.Audit")
	switch {
	case err != nil:
		c.unknown("which tags may be set", err)
		return c.done("")
	case hidden:
		c.skip("the rules for tags are not visible to the token: it needs Sys.Audit on /")
		return c.done("")
	}
	status, later := deploy.Fail, ""
	made := slices.ContainsFunc(p.targets, func(t target) bool { return p.templateOf(t) == 0 })
	cloned := slices.ContainsFunc(p.targets, func(t target) bool { return p.templateOf(t) != 0 })
	if p.version.before(9, 2) && !cloned {
		status, later = deploy.Warn, "; a new VM gets them all the same, but hold and whatever else changes tags is refused"
	}
	if refused := rules.registered(wanted); len(refused) > 0 {
		c.add(
			status, rules.unregister(refused),
			"only a token with Sys.Modify on / may set %s, which the datacenter options register%s", tagNames(refused),
			later,
		)
	}
	switch refused := rules.unlisted(wanted); {
	case len(refused) > 0:
		c.add(
			status, rules.setFree(), "the datacenter options do not let the token set %s (user-allow is %s)%s",
			tagNames(refused), rules.Allow, later,
		)
	case !rules.free() && made && !p.version.before(9, 2):
		c.add(
			deploy.Warn, rules.setFree(),
			"Proxmox VE 9.2 may refuse any tag of a new VM where the datacenter options do not let users set any "+
				"(user-allow is %s)",
			rules.Allow,
		)
	case !rules.free() && p.req.Name == "":
		c.add(
			deploy.Warn, rules.setFree(),
			"a cluster's name is a tag of its VMs, and the datacenter options let the token set only some (user-allow "+
				"is %s)",
			rules.Allow,
		)
	}
	return c.done("nothing forbids %s", strings.Join(wanted, ", "))
}

func tagNames(tags []string) string {
	if len(tags) == 1 {
		return "tag " + tags[0]
	}
	return "tags " + strings.Join(tags, ", ")
}

// orModify is the other way to any tag.
const orModify = "; or give the token Sys.Modify on /, as the role that `hive-test doctor --print-role` prints has it"

// unregister is the command after which these tags are no longer registered.
func (r TagRules) unregister(tags []string) string {
	left := slices.DeleteFunc(slices.Clone(r.Registered), func(tag string) bool { return slices.Contains(tags, tag) })
	if len(left) == 0 {
		return "pvesh set /cluster/options --delete registered-tags" + orModify
	}
	return fmt.Sprintf("pvesh set /cluster/options --registered-tags '%s'%s", strings.Join(left, ";"), orModify)
}

// setFree is the command after which users may set any tag that is not registered; the list stays as it is.
func (r TagRules) setFree() string {
	access := "user-allow=free"
	if len(r.List) > 0 {
		access += ",user-allow-list=" + strings.Join(r.List, ";")
	}
	return fmt.Sprintf("pvesh set /cluster/options --user-tag-access '%s'%s", access, orModify)
}
