// Package cluster holds the plain values everything else talks about: a cluster's name, its specification, its nodes
// and its inventory. It does no I/O and imports only the standard library.
package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// MaxNameLength keeps NAME-10 a valid host name label and a valid Proxmox tag.
const MaxNameLength = 40

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// Name is the name of a cluster: lower-case letters, digits and inner hyphens, 1 to 40 characters.
type Name string

// ParseName returns s as a Name, or an error that says which rule it breaks.
func ParseName(s string) (Name, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("the cluster name is empty: use lower-case letters, digits and hyphens, like ci-123")
	case len(s) > MaxNameLength:
		return "", fmt.Errorf(
			"cluster name %q has %d characters: at most %d are allowed, so that its last node is a valid host name",
			s, len(s), MaxNameLength,
		)
	case !namePattern.MatchString(s):
		return "", fmt.Errorf(
			"cluster name %q is not valid: use lower-case letters, digits and hyphens, with a letter or digit at "+
				"both ends, like ci-123",
			s,
		)
	}
	return Name(s), nil
}

// String returns the name as text.
func (n Name) String() string { return string(n) }

// Node returns the host name of node index (1-based).
func (n Name) Node(index int) string { return string(n) + "-" + strconv.Itoa(index) }

// maxHostName is the longest host name that DNS knows, and shorter than any file system's longest file name.
const maxHostName = 253

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// HostName is the name of a node or of a hypervisor, wherever it comes from: a hosts file, a record, Proxmox VE. It is
// put into paths, ssh_config, inventories and commands as it is, so it holds letters, digits and inner hyphens, dots
// and underscores only, and no two dots in a row.
type HostName string

// ParseHostName returns s as a HostName, or an error that says which rule it breaks.
func ParseHostName(s string) (HostName, error) {
	switch {
	case s == "":
		return "", errors.New("the name is empty")
	case len(s) > maxHostName:
		return "", fmt.Errorf("name %.20q... has %d characters: at most %d are allowed", s, len(s), maxHostName)
	case !hostPattern.MatchString(s) || strings.Contains(s, ".."):
		return "", fmt.Errorf(
			"name %q is not valid: use letters, digits and inner hyphens, dots and underscores, like node-1", s,
		)
	}
	return HostName(s), nil
}

// userPattern leaves out what separates a user from the rest of an address, and what ssh_config, inventories and shells
// read.
var userPattern = regexp.MustCompile(`^[\pL\pN_.][\pL\pN_.+\\$-]*$`)

// CheckUser says what is wrong with the name of a user to log in as; nil: nothing. An empty one leaves the choice open.
func CheckUser(user string) error {
	if user == "" || userPattern.MatchString(user) {
		return nil
	}
	return fmt.Errorf("%q is no user name", user)
}

// checkAddress refuses an address whose zone is no name of an interface: a zone may hold anything, line breaks too.
func checkAddress(a netip.Addr) error {
	if a.Zone() == "" || hostPattern.MatchString(a.Zone()) {
		return nil
	}
	return fmt.Errorf("address %q has a zone that is no name of an interface", a)
}
