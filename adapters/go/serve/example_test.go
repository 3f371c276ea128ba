// This file shows the main function of a wrapped cloud.

package serve_test

import (
	"context"
	"errors"
	"fmt"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

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
	fmt.Println(example.Name, example.InstancesCapability.ProviderIdPrefixes, example.Routes == nil)
	// Output: example [example://] true
}
