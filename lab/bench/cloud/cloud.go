// Package cloud is upstream's fake cloud with a price: each call takes time and is written to a journal. Upstream's
// loops call it in process, Outrigger's behind the Go adapter.
package cloud

import (
	"context"
	"encoding/binary"
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
)

// Name of the provider and scheme of its provider IDs.
const Name = "fake"

// Cloud keeps nothing: every machine exists, and every load balancer, and each answer follows from a name. The fake's memory
// of all calls would count as the controller's.
type Cloud struct {
	*fake.Cloud
	latency time.Duration
	journal *os.File
}

// FromEnvironment makes the cloud with the latency and the journal that the environment names.
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
	return &Cloud{
		Cloud: &fake.Cloud{
			Provider: Name, EnableInstancesV2: true,
			DisableInstances: true, DisableZones: true, DisableClusters: true, DisableRoutes: true,
		},
		latency: latency, journal: journal,
	}, nil
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

// Machines is one call about all of these Nodes. It returns their machines by the names of the Nodes.
func (c *Cloud) Machines(ctx context.Context, operation string, nodes ...*corev1.Node) (map[string]*cloudprovider.InstanceMetadata, error) {
	if err := c.call(ctx, operation); err != nil {
		return nil, err
	}
	machines := map[string]*cloudprovider.InstanceMetadata{}
	for _, node := range nodes {
		machines[node.Name] = metadata(node.Name)
	}
	return machines, nil
}

func (c *Cloud) InstanceExists(ctx context.Context, _ *corev1.Node) (bool, error) {
	return true, c.call(ctx, "InstanceExists")
}

func (c *Cloud) InstanceShutdown(ctx context.Context, _ *corev1.Node) (bool, error) {
	return false, c.call(ctx, "InstanceShutdown")
}

func (c *Cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return metadata(node.Name), c.call(ctx, "InstanceMetadata")
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

func (c *Cloud) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return status(service), true, c.call(ctx, "GetLoadBalancer")
}

func (c *Cloud) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return status(service), c.call(ctx, "EnsureLoadBalancer")
}

func (c *Cloud) UpdateLoadBalancer(ctx context.Context, _ string, _ *corev1.Service, _ []*corev1.Node) error {
	return c.call(ctx, "UpdateLoadBalancer")
}

func (c *Cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, _ *corev1.Service) error {
	return c.call(ctx, "EnsureLoadBalancerDeleted")
}

func status(service *corev1.Service) *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: address(172, service.Name)}}}
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
