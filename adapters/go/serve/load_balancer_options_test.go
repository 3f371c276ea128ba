// These tests ask for options of a load balancer, and look at the annotations that the cloud gets.

package serve

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// vendorsTable is that of a cloud whose annotations begin with "v/".
func vendorsTable() *OptionAnnotations {
	return &OptionAnnotations{
		Scheme: Choice[v1.LoadBalancerScheme]{"v/internal", map[v1.LoadBalancerScheme]string{
			v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL:        "true",
			v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING: "",
		}},
		ProxyProtocol:        Choice[v1.ProxyProtocol]{"v/proxy", map[v1.ProxyProtocol]string{v1.ProxyProtocol_PROXY_PROTOCOL_V2: "v2"}},
		RequestedAddresses:   Names{LoadBalancerIPField, 1},
		ReservedAddressNames: Names{"v/reserved", 3},
		HealthCheck: HealthCheckAnnotations{
			Protocol: Choice[v1.HealthCheckProtocol]{"v/check", map[v1.HealthCheckProtocol]string{
				v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_TCP: "tcp", v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTP: "http",
			}},
			Port: "v/check-port", Path: "v/check-path",
			Interval: Number{"v/check-interval", 3, 60, "s"}, UnhealthyThreshold: Number{Key: "v/check-bad", Min: 2, Max: 10},
		},
		Fixed: []v1.LoadBalancerOption{v1.LoadBalancerOption_LOAD_BALANCER_OPTION_SCHEME},
	}
}

func TestTheTableOfAnnotationsIsWhatIsDeclared(t *testing.T) {
	_, got := serving(t, Options{LoadBalancerOptions: vendorsTable()}, &cloud{balancers: &balancers{}})
	expected := &v1.LoadBalancerOptionsCapability{
		Schemes: []v1.LoadBalancerScheme{
			v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING, v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL,
		},
		ProxyProtocols:        []v1.ProxyProtocol{v1.ProxyProtocol_PROXY_PROTOCOL_V2},
		MaxRequestedAddresses: 1, MaxReservedAddressNames: 3,
		HealthCheck: &v1.HealthCheckCapability{
			Protocols: []v1.HealthCheckProtocol{
				v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_TCP, v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTP,
			},
			IntervalSeconds: &v1.UintRange{Min: 3, Max: 60}, UnhealthyThreshold: &v1.UintRange{Min: 2, Max: 10},
		},
		Fixed: []v1.LoadBalancerOption{v1.LoadBalancerOption_LOAD_BALANCER_OPTION_SCHEME},
	}
	if declared := got.Capabilities.LoadBalancers.Options; !proto.Equal(declared, expected) {
		t.Error(declared)
	}
	_, got = serving(t, Options{}, &cloud{balancers: &balancers{}})
	if declared := got.Capabilities.LoadBalancers.Options; declared != nil {
		t.Error(declared)
	}
}

// check is one that a user asks for.
func check() *v1.HealthCheck {
	return &v1.HealthCheck{
		Protocol: v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTP, Port: 8080, Path: "/ready", IntervalSeconds: 10, UnhealthyThreshold: 3,
	}
}

func implied(check *v1.HealthCheck) *v1.HealthCheck {
	check.Implied = true
	return check
}

