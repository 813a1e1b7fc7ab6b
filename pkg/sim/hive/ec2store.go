package simhive

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
)

// Kinds of resources, as their records are called.
const (
	vpcs          = "vpc"
	subnets       = "subnet"
	gateways      = "internet-gateway"
	egressOnly    = "egress-only-internet-gateway"
	interfaces    = "network-interface"
	instances     = "instance"
	volumes       = "volume"
	snapshots     = "snapshot"
	keyPairs      = "key-pair"
	tagsOf        = "tags"
	accounts      = "account"
	groups        = "security-group"
	routeTables   = "route-table"
	addresses     = "address"
	placements    = "placement-group"
	modifications = "volume-modification"
)

// listed is a call for all records below a prefix.
type listed struct {
	Prefix string `json:"prefix"`
}

func (c *ec2Call) key(kind, id string) string { return "ec2." + c.account + "." + kind + "." + id }

// failed makes what goes wrong with the records the answer.
func (c *ec2Call) failed(err error) {
	if err != nil {
		c.g.program.logf("ERROR %s: %v", c.action, err)
		c.refuse("ServerInternal")
	}
}

// get is a resource; nil where there is none.
func (c *ec2Call) get(kind, id string) item {
	var kept item
	err := c.g.bus.call(c.ctx, "get", keyed{Key: c.key(kind, id)}, &kept)
	if err != nil && err.Error() == errKeyNotFound.Error() {
		return nil
	}
	c.failed(err)
	return kept
}

func (c *ec2Call) put(kind, id string, i item) {
	value, err := json.Marshal(i)
	if err == nil {
		err = c.g.bus.call(c.ctx, "put", keyed{Key: c.key(kind, id), Value: value}, nil)
	}
	c.failed(err)
}

// drop deletes a resource: a record that is null is what a get does not find.
func (c *ec2Call) drop(kind, id string) {
	c.failed(c.g.bus.call(c.ctx, "put", keyed{Key: c.key(kind, id), Value: json.RawMessage("null")}, nil))
}

// all are the resources of a kind, sorted by their keys.
func (c *ec2Call) all(kind string) []item {
	found := map[string]item{}
	c.failed(c.g.bus.call(c.ctx, "list", listed{Prefix: c.key(kind, "")}, &found))
	items := make([]item, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		items = append(items, found[key])
	}
	return items
}

// newID is an id as hive makes them: 17 hexadecimal digits (utils/utils.go:29).
func newID(prefix string) string {
	raw := make([]byte, 9)
	rand.Read(raw) // never fails
	return prefix + "-" + hex.EncodeToString(raw)[:17]
}

// fixedID is the id of what each cluster has one of: gateways that make it at the same time make the same.
func fixedID(prefix, of string) string {
	sum := sha256.Sum256([]byte(prefix + of))
	return prefix + "-" + hex.EncodeToString(sum[:])[:17]
}
