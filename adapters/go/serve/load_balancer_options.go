// This file says the options of a load balancer in the annotations of a cloud.

package serve

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// LoadBalancerIPField stands for spec.loadBalancerIP where the key of an annotation is expected.
const LoadBalancerIPField = "spec.loadBalancerIP"

// optionPrefix is that of the annotations from which the controller reads options.
const optionPrefix = "outrigger.dev/load-balancer-"

// healthCheck is the option with several annotations.
const healthCheck = v1.LoadBalancerOption_LOAD_BALANCER_OPTION_HEALTH_CHECK

// OptionAnnotations has, for each option of a load balancer that means the same in every cloud (v1.LoadBalancerOptions), the
// annotation of this cloud that asks for the same. The adapter declares the options that have one, and sets it on the Service that
// the cloud gets; the controller refuses the others. An annotation of the user's that says otherwise is CONFLICTING_OPTIONS.
type OptionAnnotations struct {
	// Scheme is said by an annotation such as "internal: true".
	Scheme Choice[v1.LoadBalancerScheme]
	// ProxyProtocol is said likewise.
	ProxyProtocol Choice[v1.ProxyProtocol]
	// RequestedAddresses are separated by commas; with LoadBalancerIPField their Max is 1.
	RequestedAddresses Names
	// ReservedAddressNames are separated by commas.
	ReservedAddressNames Names
	// HealthCheck has several annotations.
	HealthCheck HealthCheckAnnotations

	// Fixed are the options that a living load balancer cannot change.
	Fixed []v1.LoadBalancerOption
	// Current is for a cloud that ignores a change of the options in Fixed: it returns their annotations as they fit the load
	// balancer that exists, or nil if none does, and the adapter refuses a change before EnsureLoadBalancer.
	Current func(ctx context.Context, clusterName string, service *corev1.Service) (map[string]string, error)
	// Check refuses, before EnsureLoadBalancer, what some load balancers of the cloud serve and this Service's does not. It may be nil.
	Check func(service *corev1.Service, options *v1.LoadBalancerOptions) error
}

// Choice is an annotation that has a value for each choice that the cloud serves. The value "" is no annotation at all.
type Choice[T cmp.Ordered] struct {
	Key    string
	Values map[T]string
}

// Names is an annotation with at most so many addresses or names.
type Names struct {
	Key string
	Max uint32
}

// Number is an annotation with a number of this range, and a unit behind it, such as "s"; "": the number alone.
type Number struct {
	Key      string
	Min, Max uint32
	Unit     string
}

// HealthCheckAnnotations are those of a health check. Without a Protocol none is declared, without a Key not that field.
type HealthCheckAnnotations struct {
	Protocol                                                Choice[v1.HealthCheckProtocol]
	Port, Path                                              string
	Interval, Timeout, HealthyThreshold, UnhealthyThreshold Number
	// Implied also sets them where the user asks for no health check, so that nodes are checked as kube-proxy expects it, unless
	// the user has set one of these annotations. Without it the cloud's default stays.
	Implied bool
}

// capability is what the table declares; nil: no option.
func (a *OptionAnnotations) capability() *v1.LoadBalancerOptionsCapability {
	if a == nil {
		return nil
	}
	declared := &v1.LoadBalancerOptionsCapability{
		Schemes: a.Scheme.choices(), ProxyProtocols: a.ProxyProtocol.choices(),
		MaxRequestedAddresses: a.RequestedAddresses.Max, MaxReservedAddressNames: a.ReservedAddressNames.Max, Fixed: a.Fixed,
	}
	if check := a.HealthCheck; len(check.Protocol.Values) > 0 {
		declared.HealthCheck = &v1.HealthCheckCapability{
			Protocols: check.Protocol.choices(), IntervalSeconds: check.Interval.values(), TimeoutSeconds: check.Timeout.values(),
			HealthyThreshold: check.HealthyThreshold.values(), UnhealthyThreshold: check.UnhealthyThreshold.values(),
		}
	}
	return declared
}

func (c Choice[T]) choices() []T { return slices.Sorted(maps.Keys(c.Values)) }

func (n Number) values() *v1.UintRange {
	if n.Key == "" {
		return nil
	}
	return &v1.UintRange{Min: n.Min, Max: n.Max}
}

// setting is an annotation that an option leads to.
type setting struct {
	option v1.LoadBalancerOption
	// name is that of the option without its prefix.
	name, key, value string
}

// says tells whether the value of an annotation says the same. Upper and lower case differ in paths alone.
func (s setting) says(value string) bool {
	value = strings.ReplaceAll(value, " ", "")
	return value == s.value || !strings.HasPrefix(s.value, "/") && strings.EqualFold(value, s.value)
}

