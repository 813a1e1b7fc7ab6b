package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Tag marks every VM that hive-test makes; the cluster's name is another tag of it.
const Tag = "hive-test"

// HoldTag marks the VMs of a cluster that reap never deletes.
const HoldTag = "hive-test-hold"

// ProtectTag marks the VMs of a cluster that only who names it may destroy.
const ProtectTag = "hive-test-protected"

const expiryLayout = "2006-01-02T15:04:05Z"

var descriptionPattern = regexp.MustCompile(`(?m)^Managed by Terraform - cluster: (\S+) - owner: (\S+?)(?: - expires: (\S+))?\s*$`)

// ownerPattern is what owner ids are made of.
var ownerPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Description is the text that every VM of a cluster carries: whose it is, readable by a person and by ParseOwner. It
// is one line, because line ends may be rewritten.
func Description(name Name, owner Owner) string {
	text := "Managed by Terraform - cluster: " + string(name) + " - owner: " + owner.ID
	if !owner.Expires.IsZero() {
		text += " - expires: " + owner.Expires.UTC().Truncate(time.Second).Format(expiryLayout)
	}
	return text
}

// ParseOwner reads cluster name and owner id from a VM's description, whatever else people have added to it. ok is
// false if it names none, or more than one.
func ParseOwner(description string) (name Name, ownerID string, ok bool) {
	name, owner, ok := ParseDescription(description)
	return name, owner.ID, ok
}

// ParseDescription is ParseOwner with the expiry, which is zero where there is none or where what is said of it is no
// time.
func ParseDescription(description string) (name Name, owner Owner, ok bool) {
	found := descriptionPattern.FindAllStringSubmatch(description, 2)
	if len(found) != 1 {
		return "", Owner{}, false
	}
	name, err := ParseName(found[0][1])
	// anybody may write there, and what is read is shown as part of commands
	if err != nil || !ownerPattern.MatchString(found[0][2]) {
		return "", Owner{}, false
	}
	expires, _ := time.Parse(time.RFC3339, found[0][3])
	return name, Owner{ID: found[0][2], Expires: expires}, true
}

// Redescribe is a VM's description with the line that says whose it is replaced by that of owner; what people have
// added stays. A description without such a line, or with more than one, is returned as it is.
func Redescribe(description string, name Name, owner Owner) string {
	if _, _, ok := ParseOwner(description); !ok {
		return description
	}
	return descriptionPattern.ReplaceAllLiteralString(description, Description(name, owner))
}

var snapshotPattern = regexp.MustCompile(`(?m)^Snapshot of hive-test - cluster: (\S+) - owner: (\S+)\s*$`)

// SnapshotDescription is the text that every snapshot of a cluster's VMs carries: whose it is.
func SnapshotDescription(name Name, ownerID string) string {
	return "Snapshot of hive-test - cluster: " + string(name) + " - owner: " + ownerID
}

// OwnsSnapshot reports whether a snapshot's description says that it is of the cluster with that owner.
func OwnsSnapshot(description string, name Name, ownerID string) bool {
	found := snapshotPattern.FindAllStringSubmatch(description, 2)
	return len(found) == 1 && ownerID != "" && found[0][1] == string(name) && found[0][2] == ownerID
}

// snapshotTag is what Proxmox VE takes for the name of a snapshot (observed on 8.4).
var snapshotTag = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{1,39}$`)

// CheckSnapshotTag is an error unless the tag can be the name of a snapshot.
func CheckSnapshotTag(tag string) error {
	if !snapshotTag.MatchString(tag) {
		return fmt.Errorf(
			"tag %q is not valid: it has 2 to 40 letters, digits, _ and -, and begins with a letter", tag,
		)
	}
	if lower := strings.ToLower(tag); lower == "current" || lower == "pending" {
		return fmt.Errorf("tag %q is not valid: Proxmox VE means something else by it", tag)
	}
	return nil
}

// Tags are the tags of a cluster's VMs, sorted.
func Tags(name Name) []string { return Owner{}.Tags(name) }

// Tags are those of the VMs of a cluster of this owner, sorted.
func (o Owner) Tags(name Name) []string {
	tags := []string{"hive", Tag, "terraform", string(name)}
	if o.Held {
		tags = append(tags, HoldTag)
	}
	if o.Protected {
		tags = append(tags, ProtectTag)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}