func TestOptionsAreTheAnnotationsOfTheCloud(t *testing.T) {
	internal, everywhere := v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL, v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING
	checked := map[string]string{
		"v/check": "http", "v/check-port": "8080", "v/check-path": "/ready", "v/check-interval": "10s", "v/check-bad": "3",
	}
	for name, test := range map[string]struct {
		options   *v1.LoadBalancerOptions
		users     map[string]string
		ip        string
		translate bool
		got       map[string]string
		gotIP     string
		conflict  []string
	}{
		"none":                          {users: map[string]string{"v/internal": "yes"}, got: map[string]string{"v/internal": "yes"}},
		"internal":                      {options: &v1.LoadBalancerOptions{Scheme: internal}, got: map[string]string{"v/internal": "true"}},
		"a value that is no annotation": {options: &v1.LoadBalancerOptions{Scheme: everywhere}, got: map[string]string{}},
		"an annotation where there is none": {
			options: &v1.LoadBalancerOptions{Scheme: everywhere}, users: map[string]string{"v/internal": "true"},
			conflict: []string{"outrigger.dev/load-balancer-scheme", `v/internal=""`, `"true"`},
		},
		"equal":   {options: &v1.LoadBalancerOptions{Scheme: internal}, users: map[string]string{"v/internal": " True"}, got: map[string]string{"v/internal": "true"}},
		"proxied": {options: &v1.LoadBalancerOptions{ProxyProtocol: v1.ProxyProtocol_PROXY_PROTOCOL_V2}, got: map[string]string{"v/proxy": "v2"}},
		"names": {
			options: &v1.LoadBalancerOptions{ReservedAddressNames: []string{"a", "b"}}, users: map[string]string{"v/reserved": "a, b"},
			got: map[string]string{"v/reserved": "a,b"},
		},
		"other names": {
			options: &v1.LoadBalancerOptions{ReservedAddressNames: []string{"a"}}, users: map[string]string{"v/reserved": "b"},
			conflict: []string{"outrigger.dev/load-balancer-reserved-addresses", `v/reserved="a"`, `"b"`},
		},
		"an address": {options: &v1.LoadBalancerOptions{RequestedAddresses: []string{"192.0.2.1"}}, got: map[string]string{}, gotIP: "192.0.2.1"},
		"another address": {
			options: &v1.LoadBalancerOptions{RequestedAddresses: []string{"192.0.2.1"}}, ip: "192.0.2.2",
			conflict: []string{"outrigger.dev/load-balancer-addresses", `spec.loadBalancerIP="192.0.2.1"`, `"192.0.2.2"`},
		},
		"a health check": {options: &v1.LoadBalancerOptions{HealthCheck: check()}, got: checked},
		"another path": {
			options: &v1.LoadBalancerOptions{HealthCheck: check()}, users: map[string]string{"v/check-path": "/READY"},
			conflict: []string{"outrigger.dev/load-balancer-health-check-path", `v/check-path="/ready"`, `"/READY"`},
		},
		"an implied health check":                           {options: &v1.LoadBalancerOptions{HealthCheck: implied(check())}, got: map[string]string{}},
		"an implied health check that the table translates": {options: &v1.LoadBalancerOptions{HealthCheck: implied(check())}, translate: true, got: checked},
		"an implied health check that the user has": {
			options: &v1.LoadBalancerOptions{HealthCheck: implied(check())}, translate: true, users: map[string]string{"v/check": "tcp"},
			got: map[string]string{"v/check": "tcp"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []*corev1.Service
			table := vendorsTable()
			table.HealthCheck.Implied = test.translate
			client, _ := serving(t, Options{LoadBalancerOptions: table}, &cloud{balancers: watched{&calls}})
			sent := service()
			sent.Annotations, sent.LoadBalancerIp, sent.LoadBalancerOptions = test.users, test.ip, test.options
			errs := map[string]error{}
			balancing := v1.NewLoadBalancersServiceClient(client)
			_, errs["get"] = balancing.GetLoadBalancer(t.Context(), &v1.GetLoadBalancerRequest{Context: attempt(), Service: sent, Targets: inline()})
			_, errs["ensure"] = balancing.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{Context: attempt(), Service: sent, Targets: inline()})
			_, errs["update"] = balancing.UpdateLoadBalancerNodes(t.Context(), &v1.UpdateLoadBalancerNodesRequest{Context: attempt(), Service: sent, Targets: inline()})
			for call, err := range errs {
				refused := status.Convert(err)
				lacks := func(part string) bool { return !strings.Contains(refused.Message(), part) }
				if (err != nil) != (test.conflict != nil) || slices.ContainsFunc(test.conflict, lacks) ||
					err != nil && reasonIn(t, refused.Proto()) != "CONFLICTING_OPTIONS" {
					t.Errorf("%s: %v", call, err)
				}
			}
			if test.conflict == nil && len(calls) != 3 || test.conflict != nil && len(calls) != 0 {
				t.Errorf("the cloud has %d calls", len(calls))
			}
			for _, service := range calls {
				if !maps.Equal(service.Annotations, test.got) || service.Spec.LoadBalancerIP != test.gotIP {
					t.Error(service.Annotations, service.Spec.LoadBalancerIP)
				}
			}
			// A load balancer is deleted in spite of a contradiction.
			if _, err := balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: sent}); err != nil {
				t.Error(err)
			}
		})
	}
}

// watched are load balancers that keep the Service of each call but a deletion.
type watched struct{ calls *[]*corev1.Service }

func (w watched) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	*w.calls = append(*w.calls, service)
	return nil, true, nil
}

func (w watched) GetLoadBalancerName(context.Context, string, *corev1.Service) string { return "" }

func (w watched) EnsureLoadBalancer(_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	*w.calls = append(*w.calls, service)
	return &corev1.LoadBalancerStatus{}, nil
}

func (w watched) UpdateLoadBalancer(_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node) error {
	*w.calls = append(*w.calls, service)
	return nil
}

func (w watched) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return nil
}

func TestAChangeThatTheCloudWouldIgnoreIsRefusedBeforeIt(t *testing.T) {
	var calls []*corev1.Service
	table := vendorsTable()
	living := map[string]string{}
	table.Current = func(context.Context, string, *corev1.Service) (map[string]string, error) { return living, nil }
	table.Check = func(_ *corev1.Service, options *v1.LoadBalancerOptions) error {
		if options.ProxyProtocol != v1.ProxyProtocol_PROXY_PROTOCOL_UNSPECIFIED {
			return provider.Errorf(provider.UnsupportedFeature, "not with this type")
		}
		return nil
	}
	client, _ := serving(t, Options{LoadBalancerOptions: table}, &cloud{balancers: watched{&calls}})
	ensure := func(options *v1.LoadBalancerOptions) (string, string) {
		sent := service()
		sent.LoadBalancerOptions = options
		_, err := v1.NewLoadBalancersServiceClient(client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: sent, Targets: inline(),
		})
		refused := status.Convert(err)
		return reasonIn(t, refused.Proto()), refused.Message()
	}
	internal := &v1.LoadBalancerOptions{Scheme: v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL}
	for _, current := range []map[string]string{nil, {"v/internal": "true"}} {
		living = current
		if reason, text := ensure(internal); reason != "" {
			t.Error(current, reason, text)
		}
	}
	living = map[string]string{"v/internal": "false"}
	if reason, text := ensure(internal); reason != "UNSUPPORTED_FEATURE" || !strings.Contains(text, "outrigger.dev/load-balancer-scheme") {
		t.Error(reason, text)
	}
	if reason, text := ensure(&v1.LoadBalancerOptions{HealthCheck: check()}); reason != "" { // it is not fixed
		t.Error(reason, text)
	}
	if reason, text := ensure(&v1.LoadBalancerOptions{ProxyProtocol: v1.ProxyProtocol_PROXY_PROTOCOL_V2}); reason != "UNSUPPORTED_FEATURE" || text != "not with this type" {
		t.Error(reason, text)
	}
	if len(calls) != 3 {
		t.Error(len(calls))
	}
}