// settings are the annotations that these options lead to.
func (a *OptionAnnotations) settings(options *v1.LoadBalancerOptions) []setting {
	var all []setting
	add := func(isAsked bool, option v1.LoadBalancerOption, name, key, value string) {
		if isAsked && key != "" {
			all = append(all, setting{option, name, key, value})
		}
	}
	scheme, proxy := options.GetScheme(), options.GetProxyProtocol()
	add(scheme != 0, v1.LoadBalancerOption_LOAD_BALANCER_OPTION_SCHEME, "scheme", a.Scheme.Key, a.Scheme.Values[scheme])
	add(proxy != 0, v1.LoadBalancerOption_LOAD_BALANCER_OPTION_PROXY_PROTOCOL, "proxy-protocol", a.ProxyProtocol.Key, a.ProxyProtocol.Values[proxy])
	addresses, names := options.GetRequestedAddresses(), options.GetReservedAddressNames()
	add(len(addresses) > 0, v1.LoadBalancerOption_LOAD_BALANCER_OPTION_REQUESTED_ADDRESSES, "addresses",
		a.RequestedAddresses.Key, strings.Join(addresses, ","))
	add(len(names) > 0, v1.LoadBalancerOption_LOAD_BALANCER_OPTION_RESERVED_ADDRESS_NAMES, "reserved-addresses",
		a.ReservedAddressNames.Key, strings.Join(names, ","))
	check, keys := options.GetHealthCheck(), a.HealthCheck
	if check == nil || check.Implied && !keys.Implied {
		return all
	}
	number := func(value uint32, name string, n Number) {
		add(value != 0, healthCheck, "health-check-"+name, n.Key, strconv.FormatUint(uint64(value), 10)+n.Unit)
	}
	add(check.Protocol != 0, healthCheck, "health-check-protocol", keys.Protocol.Key, keys.Protocol.Values[check.Protocol])
	number(check.Port, "port", Number{Key: keys.Port})
	add(check.Path != "", healthCheck, "health-check-path", keys.Path, check.Path)
	number(check.IntervalSeconds, "interval", keys.Interval)
	number(check.TimeoutSeconds, "timeout", keys.Timeout)
	number(check.HealthyThreshold, "healthy-threshold", keys.HealthyThreshold)
	number(check.UnhealthyThreshold, "unhealthy-threshold", keys.UnhealthyThreshold)
	return all
}

// apply sets on a Service what the options lead to. The error names an annotation of the user's that says otherwise, which stays.
func (a *OptionAnnotations) apply(service *corev1.Service, options *v1.LoadBalancerOptions) error {
	if a == nil || options == nil {
		return nil
	}
	settings := a.settings(options)
	hasVendors := func(s setting) bool { return s.option == healthCheck && service.Annotations[s.key] != "" }
	if options.HealthCheck.GetImplied() && slices.ContainsFunc(settings, hasVendors) {
		settings = slices.DeleteFunc(settings, func(s setting) bool { return s.option == healthCheck })
	}
	annotations := maps.Clone(service.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	var conflict error
	for _, s := range settings {
		current := annotations[s.key]
		if s.key == LoadBalancerIPField {
			current = service.Spec.LoadBalancerIP
		}
		switch {
		case current != "" && !s.says(current):
			if conflict == nil {
				conflict = provider.Errorf(provider.ConflictingOptions, "%s%s asks for %s=%q, but the Service has %q there: remove one of the two",
					optionPrefix, s.name, s.key, s.value, current)
			}
		case s.key == LoadBalancerIPField:
			service.Spec.LoadBalancerIP = s.value
		case s.value != "":
			annotations[s.key] = s.value
		}
	}
	service.Annotations = annotations
	return conflict
}

// check refuses options that the load balancer of this Service does not serve, or that it cannot change.
func (a *OptionAnnotations) check(ctx context.Context, service *corev1.Service, options *v1.LoadBalancerOptions) error {
	if a == nil || options == nil {
		return nil
	}
	if a.Check != nil {
		if err := a.Check(service, options); err != nil {
			return err
		}
	}
	fixed := slices.DeleteFunc(a.settings(options), func(s setting) bool { return !slices.Contains(a.Fixed, s.option) })
	if a.Current == nil || len(fixed) == 0 {
		return nil
	}
	current, err := a.Current(ctx, clusterName(ctx), service)
	if err != nil || current == nil {
		return err
	}
	for _, s := range fixed {
		if value, isKnown := current[s.key]; isKnown && !s.says(value) {
			return provider.Errorf(provider.UnsupportedFeature, "%s%s asks for %s=%q, but the load balancer was made with %q, which cannot "+
				"change: set the option back, or delete the Service and create it again", optionPrefix, s.name, s.key, s.value, value)
		}
	}
	return nil
}
