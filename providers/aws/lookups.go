// This file looks up many of AWS's instances together, which AWS's code joins to one request.

package main

import (
	"context"
	"errors"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	aws "k8s.io/cloud-provider-aws/pkg/providers/v1"

	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/serve"
)

const (
	// lookupsByID run at one time. AWS's code makes one DescribeInstances of all that begin within 100 ms.
	lookupsByID = 100
	// lookupsByName run at one time. Each is a DescribeInstances of its own.
	lookupsByName = 8
)

func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// InstancesByNode looks all Nodes up at the same time.
func (c *cloud) InstancesByNode(ctx context.Context, nodes []*corev1.Node) (map[string]serve.InstanceResult, error) {
	var mu sync.Mutex
	results := map[string]serve.InstanceResult{}
	lookUp := func(node *corev1.Node) {
		result, err := provider.Recovered(ctx, func() (serve.InstanceResult, error) { return c.lookUp(ctx, node) })
		if err != nil {
			result = serve.InstanceResult{Err: err}
		}
		mu.Lock()
		defer mu.Unlock()
		results[node.Name] = result
	}
	// The first one alone, since it fills AWS's caches of zones and of types of instances without topology.
	c.first.Do(func() {
		lookUp(nodes[0])
		nodes = nodes[1:]
	})
	var lookups errgroup.Group
	lookups.SetLimit(lookupsByID)
	for _, node := range nodes {
		lookups.Go(func() error { lookUp(node); return nil })
	}
	return results, lookups.Wait()
}

func (c *cloud) lookUp(ctx context.Context, node *corev1.Node) (serve.InstanceResult, error) {
	absent := serve.InstanceResult{Absent: true}
	node, err := c.withProviderID(ctx, node)
	switch {
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return absent, nil
	case err != nil:
		return absent, err
	}
	// At the same time too, so that the three are one request.
	exists := begin(ctx, func() (bool, error) { return c.InstanceExists(ctx, node) })
	isShutdown := begin(ctx, func() (bool, error) { return c.InstanceShutdown(ctx, node) })
	metadata := begin(ctx, func() (*cloudprovider.InstanceMetadata, error) { return c.InstanceMetadata(ctx, node) })
	if exists, err := exists(); err != nil || !exists {
		return absent, err
	}
	result := serve.InstanceResult{}
	if result.Shutdown, err = isShutdown(); err == nil {
		result.Metadata, err = metadata()
	}
	if err == nil {
		respell(result.Metadata)
	}
	return result, err
}

// respell gives an EC2 instance the ID of its zone: AWS's code answers with the Node's own, which may have any zone and
// escapes, so that two Nodes with one instance would not be noticed.
func respell(metadata *cloudprovider.InstanceMetadata) {
	id, err := aws.KubernetesInstanceID(metadata.ProviderID).MapToAWSInstanceID()
	if err == nil && strings.HasPrefix(string(id), "i-") && metadata.Zone != "" {
		metadata.ProviderID = aws.ProviderName + ":///" + metadata.Zone + "/" + string(id)
	}
}

// begin runs a call, and returns a function that waits for its result.
func begin[T any](ctx context.Context, call func() (T, error)) func() (T, error) {
	var result T
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result, err = provider.Recovered(ctx, call)
	}()
	return func() (T, error) {
		<-ended
		return result, err
	}
}

// withProviderID is the Node with the provider ID that its name leads to.
func (c *cloud) withProviderID(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	if ctx.Err() != nil { // AWS's code waits for its requests whatever the context says
		return nil, ctx.Err()
	}
	if node.Spec.ProviderID != "" {
		return node, nil
	}
	select {
	case c.byName <- struct{}{}:
		defer func() { <-c.byName }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	id, err := c.InstanceID(ctx, types.NodeName(node.Name))
	if err != nil {
		return nil, err
	}
	node = node.DeepCopy()
	node.Spec.ProviderID = aws.ProviderName + "://" + id
	return node, nil
}
