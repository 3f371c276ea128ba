// These tests hold that the Nodes of a revision are built once.

package serve

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// sendTargets sends a set of Nodes.
func sendTargets(t *testing.T, connection *grpc.ClientConn, revision string, names ...string) {
	t.Helper()
	var nodes []*v1.Node
	for _, name := range names {
		nodes = append(nodes, &v1.Node{Name: name, PodCidrs: []string{"10.0.0.0/24"}, Ready: "True"})
	}
	stream, err := v1.NewNodeSetsServiceClient(connection).SyncNodeSet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&v1.SyncNodeSetRequest{
		Context: attempt(), Nodes: nodes, Complete: true, Revision: revision, NodeCount: uint32(len(nodes)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
}

func TestNodesAreBuiltOncePerRevision(t *testing.T) {
	var calls [][]*corev1.Node
	connection, _ := serving(t, Options{}, &cloud{balancers: &balancers{
		ensure: func(_ context.Context, _ *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			calls = append(calls, nodes)
			return &corev1.LoadBalancerStatus{}, nil
		},
	}})
	sendTargets(t, connection, "1", "a")
	for range 2 {
		_, err := v1.NewLoadBalancersServiceClient(connection).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service(),
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{Revision: "1"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(calls) != 2 || calls[0][0] != calls[1][0] || calls[0][0].Spec.PodCIDR != "10.0.0.0/24" ||
		calls[0][0].Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Fatal(calls)
	}
}

// Upstream makes a slice for each call, so clouds leave Nodes out of it in place.
func TestACloudThatFiltersItsNodesInPlaceChangesThemForNoOtherService(t *testing.T) {
	var last []string
	connection, _ := serving(t, Options{}, &cloud{balancers: &balancers{
		ensure: func(_ context.Context, _ *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			last = nil
			for _, node := range nodes {
				last = append(last, node.Name)
			}
			_ = append(nodes[:0], nodes[1:]...)
			return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}, nil
		},
	}})
	sendTargets(t, connection, "1", "a", "b", "c")
	for range 3 {
		_, err := v1.NewLoadBalancersServiceClient(connection).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service(),
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{Revision: "1"}}},
		})
		if err != nil || !slices.Equal(last, []string{"a", "b", "c"}) {
			t.Fatal(last, err)
		}
	}
}
