// The fake cloud itself, as an implementation of upstream's interfaces.

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/service/helpers"
)

// sizeAnnotation is the one that the cloud reads: small or large.
const sizeAnnotation = "fake.example/size"

// idAnnotation is the one that the cloud writes: the name of the load balancer.
const idAnnotation = "fake.example/load-balancer-id"

var (
	errMalformedID = errors.New("no machine can have this id")
	errAnnotation  = errors.New("the annotation " + sizeAnnotation + " is neither small nor large")
	errProtocol    = errors.New("load balancers serve TCP and UDP only")
)

// cloud is upstream's fake with a memory. The adapter calls it about one load balancer at a time.
type cloud struct {
	*fake.Cloud
	stopped map[types.NodeName]bool
	// limit of load balancers, and of routes; 0: none.
	limit int
	// routing is held while a route is made: two at a time would both take the last room.
	routing sync.Mutex
	api     api
	client  kubernetes.Interface
}

func (c *cloud) Initialize(builder cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
	c.client = builder.ClientOrDie("fake")
}

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, true }
func (c *cloud) Routes() (cloudprovider.Routes, bool)             { return c, true }

func (c *cloud) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if err := c.api.read("get-load-balancer"); err != nil {
		return nil, false, err
	}
	status := c.statusOf(c.GetLoadBalancerName(ctx, cluster, service))
	return status, status != nil, nil
}

// statusOf a load balancer; nil where there is none.
func (c *cloud) statusOf(name string) *corev1.LoadBalancerStatus {
	balancer, exists := c.Balancers[name]
	if !exists {
		return nil
	}
	status := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: c.ExternalIP.String()}}}
	for _, port := range balancer.Ports {
		status.Ingress[0].Ports = append(status.Ingress[0].Ports, corev1.PortStatus{Port: port.Port, Protocol: port.Protocol})
	}
	return status
}

func (c *cloud) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	switch service.Annotations[sizeAnnotation] {
	case "", "small", "large":
	default:
		return nil, errAnnotation
	}
	for _, port := range service.Spec.Ports {
		if port.Protocol == corev1.ProtocolSCTP {
			return nil, fmt.Errorf("port %d: %w", port.Port, errProtocol)
		}
	}
	if err := c.api.change("ensure-load-balancer"); err != nil {
		return nil, err
	}
	defer c.noteState()
	_, exists := c.Balancers[c.GetLoadBalancerName(ctx, cluster, service)]
	if err := c.room(len(c.Balancers)); err != nil && !exists {
		return nil, err
	}
	if _, err := c.Cloud.EnsureLoadBalancer(ctx, cluster, service, nodes); err != nil {
		return nil, err
	}
	id := c.GetLoadBalancerName(ctx, cluster, service)
	return c.statusOf(id), c.noteID(service, id) // older versions of upstream's fake return no ports
}

// noteID writes the ID of a load balancer to its Service, as many clouds do.
func (c *cloud) noteID(service *corev1.Service, id string) error {
	updated := service.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, idAnnotation, id)
	if _, err := helpers.PatchService(c.client.CoreV1(), service, updated); err != nil {
		return fmt.Errorf("cannot note the ID of the load balancer: %w", err)
	}
	return nil
}

func (c *cloud) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	if err := c.api.change("update-load-balancer"); err != nil {
		return err
	}
	name := c.GetLoadBalancerName(ctx, cluster, service)
	balancer, exists := c.Balancers[name]
	if !exists {
		return errors.New("there is no load balancer to update")
	}
	defer c.noteState()
	balancer.Hosts = nodes // upstream's fake only counts the call
	c.Balancers[name] = balancer
	return c.Cloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

func (c *cloud) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	if err := c.api.change("delete-load-balancer"); err != nil {
		return err
	}
	defer c.noteState()
	delete(c.Balancers, c.GetLoadBalancerName(ctx, cluster, service))
	return c.Cloud.EnsureLoadBalancerDeleted(ctx, cluster, service)
}

func (c *cloud) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	if err := c.api.read("instance-exists"); err != nil {
		return false, err
	}
	return c.hasMachine(node)
}

func (c *cloud) InstanceShutdown(_ context.Context, node *corev1.Node) (bool, error) {
	if err := c.api.read("instance-shutdown"); err != nil {
		return false, err
	}
	return c.stopped[machine(node)], nil
}

func (c *cloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if err := c.api.read("instance-metadata"); err != nil {
		return nil, err
	}
	exists, err := c.hasMachine(node)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: "fake://" + string(machine(node)), InstanceType: "fake-small", NodeAddresses: c.Addresses,
		Zone: c.FailureDomain, Region: c.Region,
	}, nil
}

func (c *cloud) hasMachine(node *corev1.Node) (bool, error) {
	name := machine(node)
	if len(validation.IsDNS1123Subdomain(string(name))) > 0 {
		return false, fmt.Errorf("%q: %w", node.Spec.ProviderID, errMalformedID)
	}
	return slices.Contains(c.Machines, name), nil
}

func machine(node *corev1.Node) types.NodeName {
	if id, entry := strings.CutPrefix(node.Spec.ProviderID, "fake://"); entry {
		return types.NodeName(id)
	}
	return types.NodeName(node.Name)
}

func (c *cloud) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	if err := c.api.read("list-routes"); err != nil {
		return nil, err
	}
	c.Lock.Lock()
	blackholes := c.api.takeBlackholes()
	for _, entry := range c.RouteMap {
		entry.Route.Blackhole = entry.Route.Blackhole || slices.Contains(blackholes, entry.Route.DestinationCIDR)
	}
	c.Lock.Unlock()
	c.noteState()
	return c.Cloud.ListRoutes(ctx, cluster)
}

func (c *cloud) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	if err := c.api.change("create-route"); err != nil {
		return err
	}
	c.routing.Lock()
	defer c.routing.Unlock()
	c.Lock.Lock()
	err := c.room(len(c.RouteMap))
	c.Lock.Unlock()
	if err != nil {
		return err
	}
	defer c.noteState()
	return c.Cloud.CreateRoute(ctx, cluster, hint, route)
}

func (c *cloud) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	if err := c.api.change("delete-route"); err != nil {
		return err
	}
	defer c.noteState()
	return c.Cloud.DeleteRoute(ctx, cluster, route)
}

// noteState writes what there is into the file of the API.
func (c *cloud) noteState() {
	c.Lock.Lock()
	defer c.Lock.Unlock()
	state := map[string][]string{}
	for name, balancer := range c.Balancers {
		var hosts []string
		for _, node := range balancer.Hosts {
			hosts = append(hosts, node.Name)
		}
		state["load balancer"] = append(state["load balancer"], fmt.Sprintf("%s, ports %v, hosts %v", name, balancer.Ports, hosts))
	}
	for name, entry := range c.RouteMap {
		state["route"] = append(state["route"], fmt.Sprintf("%s to %s, blackhole %t", name, entry.Route.TargetNode, entry.Route.Blackhole))
	}
	c.api.noteState(state)
}

func (c *cloud) room(used int) error {
	if c.limit > 0 && used >= c.limit {
		return &apiError{Code: "QuotaExceeded", text: fmt.Sprintf("the account has room for %d", c.limit)}
	}
	return nil
}
