package provider

import (
	"slices"
	"sync"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

const (
	// keptRevisions of a set: calls under way still name the one before the latest.
	keptRevisions = 2
	// keptSets bounds the memory; controllers use one.
	keptSets = 16
)

// nodeSets holds the node sets of one server. The set, and the revision of a set, that was synced last
// comes last.
type nodeSets struct {
	mu   sync.Mutex
	sets []nodeSet
}

type nodeSet struct {
	id        string
	revisions []*Targets
}

// resolve finds the nodes that a call names or brings along.
func (s *nodeSets) resolve(targets *v1.NodeTargets) (*Targets, error) {
	switch named := targets.GetTargets().(type) {
	case *v1.NodeTargets_Inline:
		return inlineTargets(named.Inline.GetNodes())
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
	for _, known := range s.sets {
		if known.id != set {
			continue
		}
		for _, held := range known.revisions {
			if held.revision == revision {
				return held
			}
		}
	}
	return nil
}

// commit makes this the latest revision of a set, in the place of an equal one.
func (s *nodeSets) commit(set string, targets *Targets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := nodeSet{id: set}
	if index := slices.IndexFunc(s.sets, func(known nodeSet) bool { return known.id == set }); index >= 0 {
		latest = s.sets[index]
		s.sets = slices.Delete(s.sets, index, index+1)
	}
	latest.revisions = slices.DeleteFunc(latest.revisions, func(held *Targets) bool {
		return held.revision == targets.revision
	})
	latest.revisions = append(latest.revisions, targets)
	if excess := len(latest.revisions) - keptRevisions; excess > 0 {
		latest.revisions = slices.Delete(latest.revisions, 0, excess)
	}
	s.sets = append(s.sets, latest)
	if excess := len(s.sets) - keptSets; excess > 0 {
		s.sets = slices.Delete(s.sets, 0, excess)
	}
}

// upload is one sync of a node set. Nothing is applied before its commit.
type upload struct {
	sets     *nodeSets
	set      string
	revision string
	count    int
	base     *Targets
	// result: the base is gone, but what the upload would make of it is held.
	result bool
	// changes by name; nil: the node left.
	changes map[string]*v1.Node
	upserts int
}

func beginUpload(sets *nodeSets, begin *v1.NodeSetBegin) (*upload, error) {
	for _, field := range []struct {
		name, text string
		least      int
	}{{"set_id", begin.SetId, 1}, {"revision", begin.Revision, 1}, {"base_revision", begin.BaseRevision, 0}} {
		if len(field.text) < field.least || len(field.text) > 64 {
			return nil, Errorf(InvalidRequest, "begin.%s has %d bytes; send %d to 64",
				field.name, len(field.text), field.least)
		}
	}
	up := &upload{
		sets: sets, set: begin.SetId, revision: begin.Revision, count: int(begin.NodeCount),
		changes: map[string]*v1.Node{},
	}
	if begin.BaseRevision == "" {
		return up, nil
	}
	if up.base = sets.held(begin.SetId, begin.BaseRevision); up.base != nil {
		return up, nil
	}
	if up.base = sets.held(begin.SetId, begin.Revision); up.base != nil {
		up.result = true
		return up, nil
	}
	return nil, Errorf(v1.ErrorReason_ERROR_REASON_NODE_SET_BASE_MISMATCH,
		"revision %q of node set %q, which the upload changes, is not known here; sync a snapshot",
		begin.BaseRevision, begin.SetId)
}

func (u *upload) chunk(chunk *v1.NodeSetChunk) error {
	for _, node := range chunk.Upserts {
		// A sender that never ends must not fill the memory.
		if u.upserts++; u.upserts > u.count {
			return Errorf(InvalidRequest, "the chunks have more nodes than begin.node_count, %d", u.count)
		}
		if err := u.change(node.GetName(), node); err != nil {
			return err
		}
	}
	for _, name := range chunk.Removals {
		if !u.result && (u.base == nil || u.base.Get(name) == nil) {
			return Errorf(InvalidRequest, "the upload removes node %q, which its base does not have", name)
		}
		if err := u.change(name, nil); err != nil {
			return err
		}
	}
	return nil
}

func (u *upload) change(name string, node *v1.Node) error {
	wrong := wrongName(name)
	if _, twice := u.changes[name]; wrong == "" && twice {
		wrong = cameBefore(name)
	}
	if wrong != "" {
		return Errorf(InvalidRequest, "a node of the upload %s", wrong)
	}
	u.changes[name] = node
	return nil
}

// commit applies the whole upload, or nothing of it.
func (u *upload) commit(commit *v1.NodeSetCommit) (*v1.SyncNodeSetResponse, error) {
	unequal := func(field string, named, found int) error {
		return Errorf(InvalidRequest, "%s is %d, but the upload makes it %d; nothing was applied",
			field, named, found)
	}
	if named := int(commit.ChangeCount); named != len(u.changes) {
		return nil, unequal("commit.change_count", named, len(u.changes))
	}
	targets := u.base
	if !u.result {
		targets = u.changed()
	}
	if len(targets.nodes) != u.count {
		return nil, unequal("begin.node_count", u.count, len(targets.nodes))
	}
	u.sets.commit(u.set, targets)
	return &v1.SyncNodeSetResponse{Revision: u.revision}, nil
}

func (u *upload) changed() *Targets {
	targets := &Targets{revision: u.revision, nodes: make([]*v1.Node, 0, u.count)}
	if u.base != nil {
		for _, node := range u.base.nodes {
			if _, changed := u.changes[node.Name]; !changed {
				targets.nodes = append(targets.nodes, node)
			}
		}
	}
	for _, node := range u.changes {
		if node != nil {
			targets.nodes = append(targets.nodes, node)
		}
	}
	slices.SortFunc(targets.nodes, byName)
	return targets
}
