package pve

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// datacenter is what concerns all hypervisors at once.
type datacenter struct {
	Options     map[string]string            `json:",omitempty"` // datacenter.cfg, as it is written there
	HAResources map[string]map[string]string `json:",omitempty"` // options by resource, such as vm:100
	HAGroups    map[string]map[string]string `json:",omitempty"` // options by group; none in 9
	Unknown     map[string]bool              `json:",omitempty"` // hypervisors that tell nothing of themselves yet
}

// The options that restrict tags.
const (
	registeredTags = "registered-tags"
	userTagAccess  = "user-tag-access"
)

// optionsGet leaves out what only an auditor may see, and tells everyone which tags they may set (PVE::API2::Cluster).
func optionsGet(s *Server, c *call) (any, error) {
	out := map[string]any{}
	if s.can(c.who, "/", false, "Sys.Audit") {
		out["description"], out["mac_prefix"] = "", "BC:24:11" // observed, with nothing set
		if text := s.state.Datacenter.Options["description"]; text != "" {
			out["description"] = text + "\n"
		}
		if text := s.state.Datacenter.Options[registeredTags]; text != "" {
			out[registeredTags] = strings.Split(text, ";")
		}
		if rule := s.tagRule(); rule.text != "" {
			out[userTagAccess] = rule.shown()
		}
	}
	allowed, _ := s.allowedTags(c.who)
	out["allowed-tags"] = append([]string{}, sortedKeys(allowed)...)
	return out, nil
}

// optionsSet keeps what the simulator acts on, and refuses what it does not know how to do.
func optionsSet(s *Server, c *call) (any, error) {
	next := maps.Clone(s.state.Datacenter.Options)
	if next == nil {
		next = map[string]string{}
	}
	for _, k := range sortedKeys(c.params) {
		switch k {
		case registeredTags, userTagAccess, "description":
			next[k] = c.get(k)
		case "delete":
		default:
			return nil, &apiError{status: 501, message: "the simulator does not act on option '" + k + "'"}
		}
	}
	for _, k := range splitList(c.get("delete")) {
		delete(next, k)
	}
	s.state.Datacenter.Options = next
	return nil, nil
}

// tagRule is the option user-tag-access.
type tagRule struct {
	text  string
	allow string // none, list, existing or free
	list  []string
}

func (s *Server) tagRule() tagRule {
	rule := tagRule{text: s.state.Datacenter.Options[userTagAccess], allow: "free"}
	props, _ := parseProps(s.table["/cluster/options"]["PUT"].props[userTagAccess].Keys, rule.text, userTagAccess)
	if props["user-allow"] != "" {
		rule.allow = props["user-allow"]
	}
	if text := props["user-allow-list"]; text != "" {
		rule.list = strings.Split(text, ";")
	}
	return rule
}

func (r tagRule) shown() map[string]any {
	out := map[string]any{}
	if strings.Contains(r.text, "user-allow=") {
		out["user-allow"] = r.allow
	}
	if len(r.list) > 0 {
		out["user-allow-list"] = r.list
	}
	return out
}

// allowedTags are those that someone may set by name, and whether any other may be set, too (PVE::GuestHelpers).
func (s *Server) allowedTags(who identity) (allowed map[string]bool, free bool) {
	rule, admin := s.tagRule(), s.can(who, "/", false, "Sys.Modify")
	allowed = map[string]bool{}
	if admin || rule.allow != "none" {
		for _, tag := range rule.list {
			allowed[tag] = true
		}
	}
	if admin || rule.allow == "existing" || rule.allow == "free" {
		for _, v := range s.state.VMs {
			if admin || s.can(who, "/vms/"+strconv.Itoa(v.ID), false, "VM.Audit") {
				for _, tag := range splitList(v.Config["tags"]) {
					allowed[tag] = true
				}
			}
		}
	}
	for _, tag := range splitList(s.state.Datacenter.Options[registeredTags]) {
		if admin {
			allowed[tag] = true
		} else {
			delete(allowed, tag)
		}
	}
	return allowed, admin || rule.allow == "free"
}

// checkTags refuses a change of tags that are not the caller's to set or to take away. Each counts as often as it is
// given, as in Proxmox VE.
func (s *Server) checkTags(who identity, vmid int, old, next []string) error {
	if err := s.need(who, "/vms/"+strconv.Itoa(vmid), "VM.Config.Options"); err != nil {
		return err
	}
	if s.can(who, "/", false, "Sys.Modify") {
		return nil
	}
	difference := map[string]int{}
	for _, tag := range next {
		difference[tag]++
	}
	for _, tag := range old {
		difference[tag]--
	}
	allowed, free := s.allowedTags(who)
	registered := splitList(s.state.Datacenter.Options[registeredTags])
	for _, tag := range sortedKeys(difference) {
		if difference[tag] != 0 && (!free && !allowed[tag] || slices.Contains(registered, tag)) {
			return &apiError{
				status: 403, message: "Permission check failed (/, Sys.Modify for modifying tag '" + tag + "')",
			}
		}
	}
	return nil
}

// noTags is how the list of the tags that a new VM had before is written: an empty one of another kind, which reads as
// one tag. So where tags are not free, none can be given to a new VM, whatever may be set (qemu-server 9.2.6, read in
// its source).
func noTags() []string { return []string{"HASH(0x55a547ef54b8)"} }

// newTags are the tags of a new VM: since 9.2 checked and put in order, before kept as they were sent (observed).
func (s *Server) newTags(who identity, vmid int, config vmConfig) error {
	text, given := config["tags"]
	if !given || s.version == Version84 {
		return nil
	}
	if err := s.checkTags(who, vmid, noTags(), splitList(text)); err != nil {
		return err
	}
	config["tags"] = normalTags(text)
	return nil
}
