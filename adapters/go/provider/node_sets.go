// This file keeps the node set that the controller uploads, serves NodeSetsService, and has the targets that are made of it.

package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// keptRevisions of the set: calls under way still name the one before the latest.
const keptRevisions = 2

// nodeSet holds the node set. The revision that was synced last comes last.
type nodeSet struct {
	mu        sync.Mutex
	revisions []*Targets
}

// required makes resolve refuse a call without targets.
func required(targets *v1.NodeTargets) *v1.NodeTargets {
	if targets == nil {
		return &v1.NodeTargets{}
	}
	return targets
}

// resolve returns the nodes that a call names or brings along; nil: the call is not about nodes.
func (s *nodeSet) resolve(targets *v1.NodeTargets) (*Targets, error) {
	if targets == nil {
		return nil, nil
	}
	switch named := targets.Targets.(type) {
	case *v1.NodeTargets_Inline:
		return NewTargets(named.Inline.GetNodes()...), nil
	case *v1.NodeTargets_Ref:
		return s.named(named.Ref)
	default:
		return nil, Errorf(InvalidRequest,
			"the request has no targets; name a node set or send nodes inline, empty ones for no targets")
	}
}

func (s *nodeSet) named(ref *v1.NodeSetRef) (*Targets, error) {
	unknown := func(what string) (*Targets, error) {
		return nil, Errorf(v1.ErrorReason_ERROR_REASON_NODE_SET_UNKNOWN, "%s is not held here; sync the node set and call again", what)
	}
	held := s.held(ref.GetRevision())
	switch {
	case held == nil:
		return unknown(fmt.Sprintf("revision %q", ref.GetRevision()))
	case ref.GetOnly() == nil:
		return held, nil
	}
	var nodes []*v1.Node
	for _, name := range ref.Only.Names {
		node := held.Get(name)
		if node == nil {
			return unknown(fmt.Sprintf("node %q of revision %q", name, held.revision))
		}
		nodes = append(nodes, node)
	}
	return NewTargets(nodes...), nil
}

func (s *nodeSet) held(revision string) *Targets {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, held := range s.revisions {
		if held.revision == revision {
			return held
		}
	}
	return nil
}

// hold makes this the latest revision, in the place of an equal one.
func (s *nodeSet) hold(targets *Targets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revisions = slices.DeleteFunc(s.revisions, func(held *Targets) bool { return held.revision == targets.revision })
	s.revisions = append(s.revisions, targets)
	s.revisions = s.revisions[max(len(s.revisions)-keptRevisions, 0):]
}

// nodeSetsRPC applies uploads as a whole or not at all.
type nodeSetsRPC struct {
	v1.UnimplementedNodeSetsServiceServer
	core    *core
	nodeSet *nodeSet
}

type uploadStream = grpc.ClientStreamingServer[v1.SyncNodeSetRequest, v1.SyncNodeSetResponse]

func (s *nodeSetsRPC) SyncNodeSet(in uploadStream) error {
	first, err := received(in)
	if err != nil {
		return err
	}
	response, err := run(s.core, in.Context(), first, func(context.Context) (*v1.SyncNodeSetResponse, error) {
		nodes := map[string]*v1.Node{}
		for message := first; ; {
			for _, node := range message.Nodes {
				if nodes[node.GetName()] != nil {
					return nil, Errorf(InvalidRequest, "the upload has node %q twice", node.GetName())
				}
				nodes[node.GetName()] = node
			}
			if message.Complete {
				return s.nodeSet.apply(nodes, message)
			}
			var err error
			if message, err = received(in); err != nil {
				return nil, err
			}
		}
	})
	if err != nil {
		return err
	}
	return in.SendAndClose(response)
}

// apply holds the nodes of an upload whose last message is this one.
func (s *nodeSet) apply(nodes map[string]*v1.Node, last *v1.SyncNodeSetRequest) (*v1.SyncNodeSetResponse, error) {
	if last.Revision == "" || int(last.NodeCount) != len(nodes) {
		return nil, Errorf(InvalidRequest, "the upload of revision %q has %d nodes and node_count %d; nothing was applied",
			last.Revision, len(nodes), last.NodeCount)
	}
	s.hold(&Targets{revision: last.Revision, nodes: slices.SortedFunc(maps.Values(nodes), byName)})
	return &v1.SyncNodeSetResponse{Revision: last.Revision}, nil
}

// received is the next message. The end of the stream is an error: a cancelled upload looks like one too.
func received(in uploadStream) (*v1.SyncNodeSetRequest, error) {
	message, err := in.Recv()
	switch {
	case err == nil:
		return message, nil
	case errors.Is(err, io.EOF):
		return nil, Errorf(InvalidRequest, "the upload ended without complete; nothing was applied")
	case in.Context().Err() != nil:
		return nil, in.Context().Err()
	default:
		return nil, fmt.Errorf("the upload broke: %w", err)
	}
}

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
