// The fake cloud of upstream's own tests, as a provider. Where it answers the same about each object, it
// looks here: the machines are those of its list, and a load balancer is there once it was made.
package main

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	"outrigger.dev/adapters/go/serve"
)

// cloud is upstream's fake with a memory.
type cloud struct{ *fake.Cloud }

func (c cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }
func (c cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, true }

func (c cloud) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	made, exists := c.Balancers[c.GetLoadBalancerName(ctx, cluster, service)]
	if !exists {
		return nil, false, nil
	}
	status := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: c.ExternalIP.String()}}}
	for _, port := range made.Ports {
		status.Ingress[0].Ports = append(status.Ingress[0].Ports, corev1.PortStatus{Port: port.Port, Protocol: port.Protocol})
	}
	return status, true, nil
}

func (c cloud) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	if _, exists, _ := c.GetLoadBalancer(ctx, cluster, service); !exists {
		return errors.New("there is no load balancer to update")
	}
	return c.Cloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

func (c cloud) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	delete(c.Balancers, c.GetLoadBalancerName(ctx, cluster, service))
	return c.Cloud.EnsureLoadBalancerDeleted(ctx, cluster, service)
}

func (c cloud) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	return slices.Contains(c.Machines, types.NodeName(machine(node))), nil
}

func (c cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if exists, err := c.InstanceExists(ctx, node); err != nil || !exists {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: "fake://" + machine(node), InstanceType: "fake-small", NodeAddresses: c.Addresses,
		Zone: c.FailureDomain, Region: c.Region,
	}, nil
}

func machine(node *corev1.Node) string {
	if id, known := strings.CutPrefix(node.Spec.ProviderID, "fake://"); known {
		return id
	}
	return node.Name
}

// machines are those that FAKE_MACHINES lists.
func machines() []types.NodeName {
	var names []types.NodeName
	for name := range strings.SplitSeq(os.Getenv("FAKE_MACHINES"), ",") {
		names = append(names, types.NodeName(strings.TrimSpace(name)))
	}
	return names
}

func main() {
	serve.Main(func() (cloudprovider.Interface, error) {
		return cloud{&fake.Cloud{
			Machines: machines(), ExternalIP: net.IPv4(203, 0, 113, 10),
			Balancers: map[string]fake.Balancer{}, RouteMap: map[string]*fake.Route{},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Zone:      cloudprovider.Zone{FailureDomain: "fake-1a", Region: "fake-1"},
		}}, nil
	})
}
