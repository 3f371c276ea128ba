// This file reads options that mean the same in every cloud, as the annotations of DigitalOcean that ask for the same.

package loadbalancers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

var (
	networks = map[v1.LoadBalancerScheme]string{
		v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING: godo.LoadBalancerNetworkTypeExternal,
		v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL:        godo.LoadBalancerNetworkTypeInternal,
	}
	checkProtocols = map[v1.HealthCheckProtocol]string{
		v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_TCP: tcp, v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTP: http,
		v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTPS: https,
	}
)

// ServedOptions are those that a Service may ask for.
func ServedOptions() *v1.LoadBalancerOptionsCapability {
	seconds, checks := &v1.UintRange{Min: 3, Max: 300}, &v1.UintRange{Min: 2, Max: 10}
	return &v1.LoadBalancerOptionsCapability{
		Schemes:        slices.Sorted(maps.Keys(networks)),
		ProxyProtocols: []v1.ProxyProtocol{v1.ProxyProtocol_PROXY_PROTOCOL_V1},
		HealthCheck: &v1.HealthCheckCapability{
			Protocols:       slices.Sorted(maps.Keys(checkProtocols)),
			IntervalSeconds: seconds, TimeoutSeconds: seconds, HealthyThreshold: checks, UnhealthyThreshold: checks,
		},
		Fixed: []v1.LoadBalancerOption{
			v1.LoadBalancerOption_LOAD_BALANCER_OPTION_SCHEME,
			// A load balancer of type REGIONAL_NETWORK passes packets on, and never becomes a proxy.
			v1.LoadBalancerOption_LOAD_BALANCER_OPTION_PROXY_PROTOCOL,
		},
	}
}

// setOptions sets the annotations that options lead to, all but protocol, port and path of a health check. An annotation of the
// user's that says otherwise stays.
func (a *annotations) setOptions(options *v1.LoadBalancerOptions) {
	check, values := options.GetHealthCheck(), map[string]string{}
	maps.Copy(values, a.values)
	set := func(option, key string, value any) {
		text, current := fmt.Sprint(value), a.text(key)
		switch {
		case text == "" || text == "0":
		case current != "" && !strings.EqualFold(current, text):
			a.conflicts(option, text, key, current)
		default:
			values[AnnotationPrefix+key], a.options[key] = text, option
		}
	}
	set("scheme", "network", networks[options.GetScheme()])
	if options.GetProxyProtocol() == v1.ProxyProtocol_PROXY_PROTOCOL_V1 {
		set("proxy-protocol", "enable-proxy-protocol", true)
		set("proxy-protocol", "type", godo.LoadBalancerTypeRegional)
	}
	set("health-check-interval", "healthcheck-check-interval-seconds", check.GetIntervalSeconds())
	set("health-check-timeout", "healthcheck-response-timeout-seconds", check.GetTimeoutSeconds())
	set("health-check-healthy-threshold", "healthcheck-healthy-threshold", check.GetHealthyThreshold())
	set("health-check-unhealthy-threshold", "healthcheck-unhealthy-threshold", check.GetUnhealthyThreshold())
	a.values = values
}

func (a *annotations) conflicts(option, value, key, current string) {
	a.conflict = cmp.Or[error](a.conflict, provider.OptionConflict(option, value, AnnotationPrefix+key, current))
}

// setCheck sets protocol, port and path of a check to those of the option. overridden: the user's annotations have set them.
func (a *annotations) setCheck(check *godo.HealthCheck, service *v1.Service, overridden bool) {
	option := service.LoadBalancerOptions.GetHealthCheck()
	if option == nil || option.Implied { // the default is what the controller implies
		return
	}
	shown := func() string { return strings.TrimSpace(fmt.Sprint(check.Protocol, " ", check.Port, " ", check.Path)) }
	former := shown()
	check.Protocol, check.Port, check.Path = checkProtocols[option.Protocol], int(option.Port), option.Path
	if overridden && shown() != former {
		a.conflicts("health-check-port", shown(), "override-health-check", former)
	}
	check.ProxyProtocol = nil // as the load balancer itself
	if option.Port == kubeProxyHealthPort || int32(option.Port) == service.HealthCheckNodePort {
		check.ProxyProtocol = new(false)
	}
}
