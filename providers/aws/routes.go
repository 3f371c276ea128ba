// This file has AWS's cloud, and names the targets of its routes by provider ID, which needs no informer.

package main

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	aws "k8s.io/cloud-provider-aws/pkg/providers/v1"

	"outrigger.dev/adapters/go/serve"
)

// cloud is AWS's, with routes that name their targets by provider ID, by which the controller finds the Nodes.
// AWS's own code finds them in its informer, and fails as a whole where one is missing: after a restart, and when a
// Node was deleted while its instance runs.
type cloud struct {
	*aws.Cloud
	schemes
	// first is the first lookup of an instance.
	first sync.Once
	// byName has room for lookups by name.
	byName chan struct{}
}

// open makes AWS's cloud.
func (c *cloud) open() (cloudprovider.Interface, error) {
	registered, err := serve.Registered(aws.ProviderName)()
	if err != nil {
		return nil, err
	}
	published, ok := registered.(*aws.Cloud)
	if !ok {
		return nil, fmt.Errorf("%q is registered as a %T", aws.ProviderName, registered)
	}
	c.Cloud, c.byName = published, make(chan struct{}, lookupsByName)
	ctx := context.Background()
	zone, err := published.GetZone(ctx)
	if err != nil {
		return nil, err
	}
	return c, c.connect(ctx, zone.Region)
}

func (c *cloud) Routes() (cloudprovider.Routes, bool) { return c, true }

func (c *cloud) SetInformers(factory informers.SharedInformerFactory) {
	c.Cloud.SetInformers(byInstance{factory})
}

func (c *cloud) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	routes, err := c.Cloud.ListRoutes(ctx, clusterName)
	if err != nil {
		return nil, err
	}
	lookups, ctx := errgroup.WithContext(ctx)
	for _, route := range routes {
		if route.TargetNode == "" { // leads nowhere
			continue
		}
		lookups.Go(func() error { // AWS's code makes one request of all
			path, err := c.InstanceID(ctx, route.TargetNode)
			route.TargetNode = types.NodeName(aws.ProviderName + "://" + path)
			return err
		})
	}
	return routes, lookups.Wait()
}

// byInstance are informers with an index that gives an instance's id for the name of its Node.
type byInstance struct {
	informers.SharedInformerFactory
}

func (f byInstance) Core() core.Interface { return group{f.SharedInformerFactory.Core()} }

type group struct{ core.Interface }

func (g group) V1() corev1.Interface { return version{g.Interface.V1()} }

type version struct{ corev1.Interface }

func (v version) Nodes() corev1.TypedNodeInformer { return nodes{v.Interface.Nodes()} }

type nodes struct{ corev1.TypedNodeInformer }

func (n nodes) Informer() cache.SharedIndexInformer { return informer{n.TypedNodeInformer.Informer()} }

type informer struct{ cache.SharedIndexInformer }

// HasSynced: AWS's code uses no index before that, and this one needs no Node. A Node that its lister lacks, as all
// without rights in Kubernetes, it finds in the cloud by its name.
func (informer) HasSynced() bool { return true }

func (i informer) GetIndexer() cache.Indexer { return indexer{i.SharedIndexInformer.GetIndexer()} }

type indexer struct{ cache.Indexer }

func (indexer) IndexKeys(_, instanceID string) ([]string, error) { return []string{instanceID}, nil }
