// This file shows a whole provider, and how a batch and a rate limit are answered.

package provider_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// machines are a cloud's machines by their provider IDs.
type machines map[string]string

// GetInstances asks the cloud about one machine at a time.
func (m machines) GetInstances(ctx context.Context, nodes []*v1.Node, _ provider.Query) (provider.Lookups, error) {
	return provider.Each(ctx, 8, nodes, func(_ context.Context, node *v1.Node) (provider.Lookup, error) {
		zone, exists := m[node.ProviderId]
		if !exists {
			return provider.Absent(), nil
		}
		return provider.Found(&v1.Instance{ProviderId: node.ProviderId, Zone: zone}), nil
	})
}

// ExampleMain is the main function of a provider.
func ExampleMain() {
	provider.Main(func(context.Context) (*provider.Provider, error) {
		return &provider.Provider{Name: "example", Version: "1.0.0", Instances: machines{"example://1": "a"}}, nil
	})
}

// Example serves a provider until its context ends, and asks it for its health as the kubelet's probe does.
func Example() {
	directory, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(directory) }()
	endpoint, err := provider.ParseEndpoint("unix://" + filepath.Join(directory, "provider.sock"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	example := &provider.Provider{Name: "example", Version: "1.0.0", Instances: machines{}}
	go func() { ended <- example.ServeUntil(ctx, endpoint) }()
	sentence := ""
	for sentence == "" {
		sentence, _ = provider.Probe(endpoint, true, time.Second) // there is no socket at first
	}
	stop()
	fmt.Println(strings.ReplaceAll(sentence, directory, "…"), <-ended)
	// Output: the provider at unix://…/provider.sock is ready <nil>
}

// ExampleEach gives each item of a batch its own result: one that fails does not take the others with it.
func ExampleEach() {
	nodes := []*v1.Node{{Name: "a"}, {Name: "b"}}
	lookups, err := provider.Each(context.Background(), 8, nodes, func(_ context.Context, node *v1.Node) (provider.Lookup, error) {
		if node.Name == "b" {
			return provider.Lookup{}, provider.Errorf(provider.CloudError, "no answer about %s", node.Name)
		}
		return provider.Found(&v1.Instance{ProviderId: "example://a"}), nil
	})
	fmt.Println(lookups["a"].Found.ProviderId, lookups["b"].Err, err)
	// Output: example://a no answer about b <nil>
}

// ExampleBatcher makes many routes by one request of a cloud, where the controller asks for each of them by a call.
func ExampleBatcher() {
	together := provider.NewBatcher(100, func(_ context.Context, routes []*v1.Route) ([]*v1.CreateRouteResponse, error) {
		var made []*v1.CreateRouteResponse
		for _, route := range routes { // the answer of the cloud's request
			made = append(made, &v1.CreateRouteResponse{Found: &v1.Route{Name: "r-1", DestinationCidr: route.DestinationCidr}})
		}
		return made, nil
	})
	createRoute := func(ctx context.Context, route *v1.Route) (*v1.CreateRouteResponse, error) { // of provider.Routes
		return together.Do(ctx, route)
	}
	made, err := createRoute(context.Background(), &v1.Route{DestinationCidr: "10.0.1.0/24"})
	fmt.Println(made.Found.Name, err)
	// Output: r-1 <nil>
}

// ExampleRateLimitedFor pauses all calls of a class until the cloud takes requests again.
func ExampleRateLimitedFor() {
	err := provider.RateLimitedFor(30*time.Second, errors.New("429"))
	fmt.Println(err.Reason, err.RetryAfter)
	fmt.Println(err)
	// Output:
	// ERROR_REASON_RATE_LIMITED 30s
	// the cloud's API limits the rate of calls: 429
}
