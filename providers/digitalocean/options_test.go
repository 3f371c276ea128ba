// These tests ask for options of a load balancer that mean the same in every cloud.

package main

import (
	"fmt"
	"strings"
	"testing"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

const (
	internal   = v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL
	everywhere = v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING
	proxyV1    = v1.ProxyProtocol_PROXY_PROTOCOL_V1
	checkTCP   = v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_TCP
	checkHTTP  = v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTP
)

func serviceWith(options *v1.LoadBalancerOptions, annotations map[string]string) *v1.Service {
	made := service(annotations)
	made.LoadBalancerOptions = options
	return made
}

func TestOptionsAreFieldsOfTheLoadBalancer(t *testing.T) {
	ready10 := &v1.HealthCheck{Protocol: checkHTTP, Port: 31080, Path: "/ready", IntervalSeconds: 10, UnhealthyThreshold: 2}
	for name, test := range map[string]struct {
		options     *v1.LoadBalancerOptions
		annotations map[string]string
		field       string
		want        string
	}{
		"internal":          {&v1.LoadBalancerOptions{Scheme: internal}, nil, "network", "INTERNAL"},
		"everywhere":        {&v1.LoadBalancerOptions{Scheme: everywhere}, map[string]string{"network": "EXTERNAL"}, "network", "EXTERNAL"},
		"PROXY protocol":    {&v1.LoadBalancerOptions{ProxyProtocol: proxyV1}, nil, "enable_proxy_protocol", "true"},
		"a proxy is needed": {&v1.LoadBalancerOptions{ProxyProtocol: proxyV1}, nil, "type", "REGIONAL"},
		"an implied check is the default": {
			&v1.LoadBalancerOptions{HealthCheck: &v1.HealthCheck{Implied: true, Protocol: checkHTTP, Port: 10256, Path: "/healthz"}}, nil,
			"health_check", "map[check_interval_seconds:3 healthy_threshold:5 path:/healthz port:10256 protocol:http " +
				"proxy_protocol:false response_timeout_seconds:5 unhealthy_threshold:3]"},
		"an annotation goes before an implied check": {
			&v1.LoadBalancerOptions{HealthCheck: &v1.HealthCheck{Implied: true, Protocol: checkHTTP, Port: 10256, Path: "/healthz"}},
			map[string]string{"override-health-check": "true"},
			"health_check", "map[check_interval_seconds:3 healthy_threshold:5 port:30080 protocol:tcp " +
				"response_timeout_seconds:5 unhealthy_threshold:3]"},
		"a check of the user's own": {&v1.LoadBalancerOptions{HealthCheck: ready10}, nil,
			"health_check", "map[check_interval_seconds:10 healthy_threshold:5 path:/ready port:31080 protocol:http " +
				"response_timeout_seconds:5 unhealthy_threshold:2]"},
		"the same as the annotations": {
			&v1.LoadBalancerOptions{HealthCheck: &v1.HealthCheck{Protocol: checkTCP, Port: 30080, TimeoutSeconds: 4}},
			map[string]string{"override-health-check": "true", "healthcheck-response-timeout-seconds": "4"},
			"health_check", "map[check_interval_seconds:3 healthy_threshold:5 port:30080 protocol:tcp " +
				"response_timeout_seconds:4 unhealthy_threshold:3]"},
		"another interval asks kube-proxy without a PROXY header": {
			&v1.LoadBalancerOptions{ProxyProtocol: proxyV1, HealthCheck: &v1.HealthCheck{
				Protocol: checkHTTP, Port: 10256, Path: "/healthz", IntervalSeconds: 9,
			}}, nil,
			"health_check", "map[check_interval_seconds:9 healthy_threshold:5 path:/healthz port:10256 protocol:http " +
				"proxy_protocol:false response_timeout_seconds:5 unhealthy_threshold:3]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			web := serviceWith(test.options, test.annotations)
			r.want(ready)(r.ensure(web))
			if made := fmt.Sprint(r.only()[test.field]); made != test.want {
				t.Errorf("%s is %s, want %s", test.field, made, test.want)
			}
			r.want(ready)(r.get(web))
			r.want(ready)(r.ensure(service(nil))) // taken back
			r.want(ready)(r.get(service(nil)))
		})
	}
}

func TestAnotherOptionIsADifference(t *testing.T) {
	r := newRig(t)
	r.want(ready)(r.ensure(service(nil)))
	check := &v1.HealthCheck{Protocol: checkTCP, Port: 30080}
	r.want(differs)(r.get(serviceWith(&v1.LoadBalancerOptions{HealthCheck: check}, nil)))
}

func TestAnOptionThatContradictsAnAnnotationIsRefusedWithBothNames(t *testing.T) {
	check := func(port uint32, interval uint32) *v1.LoadBalancerOptions {
		return &v1.LoadBalancerOptions{HealthCheck: &v1.HealthCheck{Protocol: checkTCP, Port: port, IntervalSeconds: interval}}
	}
	for option, test := range map[string]struct {
		options *v1.LoadBalancerOptions
		key     string
		value   string
	}{
		"scheme":                {&v1.LoadBalancerOptions{Scheme: internal}, "network", "EXTERNAL"},
		"proxy-protocol":        {&v1.LoadBalancerOptions{ProxyProtocol: proxyV1}, "type", "REGIONAL_NETWORK"},
		"health-check-interval": {check(10256, 10), "healthcheck-check-interval-seconds", "11"},
		"health-check-port":     {check(10256, 0), "override-health-check", "true"},
	} {
		r := newRig(t)
		_, err := r.ensure(serviceWith(test.options, map[string]string{test.key: test.value}))
		r.wantReason(err, provider.ConflictingOptions)
		for _, name := range []string{"outrigger.dev/load-balancer-" + option, "service.beta.kubernetes.io/do-loadbalancer-" + test.key} {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s is not in %v", name, err)
			}
		}
		if made := r.cloud.LoadBalancers(); len(made) > 0 {
			t.Errorf("made all the same: %v", made)
		}
	}
}

func TestAFixedOptionIsRefusedBeforeAnythingChanges(t *testing.T) {
	for option, options := range map[string]*v1.LoadBalancerOptions{
		"scheme":         {Scheme: internal},
		"proxy-protocol": {ProxyProtocol: proxyV1}, // of the type that passes packets on
	} {
		r := newRig(t)
		r.want(ready)(r.ensure(service(nil)))
		before := fmt.Sprint(r.only())
		options.HealthCheck = &v1.HealthCheck{Protocol: checkTCP, Port: 30080}
		_, err := r.ensure(serviceWith(options, nil))
		r.wantReason(err, provider.UnsupportedFeature)
		if !strings.Contains(err.Error(), "outrigger.dev/load-balancer-"+option) || fmt.Sprint(r.only()) != before {
			t.Error(err, r.only(), before)
		}
	}
	proxy := serviceWith(&v1.LoadBalancerOptions{ProxyProtocol: proxyV1}, nil)
	r := newRig(t)
	r.want(ready)(r.ensure(service(map[string]string{"type": "REGIONAL"})))
	r.want(ready)(r.ensure(proxy)) // a proxy learns it
	r.want(ready)(r.ensure(service(nil)))
	if speaks := r.only()["enable_proxy_protocol"]; speaks != false { // the cloud can take it back
		t.Error("PROXY protocol after the option is taken back:", speaks)
	}
}
