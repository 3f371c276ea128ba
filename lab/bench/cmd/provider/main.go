// The bench's cloud behind the Go adapter, with the adapter's default options.
package main

import (
	"context"
	"flag"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"outrigger.dev/adapters/go/serve"
	"outrigger.dev/bench/cloud"
)

func main() {
	isBatched := false
	// Each replica of a round has flags and an environment of its own, which are the same after the restart of a Pod.
	options := serve.Options{ConfigurationRevision: "bench", Flags: func(flags *flag.FlagSet) {
		flags.BoolVar(&isBatched, "batch", false, "serve the interface BatchInstances too, and change many load balancers at one time")
	}, AfterFlags: func(options *serve.Options) {
		if isBatched {
			options.LoadBalancersInFlight = loadBalancers
		}
	}}
	serve.Run(options, func() (cloudprovider.Interface, error) {
		made, err := cloud.FromEnvironment()
		if err == nil && isBatched {
			return batched{made}, nil
		}
		return made, err
	})
}

// loadBalancers is what tuned upstream changes at the same time.
const loadBalancers = 32

// batched is the cloud with the interface that the adapter has beside upstream's.
type batched struct{ *cloud.Cloud }

func (b batched) InstancesV2() (cloudprovider.InstancesV2, bool) { return b, true }

// machinesOfOneCall is the number of machines that one call of the mock's cloud looks up, too.
const machinesOfOneCall = 200

func (b batched) InstancesByNode(ctx context.Context, nodes []*corev1.Node) (map[string]serve.InstanceResult, error) {
	results := map[string]serve.InstanceResult{}
	for nodes := range slices.Chunk(nodes, machinesOfOneCall) {
		machines, err := b.Machines(ctx, "InstancesByNode", nodes...)
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			results[node.Name] = serve.InstanceResult{Metadata: machines[node.Name]}
		}
	}
	return results, nil
}
