// A cloud-controller-manager as vendors build it: upstream's library with the bench's cloud in process, or with a provider of
// Outrigger's contract as its cloud.
package main

import (
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // its clients' metrics, as in every such program
	"k8s.io/klog/v2"

	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/contract"
)

func main() {
	defaults, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("cannot make the options: %v", err)
	}
	command := app.NewCloudControllerManagerCommand(defaults, initialize, app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), flag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

func initialize(*config.CompletedConfig) cloudprovider.Interface {
	var instance cloudprovider.Interface
	var err error
	if endpoint := os.Getenv(contract.Endpoint); endpoint != "" {
		instance, err = contract.Connect(endpoint)
	} else {
		instance, err = cloud.FromEnvironment()
	}
	if err != nil {
		klog.Fatalf("cannot make the cloud: %v", err)
	}
	return instance
}
