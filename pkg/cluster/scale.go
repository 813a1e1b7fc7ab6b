package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Staying are the nodes that the specification asks for and that are chosen already: those with a number up to its
// count.
func (r *Record) Staying() Nodes {
	return r.part(func(n Node) bool { return n.Index <= r.Spec.NodeCount })
}

// Leaving are the nodes beyond the count of the specification: they were made once and are to be removed. The record
// names them until they are proved gone.
func (r *Record) Leaving() Nodes {
	return r.part(func(n Node) bool { return n.Index > r.Spec.NodeCount })
}

func (r *Record) part(belongs func(Node) bool) Nodes {
	var nodes Nodes
	for _, n := range r.Nodes {
		if belongs(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Names are the names of the nodes, in their order.
func (n Nodes) Names() []string {
	names := make([]string, len(n))
	for i, node := range n {
		names[i] = node.Name
	}
	return names
}

// Clone is a copy that shares nothing with r.
func (r *Record) Clone() *Record {
	copied := *r
	copied.Nodes = slices.Clone(r.Nodes)
	copied.Phases = maps.Clone(r.Phases)
	return &copied
}

// Named returns the node that word names: by its name, by its number, or as "node" with its number.
func (n Nodes) Named(word string) (Node, bool) {
	for _, node := range n {
		if node.Name == word {
			return node, true
		}
	}
	index, err := strconv.Atoi(strings.TrimPrefix(word, "node"))
	if err != nil {
		return Node{}, false
	}
	return n.ByIndex(index)
}
