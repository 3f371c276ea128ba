// A cloud-controller-manager of Pond on upstream's library. Two lines make it a provider: the import of upstream, and the map of
// controllers, which was app.DefaultInitFuncConstructors.
package main

import (
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"outrigger.dev/adapters/go/upstream"
)

func main() {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("cannot make the options: %v", err)
	}
	opts.KubeCloudShared.CloudProvider.Name = "pond"
	controllerInitializers := upstream.InitFuncConstructors
	command := app.NewCloudControllerManagerCommand(opts, newCloud, controllerInitializers, names.CCMControllerAliases(),
		flag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

func newCloud(*config.CompletedConfig) cloudprovider.Interface {
	return &cloud{
		url: os.Getenv("POND"), token: os.Getenv("POND_TOKEN"), client: &http.Client{Timeout: 10 * time.Second},
	}
}
