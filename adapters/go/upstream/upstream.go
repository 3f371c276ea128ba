// Package upstream makes a provider of Outrigger out of a cloud-controller-manager on upstream's library, by two lines
// of its main: the import of this package, and
//
//	controllerInitializers := upstream.InitFuncConstructors // was app.DefaultInitFuncConstructors
//
// Flags, the cloud's constructor, its clients and informers, and the controllers that main adds to the map stay as they
// are. In place of upstream's controllers the process serves the cloud on the socket of provider.EndpointEnv, for
// Outrigger's controller. README.md of this module says how it is started, elected and given rights.
package upstream

import (
	"fmt"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	controllermanager "k8s.io/controller-manager/app"
	managerconfig "k8s.io/controller-manager/config"
	"k8s.io/klog/v2"

	"outrigger.dev/adapters/go/serve"
)

// ControllerName names the entry that serves the cloud in --controllers.
const ControllerName = "outrigger-provider"

// controllerLease is the Lease of Outrigger's controller, and the default of upstream's flag.
const controllerLease = "cloud-controller-manager"

// InitFuncConstructors takes the place of app.DefaultInitFuncConstructors. Its one entry serves the cloud that upstream's
// app hands over, once the informers that the cloud asked for have synced. The process ends with exit code 1 if it
// cannot serve, and with 0 on SIGTERM, after the calls in flight.
var InitFuncConstructors = With(serve.Options{})

// With returns InitFuncConstructors for a cloud that needs options. Flags and WithoutClient have no effect: upstream's
// app has both.
func With(options serve.Options) map[string]app.ControllerInitFuncConstructor {
	construct := func(_ app.ControllerInitContext, settings *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
		process, err := newSidecar(options, settings, cloud)
		if err != nil {
			end(err)
		}
		return process.start
	}
	return map[string]app.ControllerInitFuncConstructor{
		ControllerName: {InitContext: app.ControllerInitContext{ClientName: ControllerName}, Constructor: construct},
	}
}

// check refuses flags with which the provider would never be served, or would take the controller's Lease.
func check(flags managerconfig.GenericControllerManagerConfiguration) error {
	election := flags.LeaderElection
	switch {
	case election.LeaderElect && election.ResourceName == controllerLease:
		return fmt.Errorf("the Lease %s is that of Outrigger's controller: start with --leader-elect=false, or, if code of "+
			"the vendor must run in one replica only, with a --leader-elect-resource-name of its own", controllerLease)
	case !controllermanager.IsControllerEnabled(ControllerName, app.ControllersDisabledByDefault, flags.Controllers):
		return fmt.Errorf("--controllers leaves out %s, which serves the provider: add it, or *", ControllerName)
	default:
		return nil
	}
}

// end ends the process with one line, which upstream's app has no way to do.
func end(err error) {
	if err != nil {
		klog.ErrorS(err, "provider ended")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	klog.FlushAndExit(klog.ExitFlushTimeout, 0)
}
