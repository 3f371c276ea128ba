// Package provider serves a cloud to Outrigger's controller over a Unix socket: the contract
// cloudprovider.v1. It has the socket, handshake, health, deadlines, panics, error
// details, node sets, logs, the probe and the graceful end; a vendor's code answers about its cloud.
//
//	func main() {
//		provider.Main(func(context.Context) (*provider.Provider, error) {
//			cloud, err := connect()
//			return &provider.Provider{Name: "cloud", Version: version, Instances: cloud}, err
//		})
//	}
//
// Messages are those that are generated from the contract (package cloudproviderv1), whose comments
// say what each field means.
package provider

import (
	"cmp"
	"crypto/rand"

	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// maxMessageBytes is the largest message that is accepted, and sent to a caller that names no limit.
const maxMessageBytes = 4 << 20

// Provider is a cloud, ready to be served. A capability is offered exactly when its interface is set, and says of itself
// that it is there, if it is Optional. Nothing else may change once it is served.
type Provider struct {
	// Name is 1 to 63 of a-z, 0-9 and '-', and never changes: the controller refuses another one.
	Name string
	// Version is for logs and metrics.
	Version string
	// WithoutClusterID: the cloud has no cluster id that separates the resources of two clusters. The
	// controller then refuses to run unless --allow-untagged-cloud is set.
	WithoutClusterID bool
	// ServiceAnnotationPrefixes of the annotations that the provider reads; they alone are sent, and
	// they alone cause a call by changing. Empty: all.
	ServiceAnnotationPrefixes []string
	// NodeAnnotationPrefixes of the annotations that the provider reads. Empty: none. "*": all.
	NodeAnnotationPrefixes []string
	// RateLimits of the cloud; the controller stays below. At most one for each class.
	RateLimits []*v1.RateLimit
	// Effects that answers may have in Kubernetes; nil has them ignored.
	Effects *v1.EffectsCapability
	// Status says how the provider and its cloud are, from what it already knows: it is asked every
	// 10 s and by each probe, and must answer within 100 ms while the cloud hangs. Nil: always ready.
	// The server fills in the boot id.
	Status func() *v1.GetStatusResponse

	// Instances are served unless nil; of InstancesCapability the server sets list.
	Instances           Instances
	InstancesCapability *v1.InstancesCapability

	// LoadBalancers are served unless nil, and node sets with them; of LoadBalancersCapability the
	// server sets list and plan. max_in_flight is 1 for code that was written for one at a time.
	LoadBalancers           LoadBalancers
	LoadBalancersCapability *v1.LoadBalancersCapability

	// Routes are served unless nil.
	Routes           Routes
	RoutesCapability *v1.RoutesCapability

	// Volumes are served unless nil.
	Volumes           Volumes
	VolumesCapability *v1.VolumesCapability
}

// Optional is implemented by Instances, LoadBalancers, Routes or Volumes that may not be there when the process starts.
type Optional interface {
	// Available tells whether the capability is offered. It is asked at each handshake and GetStatus, so it must answer
	// immediately. Once it is true, the controller shakes hands again, and it must stay true: while the capability is
	// away for a moment, calls fail with CloudUnavailable.
	Available() bool
}

// available is true except for an Optional capability that is not there.
func available(capability any) bool {
	optional, ok := capability.(Optional)
	return !ok || optional.Available()
}

// offer is what the next handshake says: the boot ID, and the capabilities that are there by now. The first time that one
// more is there, the boot ID is another one, which asks the controller for a handshake.
func (c *core) offer() (bootID string, offered *v1.Capabilities) {
	offered = proto.CloneOf(c.capabilities)
	if !available(c.provider.Instances) {
		offered.Instances = nil
	}
	if !available(c.provider.LoadBalancers) {
		offered.LoadBalancers, offered.NodeSets = nil, nil
	}
	if !available(c.provider.Routes) {
		offered.Routes = nil
	}
	if !available(c.provider.Volumes) {
		offered.Volumes = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !proto.Equal(c.offered, offered) {
		c.offered, c.bootID = offered, rand.Text()
	}
	return c.bootID, offered
}

// capabilities are those that can be offered.
func (p *Provider) capabilities() *v1.Capabilities {
	capabilities := &v1.Capabilities{Effects: p.Effects}
	if p.Instances != nil {
		capabilities.Instances = cmp.Or(proto.CloneOf(p.InstancesCapability), &v1.InstancesCapability{})
		declareInstances(capabilities.Instances, p.Instances)
	}
	if p.LoadBalancers != nil {
		capabilities.NodeSets = &v1.NodeSetsCapability{}
		capabilities.LoadBalancers = cmp.Or(proto.CloneOf(p.LoadBalancersCapability), &v1.LoadBalancersCapability{})
		declareLoadBalancers(capabilities.LoadBalancers, p.LoadBalancers)
	}
	if p.Routes != nil {
		capabilities.Routes = cmp.Or(proto.CloneOf(p.RoutesCapability), &v1.RoutesCapability{})
	}
	if p.Volumes != nil {
		capabilities.Volumes = cmp.Or(proto.CloneOf(p.VolumesCapability), &v1.VolumesCapability{})
	}
	return capabilities
}

func (p *Provider) core() *core {
	return &core{provider: p, capabilities: p.capabilities(), running: newRunning(), log: logger()}
}
