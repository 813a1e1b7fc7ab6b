package cluster

import (
	"regexp"
	"slices"
	"time"
)

// Tag marks every VM that hive-test makes; the cluster's name is another tag of it.
const Tag = "hive-test"

const expiryLayout = "2006-01-02T15:04:05Z"

var descriptionPattern = regexp.MustCompile(`(?m)^Managed by Terraform - cluster: (\S+) - owner: (\S+?)(?: - expires: \S+)?\s*$`)

// Description is the text that every VM of a cluster carries: whose it is, readable by a person and by ParseOwner. It is
// one line, because Proxmox VE rewrites line ends.
func Description(name Name, owner Owner) string {
	text := "Managed by Terraform - cluster: " + string(name) + " - owner: " + owner.ID
	if !owner.Expires.IsZero() {
		text += " - expires: " + owner.Expires.UTC().Truncate(time.Second).Format(expiryLayout)
	}
	return text
}

// ParseOwner reads cluster name and owner id from a VM's description, whatever else people have added to it. ok is false
// if it names none, or more than one.
func ParseOwner(description string) (name Name, ownerID string, ok bool) {
	found := descriptionPattern.FindAllStringSubmatch(description, 2)
	if len(found) != 1 {
		return "", "", false
	}
	return Name(found[0][1]), found[0][2], true
}

// Tags are the tags of a cluster's VMs, sorted as Proxmox VE keeps them.
func Tags(name Name) []string {
	tags := []string{"hive", Tag, "terraform", string(name)}
	slices.Sort(tags)
	return slices.Compact(tags)
}
