// This test uploads node sets and names them in calls.

package provider_test

import (
	"context"
	"errors"
	"io"
	"testing"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

func TestNodeSetsAreNamedByEnsure(t *testing.T) {
	calls := make(chan *provider.Targets, 1)
	s := serve(t, &provider.Provider{LoadBalancers: &cloud{
		ensure: func(_ context.Context, _ *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
			calls <- targets
			return provider.LoadBalancerReady(), nil
		},
	}})
	s.handshake()
	ensure := func() error {
		_, err := v1.NewLoadBalancersServiceClient(s.client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: &v1.Service{Namespace: "n", Name: "s", Uid: "1"},
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{SetId: "s", Revision: "2"}}},
		})
		return err
	}
	if err := ensure(); reasonOf(t, err) != "NODE_SET_UNKNOWN" {
		t.Fatal(err)
	}
	begin := func(base, revision string, count uint32) *v1.SyncNodeSetRequest {
		return &v1.SyncNodeSetRequest{Part: &v1.SyncNodeSetRequest_Begin{Begin: &v1.NodeSetBegin{
			Context: attempt(), SetId: "s", BaseRevision: base, Revision: revision, NodeCount: count,
		}}}
	}
	chunk := func(removal string, upserts ...string) *v1.SyncNodeSetRequest {
		sent := &v1.NodeSetChunk{}
		for _, name := range upserts {
			sent.Upserts = append(sent.Upserts, &v1.Node{Name: name})
		}
		if removal != "" {
			sent.Removals = []string{removal}
		}
		return &v1.SyncNodeSetRequest{Part: &v1.SyncNodeSetRequest_Chunk{Chunk: sent}}
	}
	commit := func(count uint32) *v1.SyncNodeSetRequest {
		return &v1.SyncNodeSetRequest{Part: &v1.SyncNodeSetRequest_Commit{Commit: &v1.NodeSetCommit{ChangeCount: count}}}
	}
	for _, test := range []struct {
		name, reason string
		parts        []*v1.SyncNodeSetRequest
	}{
		{"no begin", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{commit(0)}},
		{"no commit", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("", "1", 1), chunk("", "a")}},
		{"wrong count", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("", "1", 2), chunk("", "a"), commit(1)}},
		{"too many", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("", "1", 1), chunk("", "a", "b"), commit(2)}},
		{"twice", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("", "1", 2), chunk("", "a", "a"), commit(2)}},
		{"no base", "NODE_SET_BASE_MISMATCH", []*v1.SyncNodeSetRequest{begin("0", "1", 1), commit(0)}},
		{"snapshot", "", []*v1.SyncNodeSetRequest{begin("", "1", 2), chunk("", "b"), chunk("", "a"), commit(2)}},
		{"unknown removal", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("1", "2", 2), chunk("x"), commit(1)}},
		{"change lost", "INVALID_REQUEST", []*v1.SyncNodeSetRequest{begin("1", "2", 1), chunk("a"), commit(2)}},
		{"delta", "", []*v1.SyncNodeSetRequest{begin("1", "2", 2), chunk("a", "c"), commit(2)}},
	} {
		stream, err := v1.NewNodeSetsServiceClient(s.client).SyncNodeSet(t.Context())
		for _, part := range test.parts {
			if err == nil {
				err = stream.Send(part)
			}
		}
		if err == nil || errors.Is(err, io.EOF) {
			_, err = stream.CloseAndRecv()
		}
		if reason := reasonOf(t, err); reason != test.reason || (err != nil) != (test.reason != "") {
			t.Errorf("%s: %q: %v", test.name, reason, err)
		}
	}
	if err := ensure(); err != nil {
		t.Fatal(err)
	}
	targets := <-calls
	if nodes := targets.Nodes(); len(nodes) != 2 || nodes[0].Name != "b" || nodes[1].Name != "c" ||
		targets.Revision() != "2" || targets.Get("c") == nil || targets.Get("a") != nil {
		t.Fatal(targets.Nodes())
	}
}
