package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"outrigger.dev/adapters/go/provider"
)

const scheme = "pond://"

var legalID = regexp.MustCompile(`^pond://m-[0-9]+$`)

// cloud is Pond for upstream's library.
type cloud struct {
	url, token string
	client     *http.Client
}

type machine struct {
	ID, Name, Address, Zone string
	On                      bool
}

type balancer struct {
	ID      string   `json:"id,omitempty"`
	Address string   `json:"address,omitempty"`
	Cluster string   `json:"cluster,omitempty"`
	Service string   `json:"service,omitempty"`
	Ports   []port   `json:"ports,omitempty"`
	Check   int32    `json:"check,omitempty"`
	Targets []string `json:"targets"`
}

type port struct {
	Port     int32 `json:"port"`
	NodePort int32 `json:"node_port"`
}

// refusal is an answer of Pond. The adapter reads its fields, and not its text.
type refusal struct {
	StatusCode int
	Code       string
	Header     http.Header
}

func (r *refusal) Error() string { return fmt.Sprintf("Pond: %d %s", r.StatusCode, r.Code) }

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

func (c *cloud) ProviderName() string { return "pond" }
func (c *cloud) HasClusterID() bool   { return true }

func (c *cloud) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, true }
func (c *cloud) Zones() (cloudprovider.Zones, bool)               { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)         { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)             { return nil, false }
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

// request asks Pond, and decodes its answer into result.
func (c *cloud) request(ctx context.Context, method, path string, body, result any) error {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, reader)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		return json.NewDecoder(response.Body).Decode(result)
	case http.StatusUnprocessableEntity:
		return &refusal{response.StatusCode, "QuotaExceeded", response.Header}
	default:
		return &refusal{response.StatusCode, "", response.Header}
	}
}

// machine of a Node: by the provider ID, or by the name where there is none yet.
func (c *cloud) machine(ctx context.Context, node *corev1.Node) (*machine, error) {
	if id := node.Spec.ProviderID; id != "" && !legalID.MatchString(id) {
		return nil, provider.Errorf(provider.MalformedProviderID, "%s is no ID of Pond", id)
	}
	var machines []machine
	if err := c.request(ctx, http.MethodGet, "/machines", nil, &machines); err != nil {
		return nil, err
	}
	for _, m := range machines {
		if node.Spec.ProviderID == scheme+m.ID || node.Spec.ProviderID == "" && node.Name == m.Name {
			return &m, nil
		}
	}
	if len(machines) == 0 {
		return nil, errors.New("Pond shows no machine at all")
	}
	return nil, nil
}

func (c *cloud) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	m, err := c.machine(ctx, node)
	return m != nil, err
}

func (c *cloud) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	m, err := c.machine(ctx, node)
	return m != nil && !m.On, err
}

func (c *cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m, err := c.machine(ctx, node)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: scheme + m.ID, Zone: m.Zone,
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: m.Name}, {Type: corev1.NodeInternalIP, Address: m.Address},
		},
	}, nil
}

func (c *cloud) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// tagged is the load balancer of a Service; nil: there is none.
func (c *cloud) tagged(ctx context.Context, service *corev1.Service) (*balancer, error) {
	var balancers []balancer
	tags := url.Values{"cluster": {provider.CallOf(ctx).Cluster.UID}, "service": {string(service.UID)}}
	err := c.request(ctx, http.MethodGet, "/balancers?"+tags.Encode(), nil, &balancers)
	if err != nil || len(balancers) == 0 {
		return nil, err
	}
	return &balancers[0], nil
}

func (c *cloud) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	b, err := c.tagged(ctx, service)
	if err != nil || b == nil {
		return nil, false, err
	}
	return status(b), true, nil
}

func (c *cloud) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	desired, err := translated(service)
	if err != nil {
		return nil, err
	}
	desired.Cluster, desired.Targets = provider.CallOf(ctx).Cluster.UID, targets(nodes)
	b, err := c.tagged(ctx, service)
	if err != nil {
		return nil, err
	}
	method, path := http.MethodPost, "/balancers"
	if b != nil {
		method, path = http.MethodPut, "/balancers/"+b.ID
	}
	var ensured balancer
	if err := c.request(ctx, method, path, desired, &ensured); err != nil {
		return nil, err
	}
	return status(&ensured), nil
}

func (c *cloud) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	b, err := c.tagged(ctx, service)
	if err != nil {
		return err
	}
	if b == nil {
		return errors.New("the Service has no load balancer") // the adapter asks GetLoadBalancer then
	}
	return c.request(ctx, http.MethodPut, "/balancers/"+b.ID, balancer{Targets: targets(nodes)}, b)
}

func (c *cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	b, err := c.tagged(ctx, service)
	if err != nil || b == nil {
		return err
	}
	return c.request(ctx, http.MethodDelete, "/balancers/"+b.ID, nil, b)
}

// translated is a Service as a load balancer without targets. It refuses what Pond cannot serve.
func translated(service *corev1.Service) (*balancer, error) {
	spec := &service.Spec
	for feature, isAsked := range map[string]bool{
		"choice of addresses": spec.LoadBalancerIP != "",
		"session affinity":    spec.SessionAffinity == corev1.ServiceAffinityClientIP,
		"source ranges":       len(spec.LoadBalancerSourceRanges) > 0,
		"IPv6": len(spec.IPFamilies) > 0 && spec.IPFamilies[0] == corev1.IPv6Protocol ||
			spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack,
		"way to a port without a node port": slices.ContainsFunc(spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == 0 }),
	} {
		if isAsked {
			return nil, provider.Errorf(provider.UnsupportedFeature, "Pond has no %s", feature)
		}
	}
	b := &balancer{Service: string(service.UID), Check: cmp.Or(spec.HealthCheckNodePort, 10256)}
	for _, p := range spec.Ports {
		if p.Protocol != corev1.ProtocolTCP {
			return nil, provider.Errorf(provider.UnsupportedProtocol, "Pond cannot serve %s/%d", p.Protocol, p.Port)
		}
		b.Ports = append(b.Ports, port{p.Port, p.NodePort})
	}
	return b, nil
}

func status(b *balancer) *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: b.Address}}}
}

// targets are the internal addresses of the Nodes.
func targets(nodes []*corev1.Node) []string {
	addresses := []string{}
	for _, node := range nodes {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				addresses = append(addresses, address.Address)
			}
		}
	}
	return addresses
}
