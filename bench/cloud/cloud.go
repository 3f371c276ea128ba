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
	// Durable names the file of a cloud that outlives its processes; without it, each answer follows from a name.
	Durable = "BENCH_STATE"
)

// Name of the provider and scheme of its provider IDs.
const Name = "fake"

// cloud keeps nothing of its own: a real cloud outlives the processes that call it, so that each of them must see
// the same one. The fake's memory of all calls would also count as the controller's.
type cloud struct {
	*fake.Cloud
	latency time.Duration
	journal *os.File
}

// FromEnvironment makes the cloud with the latency and the journal that the environment names.
func FromEnvironment() (cloudprovider.Interface, error) {
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
	made := &cloud{
		Cloud: &fake.Cloud{
			Provider: Name, EnableInstancesV2: true,
			DisableInstances: true, DisableZones: true, DisableClusters: true, DisableRoutes: true,
		},
		latency: latency, journal: journal,
	}
	if state := os.Getenv(Durable); state != "" {
		return &durable{cloud: made, store: Store{Path: state}}, nil
	}
	return made, nil
}

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, true }

// call is one call to the cloud.
func (c *cloud) call(ctx context.Context, operation string) error {
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

func (c *cloud) InstanceExists(ctx context.Context, _ *corev1.Node) (bool, error) {
	err := c.call(ctx, "InstanceExists")
	return err == nil, err
}

func (c *cloud) InstanceShutdown(ctx context.Context, _ *corev1.Node) (bool, error) {
	return false, c.call(ctx, "InstanceShutdown")
}

func (c *cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if err := c.call(ctx, "InstanceMetadata"); err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: Name + "://" + node.Name, InstanceType: "fake-small", Zone: "fake-1a", Region: "fake-1",
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address(10, node.Name)},
			{Type: corev1.NodeHostName, Address: node.Name},
		},
	}, nil
}

func (c *cloud) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	err := c.call(ctx, "GetLoadBalancer")
	return status(service), err == nil, err
}

func (c *cloud) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return status(service), c.call(ctx, "EnsureLoadBalancer")
}

func (c *cloud) UpdateLoadBalancer(ctx context.Context, _ string, _ *corev1.Service, _ []*corev1.Node) error {
	return c.call(ctx, "UpdateLoadBalancer")
}

func (c *cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, _ *corev1.Service) error {
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
