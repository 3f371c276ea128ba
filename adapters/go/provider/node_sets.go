// This file keeps the node sets that the controller uploads, and serves NodeSetsService.

package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// keptRevisions of the set: calls under way still name the one before the latest.
const keptRevisions = 2

// nodeSets holds one node set. The revision that was synced last comes last.
type nodeSets struct {
	mu        sync.Mutex
	id        string
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
func (s *nodeSets) resolve(targets *v1.NodeTargets) (*Targets, error) {
	if targets == nil {
		return nil, nil
	}
	switch named := targets.Targets.(type) {
	case *v1.NodeTargets_Inline:
		return NewTargets(named.Inline.GetNodes()...), nil
	case *v1.NodeTargets_Ref:
		set, revision := named.Ref.GetSetId(), named.Ref.GetRevision()
		if held := s.held(set, revision); held != nil {
			return held, nil
		}
		return nil, Errorf(v1.ErrorReason_ERROR_REASON_NODE_SET_UNKNOWN,
			"revision %q of node set %q is not known here; sync a snapshot and call again", revision, set)
	default:
		return nil, Errorf(InvalidRequest,
			"the request has no targets; name a node set or send nodes inline, empty ones for no targets")
	}
}

func (s *nodeSets) held(set, revision string) *Targets {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set == s.id {
		for _, held := range s.revisions {
			if held.revision == revision {
				return held
			}
		}
	}
	return nil
}

// commit makes this the latest revision of the set, in the place of an equal one.
func (s *nodeSets) commit(set string, targets *Targets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set != s.id {
		s.id, s.revisions = set, nil
	}
	s.revisions = slices.DeleteFunc(s.revisions, func(held *Targets) bool { return held.revision == targets.revision })
	s.revisions = append(s.revisions, targets)
	s.revisions = s.revisions[max(len(s.revisions)-keptRevisions, 0):]
}

// nodeSetsRPC applies uploads as a whole or not at all.
type nodeSetsRPC struct {
	v1.UnimplementedNodeSetsServiceServer
	core     *core
	nodeSets *nodeSets
}

type uploadStream = grpc.ClientStreamingServer[v1.SyncNodeSetRequest, v1.SyncNodeSetResponse]

// firstPart of an upload has the context of the call.
type firstPart struct{ *v1.SyncNodeSetRequest }

func (p firstPart) GetContext() *v1.CallContext { return p.GetBegin().GetContext() }

func (s *nodeSetsRPC) SyncNodeSet(in uploadStream) error {
	first, err := received(in)
	if err != nil {
		return err
	}
	begin := first.GetBegin()
	if begin == nil {
		return Errorf(InvalidRequest, "the upload does not start with begin")
	}
	response, err := run(s.core, in.Context(), firstPart{first}, func(context.Context) (*v1.SyncNodeSetResponse, error) {
		up, err := s.nodeSets.begin(begin)
		for err == nil {
			var part *v1.SyncNodeSetRequest
			if part, err = received(in); err != nil {
				break
			}
			switch part := part.Part.(type) {
			case *v1.SyncNodeSetRequest_Chunk:
				err = up.chunk(part.Chunk)
			case *v1.SyncNodeSetRequest_Commit:
				return up.commit(part.Commit)
			default:
				err = Errorf(InvalidRequest, "the upload has a message that is neither chunk nor commit")
			}
		}
		return nil, err
	})
	if err != nil {
		return err
	}
	return in.SendAndClose(response)
}

// received is the next message. The end of the stream is an error: a cancelled upload looks like one too.
func received(in uploadStream) (*v1.SyncNodeSetRequest, error) {
	message, err := in.Recv()
	var named *Error
	switch {
	case err == nil:
		return message, nil
	case errors.Is(err, io.EOF):
		return nil, Errorf(InvalidRequest, "the upload ended without commit; nothing was applied")
	case in.Context().Err() != nil:
		return nil, in.Context().Err()
	case errors.As(err, &named):
		return nil, named
	default:
		return nil, fmt.Errorf("the upload broke: %w", err)
	}
}

// upload is one sync of a node set. Nothing is applied before its commit.
type upload struct {
	*v1.NodeSetBegin
	sets *nodeSets
	base *Targets
	// changes by name; nil: the node left.
	changes map[string]*v1.Node
}

func (s *nodeSets) begin(begin *v1.NodeSetBegin) (*upload, error) {
	up := &upload{NodeSetBegin: begin, sets: s, base: &Targets{}, changes: map[string]*v1.Node{}}
	if begin.BaseRevision == "" {
		return up, nil
	}
	if up.base = s.held(begin.SetId, begin.BaseRevision); up.base == nil {
		return nil, Errorf(v1.ErrorReason_ERROR_REASON_NODE_SET_BASE_MISMATCH,
			"revision %q of node set %q, which the upload changes, is not known here; sync a snapshot",
			begin.BaseRevision, begin.SetId)
	}
	return up, nil
}

func (u *upload) chunk(chunk *v1.NodeSetChunk) error {
	for _, node := range chunk.GetUpserts() {
		if err := u.change(node.GetName(), node); err != nil {
			return err
		}
	}
	for _, name := range chunk.GetRemovals() {
		if u.base.Get(name) == nil {
			return Errorf(InvalidRequest, "the upload removes node %q, which its base does not have", name)
		}
		if err := u.change(name, nil); err != nil {
			return err
		}
	}
	return nil
}

func (u *upload) change(name string, node *v1.Node) error {
	if _, twice := u.changes[name]; twice {
		return Errorf(InvalidRequest, "the upload has node %q twice", name)
	}
	u.changes[name] = node
	return nil
}

// commit applies the whole upload, or nothing of it.
func (u *upload) commit(commit *v1.NodeSetCommit) (*v1.SyncNodeSetResponse, error) {
	var nodes []*v1.Node
	for _, node := range u.base.nodes {
		if _, changed := u.changes[node.Name]; !changed {
			nodes = append(nodes, node)
		}
	}
	for _, node := range u.changes {
		if node != nil {
			nodes = append(nodes, node)
		}
	}
	if int(commit.ChangeCount) != len(u.changes) || int(u.NodeCount) != len(nodes) {
		return nil, Errorf(InvalidRequest, "commit.change_count is %d and begin.node_count %d, but the upload makes them "+
			"%d and %d; nothing was applied", commit.ChangeCount, u.NodeCount, len(u.changes), len(nodes))
	}
	slices.SortFunc(nodes, byName)
	u.sets.commit(u.SetId, &Targets{revision: u.Revision, nodes: nodes})
	return &v1.SyncNodeSetResponse{Revision: u.Revision}, nil
}
