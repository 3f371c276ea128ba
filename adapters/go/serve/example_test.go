// This file shows the main function of a wrapped cloud.

package serve_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/serve"
)

func newCloud() (cloudprovider.Interface, error) {
	return &fake.Cloud{Provider: "example", EnableInstancesV2: true, DisableRoutes: true}, nil
}

// ExampleMain is the main function of a provider with the default options.
func ExampleMain() {
	serve.Main(newCloud)
}

// servers looks Nodes up in a list of all servers, by their names.
type servers struct {
	cloudprovider.InstancesV2
	listed map[string]*cloudprovider.InstanceMetadata
}

// InstancesByNode has one list for all Nodes. A Node without a server may be deleted, so that the list must be whole.
func (s servers) InstancesByNode(_ context.Context, nodes []*corev1.Node) (map[string]serve.InstanceResult, error) {
	results := map[string]serve.InstanceResult{}
	for _, node := range nodes {
		server, exists := s.listed[node.Name]
		results[node.Name] = serve.InstanceResult{Metadata: server, Absent: !exists}
	}
	return results, nil
}

// listing is a cloud whose InstancesV2 has BatchInstances too.
type listing struct {
	cloudprovider.Interface
	servers servers
}

func (l listing) InstancesV2() (cloudprovider.InstancesV2, bool) { return l.servers, true }

// ExampleBatchInstances is a cloud that answers about many Nodes with one call: the controller sends full batches.
func ExampleBatchInstances() {
	example, err := serve.New(context.Background(), serve.Options{}, func() (cloudprovider.Interface, error) {
		cloud, err := newCloud()
		return listing{cloud, servers{listed: map[string]*cloudprovider.InstanceMetadata{"a": {ProviderID: "example://1"}}}}, err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	lookups, err := example.Instances.GetInstances(context.Background(), []*v1.Node{{Name: "a"}, {Name: "b"}}, provider.Query{})
	fmt.Println(example.InstancesCapability.LookupPreference, lookups["a"].Found.ProviderId, lookups["b"].Absent.Certainty, err)
	// Output: LOOKUP_PREFERENCE_BATCH example://1 ABSENCE_CERTAINTY_CONFIRMED <nil>
}

var errNoSuchType = errors.New("there is no such type of load balancer")

// ExampleRun is the main function of a provider with options: a prefix that the cloud's provider IDs have, and an error that only this
// cloud has.
func ExampleRun() {
	serve.Run(serve.Options{
		ProviderIDPrefixes: []string{"example-cloud://"},
		Classify: func(err error) *provider.Error {
			if errors.Is(err, errNoSuchType) {
				return provider.Errorf(provider.InvalidAnnotation, "%w", err)
			}
			return nil
		},
	}, newCloud)
}

// ExampleNew makes a provider of a cloud: it serves what the cloud implements.
func ExampleNew() {
	example, err := serve.New(context.Background(), serve.Options{}, newCloud)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(example.Name, example.InstancesCapability.ProviderIdPrefixes)
	// Output: example [example://]
}
