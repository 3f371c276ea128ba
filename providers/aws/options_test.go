// These tests look up schemes of load balancers, and ask for options that AWS's code ignores.

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

func serviceOfType(kind string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		UID: "1", Annotations: map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": kind},
	}}
}

// Classic and network load balancers have APIs of their own, of different versions.
func TestAnotherSchemeThanThatOfTheLoadBalancerIsRefused(t *testing.T) {
	answers := map[string]string{
		"2012-06-01": "<LoadBalancerDescriptions><member><Scheme>internal</Scheme></member></LoadBalancerDescriptions>",
		"2015-12-01": "<LoadBalancers><member><Scheme>internet-facing</Scheme></member></LoadBalancers>",
	}
	exists := true
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		if !exists {
			out.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(out, "<ErrorResponse><Error><Code>LoadBalancerNotFound</Code></Error></ErrorResponse>")
			return
		}
		_, _ = fmt.Fprintf(out, "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult>%s</DescribeLoadBalancersResult></DescribeLoadBalancersResponse>",
			answers[request.FormValue("Version")])
	}))
	defer server.Close()
	for key, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"} {
		t.Setenv(key, value)
	}
	lookup := new(schemes)
	if err := lookup.connect(t.Context(), "us-east-1"); err != nil {
		t.Fatal(err)
	}
	for kind, current := range map[string]string{"": "internal", "nlb": "internet-facing"} {
		for scheme, desired := range map[v1.LoadBalancerScheme]string{
			v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL: "internal", v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING: "internet-facing",
		} {
			exists = true
			err := lookup.check(t.Context(), serviceOfType(kind), &v1.LoadBalancerOptions{Scheme: scheme})
			var refused *provider.Error
			if isRefused := errors.As(err, &refused) && refused.Reason == provider.UnsupportedFeature; isRefused != (current != desired) {
				t.Error(kind, desired, err)
			}
			exists = false
			if err := lookup.check(t.Context(), serviceOfType(kind), &v1.LoadBalancerOptions{Scheme: scheme}); err != nil {
				t.Error(kind, desired, err)
			}
		}
	}
}

func TestANetworkLoadBalancerHasNoPROXYProtocolOfVersion1(t *testing.T) {
	check, proxied := new(schemes).check, &v1.LoadBalancerOptions{ProxyProtocol: v1.ProxyProtocol_PROXY_PROTOCOL_V1}
	if err := check(t.Context(), serviceOfType(""), proxied); err != nil {
		t.Error(err)
	}
	if err := check(t.Context(), serviceOfType("nlb"), &v1.LoadBalancerOptions{}); err != nil {
		t.Error(err)
	}
	var refused *provider.Error
	if err := check(t.Context(), serviceOfType("nlb"), proxied); !errors.As(err, &refused) || refused.Reason != provider.UnsupportedFeature ||
		!strings.Contains(err.Error(), "proxy_protocol_v2.enabled=true") {
		t.Error(err)
	}
}
