// Package cluster holds the plain values everything else talks about: a cluster's name, its specification, its nodes
// and its inventory. It does no I/O and imports only the standard library.
package cluster

import (
	"fmt"
	"regexp"
	"strconv"
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
		return "", fmt.Errorf("cluster name %q has %d characters: at most %d are allowed, so that its last node is a valid host name", s, len(s), MaxNameLength)
	case !namePattern.MatchString(s):
		return "", fmt.Errorf("cluster name %q is not valid: use lower-case letters, digits and hyphens, with a letter or digit at both ends, like ci-123", s)
	}
	return Name(s), nil
}

// String returns the name as text.
func (n Name) String() string { return string(n) }

// Node returns the host name of node index (1-based).
func (n Name) Node(index int) string { return string(n) + "-" + strconv.Itoa(index) }
