// These tests ask a cloud whose parts come late, or are away for a moment.

package serve

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// awayCloud has its parts only while its API is there.
type awayCloud struct {
	cloud
	isThere atomic.Bool
	looks   atomic.Int32
}

func newAwayCloud() *awayCloud {
	return &awayCloud{cloud: cloud{
		machines: &machine{exists: true, metadata: &cloudprovider.InstanceMetadata{ProviderID: "test://a"}},
		balancers: &balancers{ensure: func(context.Context, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}, nil
		}},
	}}
}

func (c *awayCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return c.machines, c.isThere.Load()
}

func (c *awayCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	c.looks.Add(1)
	return c.balancers, c.isThere.Load()
}

func TestFinding11APartThatComesLaterIsOfferedThen(t *testing.T) {
	c := newAwayCloud()
	var made *provider.Provider
	connection, handshake := servingMade(t, func(ctx context.Context) (*provider.Provider, error) {
		var err error
		made, err = New(ctx, Options{}, func() (cloudprovider.Interface, error) { return c, nil })
		return made, err
	})
	if offered := handshake.Capabilities; offered.Instances != nil || offered.LoadBalancers != nil || offered.Routes != nil {
		t.Fatal(offered)
	}
	identity := v1.NewProviderServiceClient(connection)
	bootID := func() string {
		got, err := identity.GetStatus(t.Context(), &v1.GetStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return got.BootId
	}
	c.isThere.Store(true)
	if looks := c.looks.Load(); bootID() != handshake.BootId || c.looks.Load() != looks {
		t.Error("the cloud was asked again right after the start")
	}
	machines, balancers := made.Instances.(*instances).cloud, made.LoadBalancers.(*loadBalancers).cloud
	machines.mu.Lock()
	machines.askedAt = time.Time{}
	machines.mu.Unlock()
	balancers.mu.Lock()
	balancers.askedAt = time.Time{}
	balancers.mu.Unlock()
	until(t, "a handshake is asked for", func() bool { return bootID() != handshake.BootId })
	until(t, "both are offered", func() bool {
		again, err := identity.Handshake(t.Context(), &v1.HandshakeRequest{MinMinor: 1, MaxMinor: 1, Cluster: &v1.ClusterInfo{Name: "c", Uid: "u"}})
		if err != nil {
			t.Fatal(err)
		}
		return again.Capabilities.Instances != nil && again.Capabilities.LoadBalancers != nil && again.Capabilities.Routes == nil
	})
}

func TestFinding11APartThatIsAwayForAMomentIsUnavailable(t *testing.T) {
	c := newAwayCloud()
	c.isThere.Store(true)
	connection, _ := servingMade(t, func(ctx context.Context) (*provider.Provider, error) {
		return New(ctx, Options{}, func() (cloudprovider.Interface, error) { return c, nil })
	})
	look := func() error {
		_, err := v1.NewInstancesServiceClient(connection).BatchGetInstances(t.Context(), &v1.BatchGetInstancesRequest{
			Context: attempt(), Items: []*v1.Node{{Name: "a"}},
		})
		return err
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	c.isThere.Store(false)
	if err := look(); reasonIn(t, status.Convert(err).Proto()) != "CLOUD_UNAVAILABLE" {
		t.Error(err)
	}
	// Upstream's controller of Services keeps what it got at its start.
	if answer, err := ensureOf(connection); err != nil || len(answer.GetStatus().GetIngress()) != 1 {
		t.Error(answer, err)
	}
	_, err := v1.NewRoutesServiceClient(connection).CreateRoute(t.Context(), &v1.CreateRouteRequest{
		Context: attempt(), Route: &v1.Route{DestinationCidr: "10.0.0.0/24", NodeName: "a"},
	})
	if reasonIn(t, status.Convert(err).Proto()) != "CLOUD_UNAVAILABLE" {
		t.Error("a part that was never there:", err)
	}
	c.isThere.Store(true)
	if err := look(); err != nil {
		t.Error(err)
	}
}
