// This file has the provider of the tests, and tests the handshake, the admission of calls and the status.

package provider_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

const patience = 10 * time.Second

// cloud is a provider whose handlers a test sets.
type cloud struct {
	lookup func(context.Context, *v1.Node) (provider.Lookup, error)
	list   func(func(*v1.Instance) error) error
	ensure func(context.Context, *v1.Service, *provider.Targets) (*v1.LoadBalancerAnswer, error)
	update func(context.Context, *v1.Service, *provider.Targets) (*v1.LoadBalancerAnswer, error)
	routes func(context.Context, *v1.Route) (*v1.CreateRouteResponse, error)
}

func (c *cloud) GetInstances(ctx context.Context, nodes []*v1.Node, _ provider.Query) (provider.Lookups, error) {
	return provider.Each(ctx, 4, nodes, c.lookup)
}

func (c *cloud) ListInstances(_ context.Context, _ provider.Query, send func(*v1.Instance) error) error {
	return c.list(send)
}

func (c *cloud) GetLoadBalancer(context.Context, *v1.Service, *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	return provider.LoadBalancerAbsent(), nil
}

func (c *cloud) EnsureLoadBalancer(ctx context.Context, service *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	return c.ensure(ctx, service, targets)
}

func (c *cloud) UpdateLoadBalancerNodes(ctx context.Context, service *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	return c.update(ctx, service, targets)
}

func (c *cloud) DeleteLoadBalancer(context.Context, *v1.Service) (*v1.LoadBalancerAnswer, error) {
	return provider.LoadBalancerAbsent(), nil
}

func (c *cloud) ListRoutes(context.Context, func(*v1.Route) error) error { return nil }

func (c *cloud) CreateRoute(ctx context.Context, route *v1.Route) (*v1.CreateRouteResponse, error) {
	return c.routes(ctx, route)
}

func (c *cloud) DeleteRoute(ctx context.Context, route *v1.Route) (*v1.DeleteRouteResponse, error) {
	_, err := c.routes(ctx, route)
	return nil, err
}

// served is a provider that serves, and a client of it.
type served struct {
	*testing.T
	endpoint provider.Endpoint
	client   *grpc.ClientConn
	stop     func() error
}

func endpointIn(t *testing.T) provider.Endpoint {
	t.Helper()
	directory, err := os.MkdirTemp("", "outrigger")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	endpoint, err := provider.ParseEndpoint("unix://" + filepath.Join(directory, "run", "p.sock"))
	if err != nil {
		t.Fatal(err)
	}
	return endpoint
}

func serve(t *testing.T, p *provider.Provider) *served {
	t.Helper()
	if p.Name == "" {
		p.Name, p.Version = "test", "1"
	}
	endpoint := endpointIn(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.ServeUntil(ctx, endpoint) }()
	client, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", endpoint.Path())
		}))
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("the server did not end")
		}
	})
	t.Cleanup(func() {
		_ = client.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	until(t, "the socket", func() bool { _, err := os.Stat(endpoint.Path()); return err == nil })
	return &served{t, endpoint, client, stop}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (s *served) handshake() *v1.HandshakeResponse {
	s.Helper()
	got, err := v1.NewProviderServiceClient(s.client).Handshake(s.Context(), &v1.HandshakeRequest{
		MinMinor: 1, MaxMinor: 1, Cluster: &v1.ClusterInfo{Name: "c", Uid: "u"},
	})
	if err != nil {
		s.Fatal(err)
	}
	return got
}

func attempt() *v1.CallContext { return &v1.CallContext{RequestId: "r", ClusterName: "c"} }

func reasonOf(t *testing.T, err error) string {
	t.Helper()
	got := status.Convert(err).Proto()
	return reasonIn(t, got)
}

func reasonIn(t *testing.T, got *rpcstatus.Status) string {
	t.Helper()
	for _, detail := range got.GetDetails() {
		info := &errdetails.ErrorInfo{}
		if detail.MessageIs(info) {
			if err := detail.UnmarshalTo(info); err != nil || info.Domain != "cloudprovider.v1" {
				t.Fatalf("ErrorInfo %v: %v", info, err)
			}
			return info.Reason
		}
	}
	return ""
}

func TestCapabilitiesFollowFromWhatIsSet(t *testing.T) {
	got := serve(t, &provider.Provider{Instances: &cloud{}}).handshake()
	if offered := got.Capabilities; !offered.Instances.GetList() ||
		offered.LoadBalancers != nil || offered.NodeSets != nil || got.Minor != 1 || got.BootId == "" {
		t.Fatal(got)
	}
	got = serve(t, &provider.Provider{LoadBalancers: &cloud{}}).handshake()
	if offered := got.Capabilities; offered.Instances != nil || offered.LoadBalancers == nil ||
		offered.LoadBalancers.List || offered.LoadBalancers.Plan || offered.NodeSets == nil {
		t.Fatal(got)
	}
}

// late is a cloud whose load balancers are there only later.
type late struct {
	cloud
	isThere atomic.Bool
}

func (l *late) Available() bool { return l.isThere.Load() }

func TestACapabilityThatComesLaterAsksForAHandshake(t *testing.T) {
	c := &late{}
	s := serve(t, &provider.Provider{Instances: &c.cloud, LoadBalancers: c})
	bootID := func() string {
		status, err := v1.NewProviderServiceClient(s.client).GetStatus(t.Context(), &v1.GetStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return status.BootId
	}
	before := s.handshake()
	if offered := before.Capabilities; offered.Instances == nil || offered.LoadBalancers != nil || offered.NodeSets != nil {
		t.Error(offered)
	}
	if bootID() != before.BootId {
		t.Error("nothing is new, and a handshake is asked for")
	}
	c.isThere.Store(true)
	if bootID() == before.BootId {
		t.Error("no handshake is asked for")
	}
	after := s.handshake()
	if after.Capabilities.LoadBalancers == nil || after.Capabilities.NodeSets == nil || after.BootId != bootID() {
		t.Error(after)
	}
}
