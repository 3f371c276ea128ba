// Package cloud is upstream's fake cloud with a price: each call takes time and is written to a journal. Upstream's
// loops call it in process, Outrigger's behind the Go adapter.
package cloud

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"
)

// Environment of a process with this cloud: upstream's program has its own flags and no room for more.
const (
	Latency = "BENCH_LATENCY"
	Journal = "BENCH_JOURNAL"
	// Durable names the file of a cloud that outlives its processes; without it, each answer follows from a name.
	Durable = "BENCH_STATE"
)

// Name of the provider and scheme of its provider IDs.
const Name = "fake"

// Annotation is the one that the durable cloud reads.
const Annotation = "fake.example.com/tier"

// Cloud keeps nothing in memory: a real cloud outlives the processes that call it, so that each of them must see
// the same one. The fake's memory of all calls would also count as the controller's.
type Cloud struct {
	*fake.Cloud
	latency time.Duration
	journal *os.File
	// store has the machines and load balancers; nil: every machine exists, and every load balancer.
	store *Store
}

// FromEnvironment makes the cloud with the latency, the journal and the state that the environment names.
func FromEnvironment() (*Cloud, error) {
	latency, err := time.ParseDuration(os.Getenv(Latency))
	if err != nil {
		return nil, fmt.Errorf("%s must be a duration such as 20ms: %w", Latency, err)
	}
	path := os.Getenv(Journal)
	if path == "" {
		return nil, errors.New(Journal + " must name the file for the journal of calls")
	}
	journal, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open the journal: %w", err)
	}
	c := &Cloud{
		Cloud: &fake.Cloud{
			Provider: Name, EnableInstancesV2: true,
			DisableInstances: true, DisableZones: true, DisableClusters: true, DisableRoutes: true,
		},
		latency: latency, journal: journal,
	}
	if state := os.Getenv(Durable); state != "" {
		c.store = &Store{Path: state}
	}
	return c, nil
}

func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, true }

// call is one call to the cloud.
func (c *Cloud) call(ctx context.Context, operation string) error {
	// One write of one line: lines of calls at the same time do not mix.
	if _, err := c.journal.WriteString(operation + "\n"); err != nil {
		return fmt.Errorf("cannot write to the journal: %w", err)
	}
	select {
	case <-time.After(c.latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Machine is the machine of a Node.
type Machine struct {
	Metadata *cloudprovider.InstanceMetadata
	IsOff    bool
}

// Machines is one call about all of these Nodes. It returns the machines that exist by the names of their Nodes.
func (c *Cloud) Machines(ctx context.Context, operation string, nodes ...*corev1.Node) (map[string]Machine, error) {
	if err := c.call(ctx, operation); err != nil {
		return nil, err
	}
	state := &State{}
	if c.store != nil {
		var err error
		if state, err = c.store.Read(); err != nil {
			return nil, err
		}
	}
	machines := map[string]Machine{}
	for _, node := range nodes {
		isOff, exists := state.Machines[node.Name]
		if exists || c.store == nil {
			machines[node.Name] = Machine{metadata(node.Name), isOff}
		}
	}
	return machines, nil
}

func (c *Cloud) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	machines, err := c.Machines(ctx, "InstanceExists", node)
	_, exists := machines[node.Name]
	return exists, err
}

func (c *Cloud) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	machines, err := c.Machines(ctx, "InstanceShutdown", node)
	return machines[node.Name].IsOff, err
}

func (c *Cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	machines, err := c.Machines(ctx, "InstanceMetadata", node)
	if err != nil {
		return nil, err
	}
	machine, exists := machines[node.Name]
	if !exists {
		return nil, cloudprovider.InstanceNotFound
	}
	return machine.Metadata, nil
}

func metadata(node string) *cloudprovider.InstanceMetadata {
	return &cloudprovider.InstanceMetadata{
		ProviderID: Name + "://" + node, InstanceType: "fake-small", Zone: "fake-1a", Region: "fake-1",
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address(10, node)},
			{Type: corev1.NodeHostName, Address: node},
		},
	}
}

// balancer is a call about the load balancer of a Service. act works on the state of a durable cloud, and returns the load
// balancer; any other cloud has one with an address that follows from the Service's name.
func (c *Cloud) balancer(ctx context.Context, operation string, service *corev1.Service,
	act func(state *State, name string) (balancer Balancer, err error),
) (*corev1.LoadBalancerStatus, error) {
	if err := c.call(ctx, operation); err != nil {
		return nil, err
	}
	var balancer Balancer
	if c.store != nil {
		err := c.store.Update(func(state *State) (err error) {
			balancer, err = act(state, cloudprovider.DefaultLoadBalancerName(service))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	ip := cmp.Or(balancer.Address, address(172, service.Name))
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: ip}}}, nil
}

func (c *Cloud) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	exists := true
	status, err := c.balancer(ctx, "GetLoadBalancer", service, func(state *State, name string) (balancer Balancer, err error) {
		balancer, exists = state.Balancers[name]
		return balancer, nil
	})
	return status, exists && err == nil, err
}

func (c *Cloud) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return c.balancer(ctx, "EnsureLoadBalancer", service, func(state *State, name string) (Balancer, error) {
		spec, err := specOf(service)
		if err != nil {
			return Balancer{}, err
		}
		return state.ensure(name, Balancer{Service: service.Namespace + "/" + service.Name, Nodes: namesOf(nodes), Spec: spec}), nil
	})
}

func (c *Cloud) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	_, err := c.balancer(ctx, "UpdateLoadBalancer", service, func(state *State, name string) (Balancer, error) {
		if _, exists := state.Balancers[name]; !exists {
			return Balancer{}, fmt.Errorf("there is no load balancer %s", name)
		}
		state.retarget(name, namesOf(nodes))
		return Balancer{}, nil
	})
	return err
}

func (c *Cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	_, err := c.balancer(ctx, "EnsureLoadBalancerDeleted", service, func(state *State, name string) (Balancer, error) {
		return Balancer{}, state.delete(name)
	})
	return err
}

// specOf is what a load balancer is made from, nodes apart.
func specOf(service *corev1.Service) (string, error) {
	text, err := json.Marshal(map[string]any{
		"ports": service.Spec.Ports, "sources": service.Spec.LoadBalancerSourceRanges,
		"policy": service.Spec.ExternalTrafficPolicy, "affinity": service.Spec.SessionAffinity,
		"healthCheck": service.Spec.HealthCheckNodePort, "tier": service.Annotations[Annotation],
	})
	return string(text), err
}

func namesOf(nodes []*corev1.Node) []string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}

// address follows from the name, so that each process gives the same one.
func address(network byte, name string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], hash.Sum32())
	bytes[0] = network
	return netip.AddrFrom4(bytes).String()
}
