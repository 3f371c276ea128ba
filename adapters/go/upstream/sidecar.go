// This file serves the cloud of a process that upstream's app runs.

package upstream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/serve"
)

// silence is how long a leader waits for its controller, which asks for the status every 10 s, or 60 s as a standby.
var silence = 3 * time.Minute

// sidecar is a cloud and what upstream's app knows about it.
type sidecar struct {
	options  serve.Options
	settings *config.CompletedConfig
	cloud    cloudprovider.Interface
	endpoint provider.Endpoint
}

func newSidecar(options serve.Options, settings *config.CompletedConfig, cloud cloudprovider.Interface) (*sidecar, error) {
	if err := check(settings.ComponentConfig.Generic); err != nil {
		return nil, err
	}
	endpoint, err := provider.ParseEndpoint(cmp.Or(os.Getenv(provider.EndpointEnv), provider.DefaultEndpoint))
	// The app gives it to Initialize.
	settings.ClientBuilder = options.ClientBuilder(settings.ClientBuilder)
	return &sidecar{options, settings, cloud, endpoint}, err
}

// start is the app's InitFunc: the cloud is initialized, and this process leads if it takes part in an election.
func (s *sidecar) start(ctx context.Context, _ controllermanager.ControllerContext) (controller.Interface, bool, error) {
	// The lines of the SDK go where main sends those of klog.
	slog.SetDefault(slog.New(logr.ToSlogHandler(klog.NewKlogr())))
	go func() { end(s.serve(ctx)) }()
	return nil, true, nil
}

// serve returns after a signal, or with an error. The Lease of a leader that ends so expires.
func (s *sidecar) serve(ctx context.Context) error {
	controllerAsks := func() {}
	if s.settings.ComponentConfig.Generic.LeaderElection.LeaderElect {
		controllerAsks = whileAsked(silence, func() {
			end(fmt.Errorf("no controller has asked this provider for %v: another replica may lead", silence))
		})
	}
	if err := serve.AwaitInformers(ctx, s.settings.SharedInformers); err != nil {
		return err
	}
	served, err := serve.Wrap(ctx, s.options, s.cloud, s.settings.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile)
	if err != nil {
		return err
	}
	status := served.Status
	served.Status = func() *v1.GetStatusResponse {
		controllerAsks()
		return status()
	}
	return served.Serve(s.endpoint)
}

// whileAsked calls giveUp when the function that it returns has not been called for so long.
func whileAsked(silence time.Duration, giveUp func()) (controllerAsks func()) {
	timer := time.AfterFunc(silence, giveUp)
	return func() { timer.Reset(silence) }
}
