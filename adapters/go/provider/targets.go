// This file has the backend nodes of a load balancer.

package provider

import (
	"slices"
	"strings"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Targets are the backend nodes of a load balancer, ordered by name, each name once.
//
// They are shared by all calls that name the same revision: nothing may change them. Labels,
// annotations, taints, ready and unschedulable may be some 10 s older than the call; a change of one of them
// leads to no call, so choose no target by them.
type Targets struct {
	revision string
	nodes    []*v1.Node
}

// NewTargets makes targets outside of any server, for tests. If two nodes have one name, the first counts.
func NewTargets(nodes ...*v1.Node) *Targets {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, byName)
	return &Targets{nodes: slices.CompactFunc(nodes, func(a, b *v1.Node) bool { return a.Name == b.Name })}
}

// Nodes are the targets by name. They and the slice are not to be changed.
func (t *Targets) Nodes() []*v1.Node { return t.nodes }

// Get is the node of this name; nil: there is none.
func (t *Targets) Get(name string) *v1.Node {
	index, ok := slices.BinarySearchFunc(t.nodes, name, func(node *v1.Node, name string) int {
		return strings.Compare(node.Name, name)
	})
	if !ok {
		return nil
	}
	return t.nodes[index]
}

// Revision names the content, for logs and as a key of a vendor's cache: the nodes of equal revisions
// have equal names, provider ids, addresses and Pod CIDRs. Empty where the nodes came with the call, or are a part of
// the node set.
func (t *Targets) Revision() string { return t.revision }

func byName(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) }
