// This file answers lookups of instances with upstream's InstancesV2, or with the older interfaces.

package serve

import (
	"cmp"
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// errNothing is an answer of a cloud that is neither a result nor an error.
var errNothing = errors.New("the cloud returned neither a result nor an error")

// errNotReturned is the answer about a Node whose lookup hangs.
var errNotReturned = provider.Errorf(provider.CloudError, "an earlier lookup of this node has not returned yet")

// instances answers lookups with a cloud's InstancesV2, which is asked for in each call, as by upstream.
type instances struct {
	cloud             *part[cloudprovider.InstancesV2]
	outcomes          *outcomes
	prefixes          []string
	withoutProviderID bool
	// room for calls at one time over all batches: calls of a cloud that hangs must not pile up.
	room      chan struct{}
	memory    *memory
	addresses addresses

	mu sync.Mutex
	// running are the lookups that have not returned, by Node. The context of one ends with it, or once its caller is gone.
	running map[string]context.Context
}

// newInstances asks a cloud for its instances.
func newInstances(options Options, cloud cloudprovider.Interface, memory *memory, outcomes *outcomes) (*instances, *v1.InstancesCapability) {
	machines := newPart("InstancesV2", false, func() (cloudprovider.InstancesV2, bool) { return instancesOf(cloud) })
	capability := &v1.InstancesCapability{
		LookupPreference:   v1.LookupPreference_LOOKUP_PREFERENCE_EACH,
		ProviderIdPrefixes: options.ProviderIDPrefixes, WithoutProviderId: options.WithoutProviderID,
		ManagedLabelKeys: options.ManagedLabelKeys,
	}
	if _, ok := machines.first.(BatchInstances); ok {
		capability.LookupPreference, capability.MaxBatchSize = v1.LookupPreference_LOOKUP_PREFERENCE_BATCH, maxBatch
	}
	if options.VisibilityDelay > 0 {
		capability.VisibilityDelay = durationpb.New(options.VisibilityDelay)
	}
	return &instances{
		cloud: machines, outcomes: outcomes, prefixes: options.ProviderIDPrefixes,
		withoutProviderID: options.WithoutProviderID, memory: memory,
		room: make(chan struct{}, options.InstanceConcurrency), running: map[string]context.Context{},
	}, capability
}

// instancesOf prefers InstancesV2, as upstream does.
func instancesOf(cloud cloudprovider.Interface) (cloudprovider.InstancesV2, bool) {
	if machines, ok := cloud.InstancesV2(); ok && machines != nil {
		return machines, true
	}
	old, ok := cloud.Instances()
	if !ok || old == nil {
		return nil, false
	}
	folded := &instancesV1{cloud: cloud, Instances: old}
	if zones, ok := cloud.Zones(); ok {
		folded.zones = zones
	}
	return folded, true
}

// Available tells whether the cloud has shown that it has instances.
func (i *instances) Available() bool { return i.cloud.Available() }

func (i *instances) GetInstances(ctx context.Context, nodes []*v1.Node, query provider.Query) (provider.Lookups, error) {
	cloud, err := i.cloud.get()
	if err != nil {
		return nil, i.outcomes.saw(err)
	}
	if batches, ok := cloud.(BatchInstances); ok {
		return (&batchInstances{i, batches}).GetInstances(ctx, nodes, query)
	}
	return (&eachInstance{i, cloud}).GetInstances(ctx, nodes, query)
}

// eachInstance answers lookups one by one.
type eachInstance struct {
	*instances
	cloud cloudprovider.InstancesV2
}

func (i *eachInstance) GetInstances(ctx context.Context, nodes []*v1.Node, query provider.Query) (provider.Lookups, error) {
	lookups, err := provider.Each(ctx, cap(i.room), nodes, func(ctx context.Context, sent *v1.Node) (provider.Lookup, error) {
		leave, err := i.enter(ctx, sent.Name)
		if err != nil {
			return provider.Lookup{}, err
		}
		defer leave()
		node := i.received(sent)
		if node == nil {
			return notOurs, nil
		}
		lookup, err := i.lookup(ctx, node, query)
		return lookup, i.outcomes.saw(about(err, sent))
	})
	if err != nil { // the caller is gone: effects wait for the next answer, as do those of a lookup that ends after this one
		return nil, err
	}
	for name, lookup := range lookups {
		lookups[name] = lookup.WithEffects(i.memory.take(nodePath(name), answerEffectBytes))
	}
	return lookups, nil
}

// notOurs is the answer about a Node with another provider's ID.
var notOurs = provider.NotManaged("the provider ID begins with none of this provider's prefixes")

// received is the Node as the cloud's code gets it; nil: it is another provider's.
func (i *instances) received(sent *v1.Node) *corev1.Node {
	if sent.ProviderId != "" && !i.isOurs(sent.ProviderId) {
		return nil
	}
	node := nodeOf(sent)
	i.memory.sawNode(node)
	return node
}

// enter waits for an earlier lookup of the Node and for room. A lookup that hangs, whatever its context says, has one
// place, however often the controller asks about its Node.
func (i *instances) enter(ctx context.Context, node string) (leave func(), err error) {
	end, other, gone := i.begins(ctx, node)
	for ; other != nil; end, other, gone = i.begins(ctx, node) {
		if gone != nil {
			return nil, errNotReturned
		}
		select {
		case <-other.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case i.room <- struct{}{}:
		return func() { <-i.room; end() }, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	}
}

// begins notes a lookup until its end; other: that of the Node which runs, and gone: its caller does not wait for it.
func (i *instances) begins(ctx context.Context, node string) (end func(), other context.Context, gone error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if other := i.running[node]; other != nil {
		return func() {}, other, other.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	i.running[node] = ctx
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.running, node)
		cancel()
	}, nil, nil
}

func (i *eachInstance) lookup(ctx context.Context, node *corev1.Node, query provider.Query) (provider.Lookup, error) {
	defer i.memory.hold(nodePath(node.Name))()
	power := v1.PowerState_POWER_STATE_UNSPECIFIED
	if query.View != v1.InstanceView_INSTANCE_VIEW_METADATA {
		exists, err := i.cloud.InstanceExists(ctx, node)
		switch {
		case err != nil: // InstanceNotFound too, as upstream: only (false, nil) says that it is gone
			return provider.Lookup{}, err
		case !exists:
			return i.absent(node, query), nil
		}
		if power, err = i.powerState(ctx, node); err != nil {
			return provider.Lookup{}, err
		}
	}
	id := node.Spec.ProviderID
	if query.View == v1.InstanceView_INSTANCE_VIEW_STATE && (id != "" || i.withoutProviderID) {
		return provider.Found(&v1.Instance{ProviderId: id, PowerState: power}), nil
	}
	metadata, err := i.cloud.InstanceMetadata(ctx, node)
	switch {
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return i.notFound(ctx, node, query)
	case err != nil:
		return provider.Lookup{}, err
	case metadata == nil:
		return provider.Lookup{}, errNothing
	}
	return i.found(ctx, node, power, metadata)
}

func (i *instances) found(ctx context.Context, node *corev1.Node, power v1.PowerState, metadata *cloudprovider.InstanceMetadata) (provider.Lookup, error) {
	id := cmp.Or(metadata.ProviderID, node.Spec.ProviderID)
	if err := i.checkProviderID(id); err != nil {
		return provider.Lookup{}, err
	}
	if node.Spec.ProviderID != id {
		// The controller is about to write this ID, by which clouds find the Node of an instance.
		node = node.DeepCopy()
		node.Spec.ProviderID = id
		i.memory.sawNode(node)
	}
	return provider.Found(&v1.Instance{
		ProviderId: id, PowerState: power,
		InstanceType: metadata.InstanceType, Zone: metadata.Zone, Region: metadata.Region,
		Addresses: i.addresses.sent(ctx, node.Name, metadata.NodeAddresses), AdditionalLabels: metadata.AdditionalLabels,
	}), nil
}

// notFound asks once more: clouds say InstanceNotFound about metadata that are not there yet, too, and only
// InstanceExists has an answer that says that a machine is gone.
func (i *eachInstance) notFound(ctx context.Context, node *corev1.Node, query provider.Query) (provider.Lookup, error) {
	if query.MaxStaleness > 0 {
		return provider.NotVisibleYet(), nil
	}
	exists, err := i.cloud.InstanceExists(ctx, node)
	switch {
	case err != nil && !errors.Is(err, cloudprovider.InstanceNotFound):
		return provider.Lookup{}, err
	case err != nil, exists:
		return provider.NotVisibleYet(), nil
	default:
		return i.absent(node, query), nil
	}
}

// absent is a confirmed absence only where the cloud's caches were not allowed: nothing says whether it used them.
func (i *instances) absent(node *corev1.Node, query provider.Query) provider.Lookup {
	if query.MaxStaleness > 0 {
		return provider.NotVisibleYet()
	}
	i.memory.forget(nodePath(node.Name))
	return provider.Absent()
}

func (i *eachInstance) powerState(ctx context.Context, node *corev1.Node) (v1.PowerState, error) {
	isShutdown, err := i.cloud.InstanceShutdown(ctx, node)
	switch {
	case errors.Is(err, cloudprovider.NotImplemented):
		return v1.PowerState_POWER_STATE_UNSPECIFIED, nil // no taint is added or removed
	case err != nil:
		return v1.PowerState_POWER_STATE_UNSPECIFIED, err
	case isShutdown:
		return v1.PowerState_POWER_STATE_SHUTDOWN, nil
	default:
		return v1.PowerState_POWER_STATE_RUNNING, nil
	}
}

// checkProviderID finds an option that does not fit the cloud before a Node gets an ID, which never changes, that the
// controller takes for another provider's.
func (i *instances) checkProviderID(id string) error {
	switch {
	case id == "" && !i.withoutProviderID:
		return errors.New("the cloud gives this node no provider ID; if it has none at all, " +
			"set Options.WithoutProviderID")
	case id == "", i.isOurs(id):
		return nil
	default:
		return provider.Errorf(provider.CloudError, "the cloud's provider ID %q begins with none of %q; "+
			"name its beginning in Options.ProviderIDPrefixes", id, i.prefixes)
	}
}

func (i *instances) isOurs(id string) bool { return hasPrefix(id, i.prefixes) }

// instancesV1 folds Instances and Zones, the older interfaces, into InstancesV2 as upstream's
// controllers did.
type instancesV1 struct {
	cloud cloudprovider.Interface
	cloudprovider.Instances
	zones cloudprovider.Zones // nil: not supported
}

// providerID of the node, or the one that its name leads to.
func (i *instancesV1) providerID(ctx context.Context, node *corev1.Node) (string, error) {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID, nil
	}
	return cloudprovider.GetInstanceProviderID(ctx, i.cloud, types.NodeName(node.Name))
}

