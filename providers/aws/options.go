// This file has AWS's annotations for the options of load balancers that mean the same in every cloud.

package main

import (
	"context"
	"errors"

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
func optionAnnotations(schemes *schemes) *serve.OptionAnnotations {
	number := func(key string, least, most uint32) serve.Number {
		return serve.Number{Key: key, Range: &v1.UintRange{Min: least, Max: most}}
	}
	return &serve.OptionAnnotations{
		Scheme: serve.Choice[v1.LoadBalancerScheme]{Key: aws.ServiceAnnotationLoadBalancerInternal, Values: map[v1.LoadBalancerScheme]string{
			v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING: "false", v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL: "true",
		}},
		ProxyProtocol: serve.Choice[v1.ProxyProtocol]{Key: aws.ServiceAnnotationLoadBalancerProxyProtocol, Values: map[v1.ProxyProtocol]string{
			v1.ProxyProtocol_PROXY_PROTOCOL_V1: "*",
		}},
		HealthCheck: serve.HealthCheckAnnotations{
			Protocol: serve.Choice[v1.HealthCheckProtocol]{Key: aws.ServiceAnnotationLoadBalancerHealthCheckProtocol, Values: map[v1.HealthCheckProtocol]string{
				v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_TCP: "TCP", v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTP: "HTTP",
				v1.HealthCheckProtocol_HEALTH_CHECK_PROTOCOL_HTTPS: "HTTPS",
			}},
			Port:               aws.ServiceAnnotationLoadBalancerHealthCheckPort,
			Path:               aws.ServiceAnnotationLoadBalancerHealthCheckPath,
			Interval:           number(aws.ServiceAnnotationLoadBalancerHCInterval, 10, 300),
			HealthyThreshold:   number(aws.ServiceAnnotationLoadBalancerHCHealthyThreshold, 2, 10),
			UnhealthyThreshold: number(aws.ServiceAnnotationLoadBalancerHCUnhealthyThreshold, 2, 10),
		},
		Fixed: []v1.LoadBalancerOption{v1.LoadBalancerOption_LOAD_BALANCER_OPTION_SCHEME},
		Check: schemes.check,
		// AWS's code makes the whole of a network load balancer again.
		UpdatesNodesAlone: func(service *corev1.Service) bool { return !isNetwork(service) },
	}
}

func isNetwork(service *corev1.Service) bool {
	return service.Annotations[aws.ServiceAnnotationLoadBalancerType] == "nlb"
}

// schemes asks AWS for the schemes of load balancers, by clients of its own: AWS's code ignores a change of a scheme without an error, and
// shows none. A user who asks for an internal load balancer would go on with one that the internet reaches.
type schemes struct {
	classic *elb.Client
	network *elbv2.Client
}

// check refuses what AWS's code ignores.
func (s *schemes) check(ctx context.Context, service *corev1.Service, options *v1.LoadBalancerOptions) error {
	if isNetwork(service) && options.ProxyProtocol != v1.ProxyProtocol_PROXY_PROTOCOL_UNSPECIFIED {
		return provider.Errorf(provider.UnsupportedFeature, "a network load balancer speaks version 2 of the PROXY protocol alone: remove "+
			"%sproxy-protocol, and set %s to proxy_protocol_v2.enabled=true", provider.OptionPrefix, aws.ServiceAnnotationLoadBalancerTargetGroupAttributes)
	}
	desired := map[v1.LoadBalancerScheme]string{
		v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNET_FACING: "internet-facing", v1.LoadBalancerScheme_LOAD_BALANCER_SCHEME_INTERNAL: "internal",
	}[options.Scheme]
	if desired == "" {
		return nil
	}
	current, err := s.current(ctx, cloudprovider.DefaultLoadBalancerName(service), isNetwork(service))
	var answer smithy.APIError
	switch {
	case errors.As(err, &answer) && answer.ErrorCode() == "LoadBalancerNotFound":
		return nil
	case err == nil && current != desired:
		return provider.FixedOption("scheme", desired, current)
	default:
		return err
	}
}

func (s *schemes) current(ctx context.Context, name string, isNetwork bool) (string, error) {
	if isNetwork {
		answer, err := s.network.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{Names: []string{name}})
		if err != nil || len(answer.LoadBalancers) == 0 {
			return "", err
		}
		return string(answer.LoadBalancers[0].Scheme), nil
	}
	answer, err := s.classic.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{name}})
	if err != nil || len(answer.LoadBalancerDescriptions) == 0 {
		return "", err
	}
	return awssdk.ToString(answer.LoadBalancerDescriptions[0].Scheme), nil
}

// connect makes the clients from the cloud config, as AWS's code does.
func (s *schemes) connect(ctx context.Context, region string) error {
	var settings config.CloudConfig
	if path := serve.CloudConfig(); path != "" {
		if err := gcfg.FatalOnly(gcfg.ReadFileInto(&settings, path)); err != nil {
			return err
		}
	}
	loaded, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(region))
	if err != nil {
		return err
	}
	if role := settings.Global.RoleARN; role != "" {
		client, err := awsservices.NewStsClient(ctx, region, role, settings.Global.SourceARN)
		if err != nil {
			return err
		}
		loaded.Credentials = awssdk.NewCredentialsCache(stscreds.NewAssumeRoleProvider(client, role))
	}
	resolveClassic := func(o *elb.Options) { o.EndpointResolverV2 = settings.GetCustomELBResolver() }
	resolveNetwork := func(o *elbv2.Options) { o.EndpointResolverV2 = settings.GetCustomELBV2Resolver() }
	s.classic = elb.NewFromConfig(loaded, append(settings.GetELBEndpointOpts(region), resolveClassic)...)
	s.network = elbv2.NewFromConfig(loaded, append(settings.GetELBV2EndpointOpts(region), resolveNetwork)...)
	return nil
}
