// This file has AWS's annotations for the options of load balancers that mean the same in every cloud.

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go"
	"gopkg.in/gcfg.v1"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	aws "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/config"
	awsservices "k8s.io/cloud-provider-aws/pkg/services"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/serve"
)

// optionAnnotations are those that classic and network load balancers have in common, and the PROXY protocol of classic ones.
// A timeout of health checks has no effect on network ones, whose own one of 10 s is the shortest interval.
func optionAnnotations() *serve.OptionAnnotations {
	number := func(key string, least, most uint32) serve.Number {
		return serve.Number{Key: key, Min: least, Max: most}
	}
	return &serve.OptionAnnotations{
		Scheme: serve.Choice[v1.LoadBalancerScheme]{
			Key: aws.ServiceAnnotationLoadBalancerInternal,
			Values: map[v1.LoadBalancerScheme]string{
				v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING: "false",
				v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL:        "true",
			},
		},
		ProxyProtocol: serve.Choice[v1.ProxyProtocol]{
			Key:    aws.ServiceAnnotationLoadBalancerProxyProtocol,
			Values: map[v1.ProxyProtocol]string{v1.ProxyProtocol_PROXY_PROTOCOL_V1: "*"},
		},
		HealthCheck: serve.HealthCheckAnnotations{
			Protocol: serve.Choice[v1.HealthCheckProtocol]{
				Key: aws.ServiceAnnotationLoadBalancerHealthCheckProtocol,
				Values: map[v1.HealthCheckProtocol]string{
					v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_TCP:   "TCP",
					v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTP:  "HTTP",
					v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTPS: "HTTPS",
				},
			},
			Port:               aws.ServiceAnnotationLoadBalancerHealthCheckPort,
			Path:               aws.ServiceAnnotationLoadBalancerHealthCheckPath,
			Interval:           number(aws.ServiceAnnotationLoadBalancerHCInterval, 10, 300),
			HealthyThreshold:   number(aws.ServiceAnnotationLoadBalancerHCHealthyThreshold, 2, 10),
			UnhealthyThreshold: number(aws.ServiceAnnotationLoadBalancerHCUnhealthyThreshold, 2, 10),
		},
		Fixed:   []v1.LoadBalancerOption{v1.LoadBalancerOption_LOAD_BALANCER_OPTION_SCHEME},
		Current: new(schemes).annotations,
		Check:   checkOptions,
	}
}

func isNetwork(service *corev1.Service) bool {
	return service.Annotations[aws.ServiceAnnotationLoadBalancerType] == "nlb"
}

// checkOptions refuses the annotation that AWS's code ignores for a network load balancer.
func checkOptions(service *corev1.Service, options *v1.LoadBalancerOptions) error {
	if isNetwork(service) && options.ProxyProtocol != v1.ProxyProtocol_PROXY_PROTOCOL_UNSPECIFIED {
		return provider.Errorf(provider.UnsupportedFeature, "a network load balancer speaks version 2 of the PROXY protocol alone: remove "+
			"outrigger.dev/load-balancer-proxy-protocol, and set %s to proxy_protocol_v2.enabled=true",
			aws.ServiceAnnotationLoadBalancerTargetGroupAttributes)
	}
	return nil
}

// schemes asks AWS for the schemes of load balancers, by clients of its own: AWS's code neither changes a scheme nor shows it.
type schemes struct {
	mu      sync.Mutex
	classic *elb.Client
	network *elbv2.Client
}

// annotations are those that fit the load balancer of a Service; nil: there is none.
func (s *schemes) annotations(ctx context.Context, _ string, service *corev1.Service) (map[string]string, error) {
	scheme, err := s.of(ctx, cloudprovider.DefaultLoadBalancerName(service), isNetwork(service))
	var answer smithy.APIError
	switch {
	case errors.As(err, &answer) && answer.ErrorCode() == "LoadBalancerNotFound":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the scheme of the load balancer cannot be looked up: %w", err)
	}
	return map[string]string{aws.ServiceAnnotationLoadBalancerInternal: strconv.FormatBool(scheme == "internal")}, nil
}

func (s *schemes) of(ctx context.Context, name string, isNetwork bool) (scheme string, err error) {
	if err := s.connect(ctx); err != nil {
		return "", err
	}
	if isNetwork {
		answer, err := s.network.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{Names: []string{name}})
		if err != nil {
			return "", err
		}
		for _, balancer := range answer.LoadBalancers {
			scheme = string(balancer.Scheme)
		}
		return scheme, nil
	}
	answer, err := s.classic.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{name}})
	if err != nil {
		return "", err
	}
	for _, balancer := range answer.LoadBalancerDescriptions {
		scheme = awssdk.ToString(balancer.Scheme)
	}
	return scheme, nil
}

// connect makes the clients once, from the cloud config as AWS's code does.
func (s *schemes) connect(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.network != nil {
		return nil
	}
	var settings config.CloudConfig
	if path := serve.CloudConfig(); path != "" {
		if err := gcfg.FatalOnly(gcfg.ReadFileInto(&settings, path)); err != nil {
			return err
		}
	}
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithEC2IMDSRegion()}
	if region := settings.Global.Region; region != "" {
		options = []func(*awsconfig.LoadOptions) error{awsconfig.WithRegion(region)}
	}
	loaded, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return err
	}
	if role := settings.Global.RoleARN; role != "" {
		client, err := awsservices.NewStsClient(ctx, loaded.Region, role, settings.Global.SourceARN)
		if err != nil {
			return err
		}
		loaded.Credentials = awssdk.NewCredentialsCache(stscreds.NewAssumeRoleProvider(client, role))
	}
	resolveClassic := func(o *elb.Options) { o.EndpointResolverV2 = settings.GetCustomELBResolver() }
	resolveNetwork := func(o *elbv2.Options) { o.EndpointResolverV2 = settings.GetCustomELBV2Resolver() }
	s.classic = elb.NewFromConfig(loaded, append(settings.GetELBEndpointOpts(loaded.Region), resolveClassic)...)
	s.network = elbv2.NewFromConfig(loaded, append(settings.GetELBV2EndpointOpts(loaded.Region), resolveNetwork)...)
	return nil
}
