// This file has the interface that a cloud may implement beside upstream's, and looks up Nodes with it.

package serve

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// BatchInstances is implemented by an InstancesV2 whose cloud answers about many Nodes with one call, or with a few.
// The adapter then calls this method instead of those of InstancesV2, and the controller sends full batches.
type BatchInstances interface {
	// InstancesByNode looks up 1 to 200 Nodes with distinct names: by provider ID, and only where that is empty by name.
	// It returns the result of each Node by its name. A Node without a result is a failed lookup, not an absence.
	// An error is that of each Node, and changes none; if it names no reason (Options.Classify) the controller asks
	// again by halves, so that one Node fails alone. At most Options.InstanceConcurrency calls run at one time. ctx
	// ends with its caller.
	InstancesByNode(ctx context.Context, nodes []*corev1.Node) (map[string]InstanceResult, error)
}

// InstanceResult is the answer about one Node: one of Metadata, Absent and Err.
type InstanceResult struct {
	// Metadata of the instance, as InstanceMetadata returns it.
	Metadata *cloudprovider.InstanceMetadata
	// Shutdown says that the instance is shut down, as InstanceShutdown does.
	Shutdown bool
	// Absent says that the cloud was asked during this call, with the permission to see every instance, and has none for
	// this Node, as (false, nil) of InstanceExists does. THE NODE MAY BE DELETED.
	Absent bool
	// Err is why the lookup failed. cloudprovider.InstanceNotFound: the instance is not visible yet.
	Err error
}

// maxBatch is the number of Nodes in one call. The controller sends no more.
const maxBatch = 200

// batchInstances answers lookups with a cloud's BatchInstances.
type batchInstances struct {
	*instances
	batches BatchInstances
}

func (b *batchInstances) GetInstances(ctx context.Context, sent []*v1.Node, query provider.Query) (provider.Lookups, error) {
	lookups := provider.Lookups{}
	var nodes []*corev1.Node
	for _, sent := range sent {
		switch node := b.received(sent); {
		case node == nil:
			lookups[sent.Name] = notOurs
		case b.hangs(ctx, node.Name):
			lookups[sent.Name] = provider.Failed(errNotReturned)
		default:
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return lookups, nil
	}
	results, err := b.ask(ctx, sent, nodes)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		if result, ok := results[node.Name]; ok { // one that is missing is reported by the caller
			lookup, err := b.lookupOf(ctx, node, result, query)
			if err != nil {
				lookup = provider.Failed(b.outcomes.saw(about(err, sent)))
			}
			lookups[node.Name] = lookup.WithEffects(b.memory.take(nodePath(node.Name), answerEffectBytes))
		}
	}
	return lookups, nil
}

// ask makes one call as soon as there is room for it. A call that has not returned when its caller is gone, whatever its
// context says, gives its room to others. The controller then asks about each of its Nodes alone; the one that it hangs at
// is left out from then on, until its call has returned.
func (b *batchInstances) ask(ctx context.Context, sent []*v1.Node, nodes []*corev1.Node) (map[string]InstanceResult, error) {
	select {
	case b.room <- struct{}{}:
		defer func() { <-b.room }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var results map[string]InstanceResult
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done) // after the Nodes were released: effects that are taken while a call runs stay
		for _, node := range nodes {
			defer b.memory.hold(nodePath(node.Name))()
		}
		results, err = provider.Recovered(ctx, func() (map[string]InstanceResult, error) {
			return b.batches.InstancesByNode(ctx, nodes)
		})
	}()
	select {
	case <-done:
	case <-ctx.Done():
		log := provider.CallOf(ctx).Log
		go func() {
			<-done
			log.Warn("the cloud's answer is lost: it came after the 30 s of a lookup", "nodes", len(nodes))
		}()
		if len(nodes) == 1 {
			end, _, _ := b.begins(ctx, nodes[0].Name)
			go func() { <-done; end() }()
		}
		return nil, ctx.Err()
	}
	named := b.outcomes.saw(about(err, sent))
	var reason *provider.Error
	if errors.As(named, &reason) && reason.Reason == provider.CloudError && len(nodes) > 1 {
		return nil, err // one of the Nodes may be the cause: without a reason the controller asks again by halves
	}
	return results, named
}

// hangs tells whether a call about this Node alone has outlived its caller and has not returned yet.
func (b *batchInstances) hangs(ctx context.Context, node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	isRunning := b.running[node] != nil
	if isRunning {
		provider.CallOf(ctx).Log.Warn("the node is not looked up: an earlier call about it alone has not returned", "node", node)
	}
	return isRunning
}

func (b *batchInstances) lookupOf(ctx context.Context, node *corev1.Node, result InstanceResult, query provider.Query) (provider.Lookup, error) {
	switch {
	case errors.Is(result.Err, cloudprovider.InstanceNotFound):
		return provider.NotVisibleYet(), nil
	case result.Err != nil:
		return provider.Lookup{}, result.Err
	case result.Metadata != nil:
		power := v1.PowerState_POWER_STATE_RUNNING
		if result.Shutdown {
			power = v1.PowerState_POWER_STATE_SHUTDOWN
		}
		return b.found(ctx, node, power, result.Metadata)
	case result.Absent:
		return b.absent(node, query), nil
	default:
		return provider.Lookup{}, errNothing
	}
}
