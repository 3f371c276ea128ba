// This file says the options of a load balancer in the annotations of a cloud.

package serve

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// LoadBalancerIPField stands for spec.loadBalancerIP where the key of an annotation is expected.
const LoadBalancerIPField = "spec.loadBalancerIP"

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
	// Check refuses, before the cloud is called, what this Service's load balancer does not serve, or cannot change where the cloud
	// would ignore it. It may be nil.
	Check func(ctx context.Context, service *corev1.Service, options *v1.LoadBalancerOptions) error
	// UpdatesNodesAlone says that the cloud's UpdateLoadBalancer reads none of these annotations for this Service. Many clouds make
	// the whole load balancer in it, and would take back what the annotations had asked for: so without this function, and where
	// it is false, an update is refused as long as the Service's options are refused, and the load balancer keeps its nodes.
	UpdatesNodesAlone func(service *corev1.Service) bool
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
	Key   string
	Range *v1.UintRange
	Unit  string
}

// HealthCheckAnnotations are those of a health check. Without a Port none is declared, without a Path TCP alone, and a Number
// without a Range not at all. A check that the user did not ask for is not translated: the cloud's default stays.
type HealthCheckAnnotations struct {
	Protocol                                                Choice[v1.HealthCheckProtocol]
	Port, Path                                              string
	Interval, Timeout, HealthyThreshold, UnhealthyThreshold Number
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
	check := a.HealthCheck
	protocols := slices.DeleteFunc(check.Protocol.choices(), func(protocol v1.HealthCheckProtocol) bool {
		return check.Port == "" || check.Path == "" && protocol != v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_TCP
	})
	if len(protocols) > 0 {
		declared.HealthCheck = &v1.HealthCheckCapability{
			Protocols: protocols, IntervalSeconds: check.Interval.Range, TimeoutSeconds: check.Timeout.Range,
			HealthyThreshold: check.HealthyThreshold.Range, UnhealthyThreshold: check.UnhealthyThreshold.Range,
		}
	}
	return declared
}

func (c Choice[T]) choices() []T { return slices.Sorted(maps.Keys(c.Values)) }

// setting is an annotation that an option leads to.
type setting struct {
	isAsked bool
	// name is that of the option without its prefix.
	name, key, value string
}

// says tells whether the value of an annotation says the same. Upper and lower case differ in paths alone.
func (s setting) says(value string) bool {
	value = strings.ReplaceAll(value, " ", "")
	return value == s.value || !strings.HasPrefix(s.value, "/") && strings.EqualFold(value, s.value)
}

// settings are the annotations that options lead to.
func (a *OptionAnnotations) settings(options *v1.LoadBalancerOptions) []setting {
	number := func(value uint32, name string, n Number) setting {
		return setting{value != 0, "health-check-" + name, n.Key, strconv.FormatUint(uint64(value), 10) + n.Unit}
	}
	list := func(values []string, name string, n Names) setting {
		return setting{len(values) > 0, name, n.Key, strings.Join(values, ",")}
	}
	check, keys := options.GetHealthCheck(), a.HealthCheck
	if check.GetImplied() {
		check = nil
	}
	scheme, version, protocol := options.GetScheme(), options.GetProxyProtocol(), check.GetProtocol()
	all := []setting{
		{scheme != 0, "scheme", a.Scheme.Key, a.Scheme.Values[scheme]},
		{version != 0, "proxy-protocol", a.ProxyProtocol.Key, a.ProxyProtocol.Values[version]},
		list(options.GetRequestedAddresses(), "addresses", a.RequestedAddresses),
		list(options.GetReservedAddressNames(), "reserved-addresses", a.ReservedAddressNames),
		{protocol != 0, "health-check-protocol", keys.Protocol.Key, keys.Protocol.Values[protocol]},
		number(check.GetPort(), "port", Number{Key: keys.Port}),
		{check.GetPath() != "", "health-check-path", keys.Path, check.GetPath()},
		number(check.GetIntervalSeconds(), "interval", keys.Interval),
		number(check.GetTimeoutSeconds(), "timeout", keys.Timeout),
		number(check.GetHealthyThreshold(), "healthy-threshold", keys.HealthyThreshold),
		number(check.GetUnhealthyThreshold(), "unhealthy-threshold", keys.UnhealthyThreshold),
	}
	return slices.DeleteFunc(all, func(s setting) bool { return !s.isAsked })
}

// translate sets on the Service of a call what its options lead to; an annotation of the user's that says otherwise stays. An
// error says why the cloud is not to be called. A load balancer is deleted in spite of that, and gets its nodes where the options
// play no part in it.
func (a *OptionAnnotations) translate(ctx context.Context, method string, service *corev1.Service, options *v1.LoadBalancerOptions) error {
	if a == nil {
		return nil
	}
	var conflict error
	annotations := map[string]string{}
	maps.Copy(annotations, service.Annotations)
	for _, s := range a.settings(options) {
		current := annotations[s.key]
		if s.key == LoadBalancerIPField {
			current = service.Spec.LoadBalancerIP
		}
		switch {
		case current != "" && !s.says(current):
			conflict = cmp.Or[error](conflict, provider.OptionConflict(s.name, s.value, s.key, current))
		case s.key == LoadBalancerIPField:
			service.Spec.LoadBalancerIP = s.value
		case s.value != "":
			annotations[s.key] = s.value
		}
	}
	service.Annotations = annotations
	readsNone := method == "UpdateLoadBalancer" && a.UpdatesNodesAlone != nil && a.UpdatesNodesAlone(service)
	switch {
	case method == "EnsureLoadBalancerDeleted", readsNone, options == nil && proto.Size(a.capability()) == 0:
		return nil
	case options == nil:
		return provider.Errorf(provider.InvalidAnnotation, "an annotation below %s is refused, see the condition outrigger.dev/Accepted: "+
			"correct it, since a call of the cloud could take the others back", provider.OptionPrefix)
	case conflict == nil && a.Check != nil:
		return a.Check(ctx, service, options)
	default:
		return conflict
	}
}
