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
			Interval:           Number{"v/check-interval", &v1.UintRange{Min: 3, Max: 60}, "s"},
			UnhealthyThreshold: Number{Key: "v/check-bad", Range: &v1.UintRange{Min: 2, Max: 10}},
		},
		Fixed: []v1.LoadBalancerOption{v1.LoadBalancerOption_LOAD_BALANCER_OPTION_SCHEME},
		Check: func(_ context.Context, service *corev1.Service, options *v1.LoadBalancerOptions) error {
			if service.Annotations["v/type"] == "plain" && options.ProxyProtocol != v1.ProxyProtocol_PROXY_PROTOCOL_UNSPECIFIED {
				return provider.Errorf(provider.UnsupportedFeature, "plain has no proxy")
			}
			return nil
		},
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
	// The controller sends no options where none is declared.
	if err := new(OptionAnnotations).translate(t.Context(), "EnsureLoadBalancer", &corev1.Service{}, nil); err != nil {
		t.Error(err)
	}
	// A user may always name a port, and a path with HTTP.
	withoutPath, withoutPort := vendorsTable(), vendorsTable()
	withoutPath.HealthCheck.Path, withoutPort.HealthCheck.Port = "", ""
	tcp := []v1.HealthCheckProtocol{v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_TCP}
	if check := withoutPath.capability().HealthCheck; !slices.Equal(check.Protocols, tcp) {
		t.Error(check)
	}
	if check := withoutPort.capability().HealthCheck; check != nil {
		t.Error(check)
	}
}

// check is one that a user asks for.
func check() *v1.HealthCheck {
	return &v1.HealthCheck{
		Protocol: v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTP, Port: 8080, Path: "/ready", IntervalSeconds: 10, UnhealthyThreshold: 3,
	}
}

func TestOptionsAreTheAnnotationsOfTheCloud(t *testing.T) {
	internal, everywhere := v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL, v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING
	checked := map[string]string{
		"v/check": "http", "v/check-port": "8080", "v/check-path": "/ready", "v/check-interval": "10s", "v/check-bad": "3",
	}
	implied := check()
	implied.Implied = true
	proxied := &v1.LoadBalancerOptions{ProxyProtocol: v1.ProxyProtocol_PROXY_PROTOCOL_V2}
	for name, test := range map[string]struct {
		options *v1.LoadBalancerOptions
		users   map[string]string
		ip      string
		got     map[string]string
		gotIP   string
		// refused is the reason, and said what the message has.
		refused string
		said    []string
	}{
		"none": {options: &v1.LoadBalancerOptions{}, users: map[string]string{"v/internal": "yes"}, got: map[string]string{"v/internal": "yes"}},
		"options that the controller refuses": {
			users:   map[string]string{"v/internal": "yes"},
			refused: "INVALID_ANNOTATION", said: []string{"outrigger.dev/load-balancer-", "outrigger.dev/Accepted"},
		},
		"options that this load balancer does not serve": {
			options: proxied, users: map[string]string{"v/type": "plain"}, refused: "UNSUPPORTED_FEATURE", said: []string{"plain has no proxy"},
		},
		"internal":                      {options: &v1.LoadBalancerOptions{Scheme: internal}, got: map[string]string{"v/internal": "true"}},
		"a value that is no annotation": {options: &v1.LoadBalancerOptions{Scheme: everywhere}, got: map[string]string{}},
		"an annotation where there is none": {
			options: &v1.LoadBalancerOptions{Scheme: everywhere}, users: map[string]string{"v/internal": "true"},
			refused: "CONFLICTING_OPTIONS", said: []string{"outrigger.dev/load-balancer-scheme", "v/internal", `"" and "true"`},
		},
		"equal":   {options: &v1.LoadBalancerOptions{Scheme: internal}, users: map[string]string{"v/internal": " True"}, got: map[string]string{"v/internal": "true"}},
		"proxied": {options: proxied, got: map[string]string{"v/proxy": "v2"}},
		"names": {
			options: &v1.LoadBalancerOptions{ReservedAddressNames: []string{"a", "b"}}, users: map[string]string{"v/reserved": "a, b"},
			got: map[string]string{"v/reserved": "a,b"},
		},
		"other names": {
			options: &v1.LoadBalancerOptions{ReservedAddressNames: []string{"a"}}, users: map[string]string{"v/reserved": "b"},
			refused: "CONFLICTING_OPTIONS", said: []string{"outrigger.dev/load-balancer-reserved-addresses", "v/reserved", `"a" and "b"`},
		},
		"an address": {options: &v1.LoadBalancerOptions{RequestedAddresses: []string{"192.0.2.1"}}, got: map[string]string{}, gotIP: "192.0.2.1"},
		"another address": {
			options: &v1.LoadBalancerOptions{RequestedAddresses: []string{"192.0.2.1"}}, ip: "192.0.2.2",
			refused: "CONFLICTING_OPTIONS", said: []string{"outrigger.dev/load-balancer-addresses", "spec.loadBalancerIP", `"192.0.2.1" and "192.0.2.2"`},
		},
		"a health check": {options: &v1.LoadBalancerOptions{HealthCheck: check()}, got: checked},
		"another path": {
			options: &v1.LoadBalancerOptions{HealthCheck: check()}, users: map[string]string{"v/check-path": "/READY"},
			refused: "CONFLICTING_OPTIONS", said: []string{"outrigger.dev/load-balancer-health-check-path", "v/check-path", `"/ready" and "/READY"`},
		},
		"an implied health check": {options: &v1.LoadBalancerOptions{HealthCheck: implied}, got: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, updatesNodesAlone := range []bool{false, true} {
				var calls []*corev1.Service
				table := vendorsTable()
				table.UpdatesNodesAlone = func(*corev1.Service) bool { return updatesNodesAlone }
				client, _ := serving(t, Options{LoadBalancerOptions: table}, &cloud{balancers: watched{&calls}})
				sent := service()
				sent.Annotations, sent.LoadBalancerIp, sent.LoadBalancerOptions = test.users, test.ip, test.options
				errs := map[string]error{}
				balancing := v1.NewLoadBalancersServiceClient(client)
				_, errs["get"] = balancing.GetLoadBalancer(t.Context(), &v1.GetLoadBalancerRequest{Context: attempt(), Service: sent, Targets: inline()})
				_, errs["ensure"] = balancing.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{Context: attempt(), Service: sent, Targets: inline()})
				_, errs["update"] = balancing.UpdateLoadBalancerNodes(t.Context(), &v1.UpdateLoadBalancerNodesRequest{Context: attempt(), Service: sent, Targets: inline()})
				made := 0
				for call, err := range errs {
					refused, expected := status.Convert(err), test.refused
					if call == "update" && updatesNodesAlone {
						expected = ""
					}
					if expected == "" {
						made++
					}
					lacks := func(part string) bool { return !strings.Contains(refused.Message(), part) }
					if (err == nil) != (expected == "") || reasonIn(t, refused.Proto()) != expected || err != nil && slices.ContainsFunc(test.said, lacks) {
						t.Errorf("%s: %v", call, err)
					}
				}
				if len(calls) != made {
					t.Errorf("the cloud has %d calls", len(calls))
				}
				for _, service := range calls {
					if test.refused == "" && (!maps.Equal(service.Annotations, test.got) || service.Spec.LoadBalancerIP != test.gotIP) {
						t.Error(service.Annotations, service.Spec.LoadBalancerIP)
					}
				}
				// A load balancer is deleted in spite of a refusal.
				if _, err := balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: sent}); err != nil {
					t.Error(err)
				}
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
