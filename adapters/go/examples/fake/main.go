// The fake cloud of upstream's own tests, as a provider. Where it answers the same about each object, it looks
// here: the machines are those of its list, and a load balancer is there once it was made. It refuses
// calls on request, and has limits, since the errors of a cloud are half of a provider.
//
//	FAKE_MACHINES  names of its machines, separated by commas; with =off one that is stopped
//	FAKE_LIMIT     most load balancers, and most routes; empty: any number
//	FAKE_FOLDER    where the switches are, and the journal of its calls; empty: none
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/serve"
)

func main() {
	serve.Run(serve.Options{
		Classify: classify,
		Effects:  &v1.EffectsCapability{ServiceAnnotationPrefixes: []string{idAnnotation}},
	}, newCloud)
}

// classify names the errors that only this cloud has. Those of its API have a shape that the adapter knows.
func classify(err error) *provider.Error {
	for meant, reason := range map[error]provider.Reason{
		errMalformedID: provider.MalformedProviderID,
		errAnnotation:  provider.InvalidAnnotation,
		errProtocol:    provider.UnsupportedProtocol,
	} {
		if errors.Is(err, meant) {
			return provider.Errorf(reason, "%w", err)
		}
	}
	return nil
}

func newCloud() (cloudprovider.Interface, error) {
	limit, err := strconv.Atoi(os.Getenv("FAKE_LIMIT"))
	if text := os.Getenv("FAKE_LIMIT"); text != "" && err != nil {
		return nil, fmt.Errorf("FAKE_LIMIT is %q, which is no number", text)
	}
	c := cloud{
		Cloud: &fake.Cloud{
			ExternalIP: net.IPv4(203, 0, 113, 10),
			Balancers:  map[string]fake.Balancer{}, RouteMap: map[string]*fake.Route{},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Zone:      cloudprovider.Zone{FailureDomain: "fake-1a", Region: "fake-1"},
		},
		stopped: map[types.NodeName]bool{},
		limit:   limit,
		api:     api{folder: os.Getenv("FAKE_FOLDER")},
	}
	for name := range strings.SplitSeq(os.Getenv("FAKE_MACHINES"), ",") {
		name, isStopped := strings.CutSuffix(strings.TrimSpace(name), "=off")
		c.Machines = append(c.Machines, types.NodeName(name))
		c.stopped[types.NodeName(name)] = isStopped
	}
	return &c, nil
}