func (i *instancesV1) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	id, err := i.providerID(ctx, node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return i.InstanceExistsByProviderID(ctx, id)
}

func (i *instancesV1) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	id, err := i.providerID(ctx, node)
	if err != nil {
		return false, err
	}
	return i.InstanceShutdownByProviderID(ctx, id)
}

func (i *instancesV1) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	name := types.NodeName(node.Name)
	id, err := i.providerID(ctx, node)
	if err != nil && !errors.Is(err, cloudprovider.NotImplemented) {
		return nil, err
	}
	metadata := &cloudprovider.InstanceMetadata{ProviderID: id}
	metadata.NodeAddresses, err = eitherWay(node,
		func() ([]corev1.NodeAddress, error) { return i.NodeAddressesByProviderID(ctx, id) },
		func() ([]corev1.NodeAddress, error) { return i.NodeAddresses(ctx, name) })
	if err != nil {
		return nil, err
	}
	metadata.InstanceType, err = eitherWay(node,
		func() (string, error) { return i.InstanceTypeByProviderID(ctx, id) },
		func() (string, error) { return i.Instances.InstanceType(ctx, name) })
	if err != nil || i.zones == nil {
		return metadata, err
	}
	zone, err := eitherWay(node,
		func() (cloudprovider.Zone, error) { return i.zones.GetZoneByProviderID(ctx, id) },
		func() (cloudprovider.Zone, error) { return i.zones.GetZoneByNodeName(ctx, name) })
	metadata.Zone, metadata.Region = zone.FailureDomain, zone.Region
	return metadata, err
}

// eitherWay asks by provider ID and, where that fails, by name. The machine of an ID that is gone is not another one with its name.
func eitherWay[T any](node *corev1.Node, byID, byName func() (T, error)) (T, error) {
	value, idErr := byID()
	if idErr == nil || node.Spec.ProviderID != "" && errors.Is(idErr, cloudprovider.InstanceNotFound) {
		return value, idErr
	}
	value, nameErr := byName()
	if nameErr == nil {
		return value, nil
	}
	return value, errors.Join(idErr, nameErr)
}
