// Package contract is a cloud whose calls go to a provider of Outrigger's contract: upstream's loops drive the same process
// as Outrigger's controller.
package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/fake"
	"k8s.io/klog/v2"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Endpoint is the environment variable with the provider's socket, as unix:///path. Without it upstream has the bench's own
// cloud.
const Endpoint = "BENCH_PROVIDER"

// deadlines of all calls: the contract's for a load balancer. Upstream's loops have none.
const deadlines = `{"methodConfig": [{"name": [{}], "timeout": "120s"}]}`

// Cloud calls a provider.
type Cloud struct {
	// Cloud has the methods that say which parts there are not.
	*fake.Cloud
	provider      v1.ProviderServiceClient
	instances     v1.InstancesServiceClient
	loadBalancers v1.LoadBalancersServiceClient
	routes        v1.RoutesServiceClient
	// clusterUID marks what the provider makes.
	clusterUID string
}

// Connect makes a cloud of the provider at an endpoint. No call is made yet.
func Connect(endpoint string) (*Cloud, error) {
	connection, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(deadlines))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Endpoint, err)
	}
	return &Cloud{
		Cloud:    &fake.Cloud{DisableInstances: true, DisableZones: true, DisableClusters: true},
		provider: v1.NewProviderServiceClient(connection), instances: v1.NewInstancesServiceClient(connection),
		loadBalancers: v1.NewLoadBalancersServiceClient(connection), routes: v1.NewRoutesServiceClient(connection),
	}, nil
}

// Initialize ends the process without the cluster's UID or the provider's handshake: upstream's method has no error, and the
// loops must not start then.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
	ctx := context.Background()
	system, err := clients.ClientOrDie("contract").CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		klog.Fatalf("cannot read the namespace %s: %v", metav1.NamespaceSystem, err)
	}
	c.clusterUID = string(system.UID)
	_, err = c.provider.Handshake(ctx, &v1.HandshakeRequest{
		MinMinor: 1, MaxMinor: 1, ControllerName: "upstream", Cluster: &v1.ClusterInfo{Uid: c.clusterUID},
	})
	if err != nil {
		klog.Fatalf("the provider's handshake: %v", err)
	}
}

func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, true }
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }
func (c *Cloud) Routes() (cloudprovider.Routes, bool)             { return c, true }

func (c *Cloud) context() *v1.CallContext { return &v1.CallContext{ClusterUid: c.clusterUID} }

// lookup is one call about one Node; nil: the machine does not exist.
func (c *Cloud) lookup(ctx context.Context, node *corev1.Node) (*v1.Instance, error) {
	answer, err := c.instances.BatchGetInstances(ctx, &v1.BatchGetInstancesRequest{Context: c.context(), Items: []*v1.Node{nodeSent(node)}})
	if err != nil {
		return nil, err
	}
	for _, result := range answer.Results {
		switch {
		case result.GetFound() != nil:
			return result.GetFound(), nil
		case result.GetAbsent() != nil:
			return nil, nil
		case result.GetError() != nil:
			return nil, errors.New(result.GetError().Message)
		}
	}
	return nil, errors.New("the provider does not know the node")
}

func (c *Cloud) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	instance, err := c.lookup(ctx, node)
	return instance != nil, err
}

func (c *Cloud) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	instance, err := c.lookup(ctx, node)
	return instance.GetPowerState() == v1.PowerState_POWER_STATE_SHUTDOWN, err
}

func (c *Cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	instance, err := c.lookup(ctx, node)
	if err == nil && instance == nil {
		err = cloudprovider.InstanceNotFound
	}
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: instance.ProviderId, InstanceType: instance.InstanceType, Zone: instance.Zone, Region: instance.Region,
		NodeAddresses: addresses(instance.Addresses),
	}, nil
}

func (c *Cloud) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	answer, err := c.loadBalancers.GetLoadBalancer(ctx, &v1.GetLoadBalancerRequest{Context: c.context(), Service: serviceSent(service)})
	if err != nil || answer.Answer.Disposition == v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT {
		return nil, false, err
	}
	return status(answer.Answer.Status), true, nil
}

func (c *Cloud) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	answer, err := c.loadBalancers.EnsureLoadBalancer(ctx, &v1.EnsureLoadBalancerRequest{
		Context: c.context(), Service: serviceSent(service), Targets: targets(nodes),
	})
	if err != nil {
		return nil, err
	}
	return status(answer.Answer.Status), unfinished(answer.Answer)
}

func (c *Cloud) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	_, err := c.loadBalancers.UpdateLoadBalancerNodes(ctx, &v1.UpdateLoadBalancerNodesRequest{
		Context: c.context(), Service: serviceSent(service), Targets: targets(nodes),
	})
	return err
}

func (c *Cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	answer, err := c.loadBalancers.DeleteLoadBalancer(ctx, &v1.DeleteLoadBalancerRequest{Context: c.context(), Service: serviceSent(service)})
	if err != nil {
		return err
	}
	return unfinished(answer.Answer)
}

// unfinished is nil for work that is done. Without an error upstream's loops would call no more, and let the finalizer go.
func unfinished(answer *v1.LoadBalancerAnswer) error {
	if answer.GetDisposition() != v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS {
		return nil
	}
	return api.NewRetryError(cmp.Or(answer.Message, "the provider is at work"), cmp.Or(answer.RetryAfter.AsDuration(), 10*time.Second))
}

// GetLoadBalancerName is what upstream's loops ask for in logs alone.
func (c *Cloud) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// ListRoutes looks the target of each route up among the machines: the provider's kernel has the address alone.
func (c *Cloud) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	machines, err := c.instances.ListInstances(ctx, &v1.ListInstancesRequest{Context: c.context()})
	if err != nil {
		return nil, err
	}
	nodes := map[string]types.NodeName{}
	err = each(machines, func(page *v1.ListInstancesResponse) {
		for _, instance := range page.Items {
			for _, address := range instance.Addresses {
				nodes[address.Address] = types.NodeName(instance.NodeName)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	listed, err := c.routes.ListRoutes(ctx, &v1.ListRoutesRequest{Context: c.context()})
	if err != nil {
		return nil, err
	}
	var routes []*cloudprovider.Route
	err = each(listed, func(page *v1.ListRoutesResponse) {
		for _, route := range page.Items {
			routes = append(routes, &cloudprovider.Route{
				Name: route.Name, DestinationCIDR: route.DestinationCidr, TargetNode: nodes[route.NextHopIp],
				TargetNodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: route.NextHopIp}},
				Blackhole:           route.Blackhole,
			})
		}
	})
	return routes, err
}

func (c *Cloud) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	_, err := c.routes.CreateRoute(ctx, &v1.CreateRouteRequest{Context: c.context(), Route: routeSent(route)})
	return err
}

func (c *Cloud) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	_, err := c.routes.DeleteRoute(ctx, &v1.DeleteRouteRequest{Context: c.context(), Route: routeSent(route)})
	return err
}

// each reads the pages of a list.
func each[Page any](list grpc.ServerStreamingClient[Page], read func(*Page)) error {
	for {
		page, err := list.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		read(page)
	}
}
