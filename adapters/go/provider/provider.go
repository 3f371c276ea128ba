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
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// DefaultMaxMessageBytes is the largest message that is accepted unless a Provider says otherwise.
const DefaultMaxMessageBytes = 4 << 20

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
	// MaxMessageBytes is the largest message that is accepted; 0: 4 MiB, at least 1 MiB.
	MaxMessageBytes int

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

// capabilities are those that can be offered, with the defaults of the contract filled in.
func (p *Provider) capabilities() *v1.Capabilities {
	capabilities := &v1.Capabilities{Effects: p.Effects}
	if p.Instances != nil {
		capabilities.Instances = copied(&v1.InstancesCapability{}, p.InstancesCapability)
		declareInstances(capabilities.Instances, p.Instances)
		capabilities.Instances.MaxBatchSize = cmp.Or(capabilities.Instances.MaxBatchSize, 100)
	}
	if p.LoadBalancers != nil {
		capabilities.NodeSets = &v1.NodeSetsCapability{}
		capabilities.LoadBalancers = copied(&v1.LoadBalancersCapability{}, p.LoadBalancersCapability)
		declareLoadBalancers(capabilities.LoadBalancers, p.LoadBalancers)
	}
	if p.Routes != nil {
		capabilities.Routes = copied(&v1.RoutesCapability{}, p.RoutesCapability)
	}
	if p.Volumes != nil {
		capabilities.Volumes = copied(&v1.VolumesCapability{}, p.VolumesCapability)
	}
	return capabilities
}

// copied merges a message, which may be nil, into an empty one.
func copied[M proto.Message](empty, message M) M {
	proto.Merge(empty, message)
	return empty
}

var legalName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// check refuses at the start, where the author sees it, a declaration that the controller would refuse at handshake.
func (p *Provider) check(capabilities *v1.Capabilities) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("this provider cannot be served: "+format, args...)
	}
	if !legalName.MatchString(p.Name) {
		return wrong("the name %q is not legal: use 1 to 63 of a-z, 0-9 and '-'", p.Name)
	}
	for _, size := range []struct {
		field       string
		value, most uint32
	}{
		{"InstancesCapability.max_batch_size", capabilities.GetInstances().GetMaxBatchSize(), 500},
		{"LoadBalancersCapability.max_in_flight", capabilities.GetLoadBalancers().GetMaxInFlight(), 256},
	} {
		if size.value > size.most {
			return wrong("%s is %d: use at most %d", size.field, size.value, size.most)
		}
	}
	if slices.Contains(capabilities.GetInstances().GetProviderIdPrefixes(), "") {
		return wrong("InstancesCapability.provider_id_prefixes has an empty prefix, which would claim every Node " +
			"of the cluster: remove it")
	}
	balancers := capabilities.GetLoadBalancers()
	if balancers.GetWithoutDefaultClass() && len(balancers.GetClasses()) == 0 {
		return wrong("LoadBalancersCapability.without_default_class without classes serves no Service at all")
	}
	if bytes := len(balancers.GetConfigurationRevision()); bytes > 64 {
		return wrong("LoadBalancersCapability.configuration_revision has %d bytes: use at most 64", bytes)
	}
	effects := capabilities.GetEffects()
	written := slices.Concat(effects.GetServiceAnnotationPrefixes(), effects.GetNodeAnnotationPrefixes(), effects.GetConditionTypePrefixes())
	for _, prefix := range written {
		if isOfKubernetes(prefix) {
			return wrong("Effects has the prefix %q, under which the controller writes nothing: it has to begin with a domain "+
				"that is not outrigger.dev, kubernetes.io or k8s.io; a provider that writes there needs rights of its own", prefix)
		}
	}
	for _, list := range []struct {
		field   string
		entries []string
	}{
		{"EffectsCapability.service_annotation_prefixes", effects.GetServiceAnnotationPrefixes()},
		{"EffectsCapability.node_annotation_prefixes", effects.GetNodeAnnotationPrefixes()},
		{"EffectsCapability.condition_type_prefixes", effects.GetConditionTypePrefixes()},
		{"InstancesCapability.provider_id_prefixes", capabilities.GetInstances().GetProviderIdPrefixes()},
		{"InstancesCapability.managed_label_keys", capabilities.GetInstances().GetManagedLabelKeys()},
		{"LoadBalancersCapability.classes", balancers.GetClasses()},
		{"VolumesCapability.csi_drivers", capabilities.GetVolumes().GetCsiDrivers()},
		{"ServiceAnnotationPrefixes", p.ServiceAnnotationPrefixes},
		{"NodeAnnotationPrefixes", p.NodeAnnotationPrefixes},
	} {
		if len(list.entries) > 64 {
			return wrong("%s has %d entries: use at most 64", list.field, len(list.entries))
		}
		for _, entry := range list.entries {
			if !isVisible(entry) {
				return wrong("%s has %q: use 1 to 253 visible ASCII characters", list.field, entry)
			}
		}
	}
	return nil
}

// isOfKubernetes tells whether a prefix is in a domain that is never granted to a provider.
func isOfKubernetes(prefix string) bool {
	domain, _, _ := strings.Cut(prefix, "/")
	return slices.ContainsFunc([]string{"outrigger.dev", "kubernetes.io", "k8s.io"}, func(reserved string) bool {
		return domain == reserved || strings.HasSuffix(domain, "."+reserved)
	})
}

func isVisible(text string) bool {
	return len(text) >= 1 && len(text) <= 253 && !strings.ContainsFunc(text, func(char rune) bool { return char <= ' ' || char > '~' })
}

func (p *Provider) core() (*core, error) {
	capabilities := p.capabilities()
	if err := p.check(capabilities); err != nil {
		return nil, err
	}
	maxMessageBytes := DefaultMaxMessageBytes
	if p.MaxMessageBytes > 0 {
		maxMessageBytes = max(p.MaxMessageBytes, 1<<20) // what every provider must accept
	}
	return &core{
		provider: p, capabilities: capabilities, maxMessageBytes: maxMessageBytes,
		running: newRunning(), log: logger(),
	}, nil
}
