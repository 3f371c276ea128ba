// These tests hold the server against sdk/vectors, which the SDKs of all languages share.

package provider_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// step of a vector; the fields that it has say what is done.
type step struct {
	Upload    []json.RawMessage
	Revision  string
	Targets   json.RawMessage
	Nodes     []json.RawMessage
	Handshake json.RawMessage
	Minor     uint32
	Call      json.RawMessage
	Cluster   provider.Cluster
	Drain     bool
	Reason    string
}

type vector struct {
	Case  string
	Steps []step
}

func read[T any](t *testing.T, name string) (vectors []T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../sdk/vectors", name))
	if err == nil {
		err = json.Unmarshal(text, &vectors)
	}
	if err != nil || len(vectors) == 0 {
		t.Fatal(name, err)
	}
	return vectors
}

func parsed[M proto.Message](t *testing.T, text json.RawMessage, message M) M {
	t.Helper()
	if err := protojson.Unmarshal(text, message); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return message
}

func (s step) check(t *testing.T, err error) {
	t.Helper()
	if reason := reasonOf(t, err); reason != s.Reason || (err == nil) != (s.Reason == "") {
		t.Errorf("%q instead of %q: %v", reason, s.Reason, err)
	}
}

func TestVectorsOfNodeSets(t *testing.T) {
	for _, vector := range read[vector](t, "node_sets.json") {
		t.Run(vector.Case, func(t *testing.T) {
			var targets *provider.Targets
			s := serve(t, &provider.Provider{LoadBalancers: &cloud{
				ensure: func(_ context.Context, _ *v1.Service, named *provider.Targets) (*v1.LoadBalancerAnswer, error) {
					targets = named
					return provider.LoadBalancerReady(), nil
				},
			}})
			s.handshake()
			for _, step := range vector.Steps {
				if step.Targets == nil {
					response, err := s.upload(step)
					step.check(t, err)
					if response.GetRevision() != step.Revision {
						t.Errorf("%q is answered", response.GetRevision())
					}
					continue
				}
				_, err := v1.NewLoadBalancersServiceClient(s.client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
					Context: attempt(), Service: &v1.Service{Uid: "1"}, Targets: parsed(t, step.Targets, &v1.NodeTargets{}),
				})
				step.check(t, err)
				var nodes []*v1.Node
				for _, node := range step.Nodes {
					nodes = append(nodes, parsed(t, node, &v1.Node{}))
				}
				if err == nil && !slices.EqualFunc(targets.Nodes(), nodes, func(a, b *v1.Node) bool { return proto.Equal(a, b) }) {
					t.Errorf("%v instead of %v", targets.Nodes(), nodes)
				}
			}
		})
	}
}

func (s *served) upload(step step) (*v1.SyncNodeSetResponse, error) {
	stream, err := v1.NewNodeSetsServiceClient(s.client).SyncNodeSet(s.Context())
	if err != nil {
		return nil, err
	}
	for index, text := range step.Upload {
		part := parsed(s.T, text, &v1.SyncNodeSetRequest{})
		if index == 0 {
			part.Context = attempt()
		}
		if err := stream.Send(part); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return stream.CloseAndRecv()
}

// waits is the node whose lookup lasts until the end of the test.
const waits = "waits"

func TestVectorsOfHandshakesAndContexts(t *testing.T) {
	for _, vector := range append(read[vector](t, "handshake.json"), read[vector](t, "context.json")...) {
		t.Run(vector.Case, func(t *testing.T) {
			var cluster provider.Cluster
			entered, leave := make(chan struct{}), make(chan struct{})
			s := serve(t, &provider.Provider{Instances: &cloud{lookup: func(ctx context.Context, node *v1.Node) (provider.Lookup, error) {
				if node.Name == waits {
					close(entered)
					<-leave
				}
				cluster = provider.CallOf(ctx).Cluster
				return provider.NotVisibleYet(), nil
			}}})
			instances, identity := v1.NewInstancesServiceClient(s.client), v1.NewProviderServiceClient(s.client)
			look := func(context *v1.CallContext, name string) error {
				_, err := instances.BatchGetInstances(s.Context(), &v1.BatchGetInstancesRequest{Context: context, Items: []*v1.Node{{Name: name}}})
				return err
			}
			for _, step := range vector.Steps {
				switch {
				case step.Handshake != nil:
					response, err := identity.Handshake(t.Context(), parsed(t, step.Handshake, &v1.HandshakeRequest{}))
					step.check(t, err)
					if response.GetMinor() != step.Minor {
						t.Errorf("minor %d is chosen", response.GetMinor())
					}
				case step.Drain:
					ended := make(chan error, 1)
					go func() { ended <- look(&v1.CallContext{ClusterName: "prod"}, waits) }()
					<-entered
					go func() { _ = s.stop() }()
					until(t, "new calls to be refused", func() bool {
						_, err := identity.GetStatus(t.Context(), &v1.GetStatusRequest{})
						return err != nil
					})
					defer func() {
						close(leave)
						if err := <-ended; err != nil {
							t.Error(err)
						}
					}()
				default:
					var context *v1.CallContext
					if string(step.Call) != "null" {
						context = parsed(t, step.Call, &v1.CallContext{})
					}
					err := look(context, "a")
					step.check(t, err)
					if err == nil && (cluster.Name != step.Cluster.Name || cluster.UID != step.Cluster.UID ||
						!slices.Equal(cluster.PodCIDRs, step.Cluster.PodCIDRs) || !slices.Equal(cluster.ServiceCIDRs, step.Cluster.ServiceCIDRs)) {
						t.Errorf("the handler sees %v instead of %v", cluster, step.Cluster)
					}
				}
			}
		})
	}
}

func TestVectorsOfErrors(t *testing.T) {
	for _, row := range read[struct {
		Case, Reason, Message, Status string
		Effects                       json.RawMessage
		RetryAfter                    float64
	}](t, "errors.json") {
		t.Run(row.Case+" "+row.Reason, func(t *testing.T) {
			raised := provider.Errorf(v1.ErrorReason(v1.ErrorReason_value["ERROR_REASON_"+row.Reason]), "%s", row.Message)
			raised.RetryAfter = time.Duration(row.RetryAfter * float64(time.Second))
			if row.Effects != nil {
				raised.Effects = parsed(t, row.Effects, &v1.KubernetesEffects{})
			}
			s := serve(t, &provider.Provider{LoadBalancers: &cloud{
				ensure: func(context.Context, *v1.Service, *provider.Targets) (*v1.LoadBalancerAnswer, error) {
					return nil, raised
				},
			}})
			s.handshake()
			_, err := v1.NewLoadBalancersServiceClient(s.client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
				Context: attempt(), Service: &v1.Service{Uid: "1"},
				Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{}}},
			})
			encoded, bad := base64.StdEncoding.DecodeString(row.Status)
			want := &rpcstatus.Status{}
			if bad = errors.Join(bad, proto.Unmarshal(encoded, want)); bad != nil {
				t.Fatal(bad)
			}
			if got := status.Convert(err).Proto(); !proto.Equal(got, want) {
				t.Errorf("%v instead of %v", got, want)
			}
		})
	}
}
