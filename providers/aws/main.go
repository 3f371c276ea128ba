// AWS's own cloud provider as a provider of Outrigger.
package main

import (
	"strconv"
	"strings"

	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/serve"
)

// inFlight is how many load balancers change at one time. Only a build for explorations has another number:
// with more at a time, AWS's code leaves rules of shared security groups behind.
var inFlight = "1"

func main() {
	loadBalancers, _ := strconv.Atoi(inFlight)
	made := new(cloud)
	serve.Run(serve.Options{
		LoadBalancersInFlight:     loadBalancers,
		ServiceAnnotationPrefixes: []string{"service.beta.kubernetes.io/aws-load-balancer-"},
		LoadBalancerOptions:       optionAnnotations(&made.schemes),
		Classify:                  classify,
	}, made.open)
}

// refusals are what the provider says, in words alone, about objects that have to change first.
var refusals = []struct {
	text   string
	reason provider.Reason
}{
	{"Invalid format for AWS instance", provider.MalformedProviderID},
	{"not supported by LoadBalancer", provider.UnsupportedProtocol},
	{"mixed protocol is not supported", provider.UnsupportedProtocol},
	{"unsupported load balancer affinity", provider.UnsupportedFeature},
	{"LoadBalancerIP cannot be specified", provider.UnsupportedFeature},
	{"cannot update Load Balancer Type annotation", provider.InvalidAnnotation},
	{"error parsing service annotation", provider.InvalidAnnotation},
	{"failed parsing health check annotation", provider.InvalidAnnotation},
	{"error validating target group attributes", provider.InvalidAnnotation},
	{"target group attributes annotation is only supported for NLB", provider.InvalidAnnotation},
}

func classify(err error) *provider.Error {
	for _, refusal := range refusals {
		if strings.Contains(err.Error(), refusal.text) {
			return provider.Errorf(refusal.reason, "%w", err)
		}
	}
	return nil
}
