// This file reads from a Service what its load balancer should be.

package loadbalancers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// kubeProxyHealthPort is the port on which kube-proxy says whether a Node takes traffic.
const kubeProxyHealthPort = 10256

// spec is the load balancer that a Service specifies: all but its droplets and, where they are named, its
// certificate. Empty fields are those that the Service leaves to the cloud, or to what is there.
type spec struct {
	name            string
	kind            string
	network         string
	networkStack    string
	hostname        string
	certificateName string
	unknown         []string
	// options are those that annotations were set for, by the key of the annotation.
	options map[string]string

	// request has the fields that do not follow from others; without rules.
	request godo.LoadBalancerRequest
	rules   func(kind, certificateID string) ([]godo.ForwardingRule, error)
}

// specOf reads a Service. An error says all that its annotations have wrong.
func specOf(service *v1.Service) (*spec, error) {
	if err := refuseUnserved(service); err != nil {
		return nil, err
	}
	a := annotationsOf(service)
	spec := &spec{
		name:         nameOf(a, service),
		kind:         a.choice("type", godo.LoadBalancerTypeRegional, godo.LoadBalancerTypeRegionalNetwork),
		network:      a.choice("network", godo.LoadBalancerNetworkTypeExternal, godo.LoadBalancerNetworkTypeInternal),
		networkStack: networkStack(a, service),
		hostname:     strings.ToLower(a.text("hostname")),
		options:      a.options,
	}
	a.text("algorithm") // the API no longer reads it
	spec.request = godo.LoadBalancerRequest{
		Name:                         spec.name,
		SizeSlug:                     a.choice("size-slug", "lb-small", "lb-medium", "lb-large"),
		SizeUnit:                     uint32(a.number("size-unit", 1, 100, 0)),
		HealthCheck:                  healthCheck(a, service),
		StickySessions:               stickySessions(a),
		RedirectHttpToHttps:          a.flag("redirect-http-to-https"),
		EnableProxyProtocol:          a.flag("enable-proxy-protocol"),
		EnableBackendKeepalive:       a.flag("enable-backend-keepalive"),
		DisableLetsEncryptDNSRecords: new(a.flag("disable-lets-encrypt-dns-records")),
		Firewall:                     firewall(a, service),
		TLSCipherPolicy:              a.choice("tls-cipher-policy", "DEFAULT", "STRONG"),
	}
	if spec.request.SizeSlug != "" && spec.request.SizeUnit != 0 {
		a.refuse("size-slug", "cannot stand beside %ssize-unit", AnnotationPrefix)
	}
	if seconds := a.number("http-idle-timeout-seconds", 30, 600, 0); seconds > 0 {
		spec.request.HTTPIdleTimeoutSeconds = new(uint64(seconds))
	}
	spec.rules = forwarding(a, service, spec)
	if err := a.err(); err != nil {
		return nil, err
	}
	spec.unknown = a.unknown()
	return spec, nil
}

// refuseUnserved refuses a Service that no load balancer of DigitalOcean serves.
func refuseUnserved(service *v1.Service) error {
	for _, port := range service.Ports {
		if port.Protocol != "TCP" && port.Protocol != "UDP" {
			return provider.Errorf(provider.UnsupportedProtocol,
				"port %d has protocol %q: DigitalOcean's load balancers serve TCP and UDP", port.Port, port.Protocol)
		}
	}
	switch {
	case len(service.Ports) == 0:
		return provider.Errorf(provider.UnsupportedFeature, "the Service has no ports")
	case service.LoadBalancerIp != "":
		return provider.Errorf(provider.InvalidAnnotation,
			"spec.loadBalancerIP is %s: the cloud chooses the address; remove the field", service.LoadBalancerIp)
	case service.SessionAffinity == "ClientIP":
		return provider.Errorf(provider.UnsupportedFeature, "sessionAffinity ClientIP is not served: "+
			"use the annotation %ssticky-sessions-type with http", AnnotationPrefix)
	case slices.Equal(service.IpFamilies, []string{"IPv6"}):
		return provider.Errorf(provider.UnsupportedFeature,
			"ipFamilies is IPv6 alone: use IPv4, or both with ipFamilyPolicy RequireDualStack")
	}
	return nil
}

func nameOf(a *annotations, service *v1.Service) string {
	name := a.text("name")
	if name == "" {
		return "a" + strings.ReplaceAll(service.Uid, "-", "")
	}
	legal := len(name) <= 255 && !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, ".") &&
		!strings.HasSuffix(name, "-") && !strings.ContainsFunc(name, func(char rune) bool {
		return !(char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z' || char >= '0' && char <= '9' ||
			char == '.' || char == '-')
	})
	if !legal {
		a.refuse("name", "%q is no legal name: use at most 255 letters, digits, '.' and '-', "+
			"a letter or digit first, no '-' last", name)
	}
	return name
}

func networkStack(a *annotations, service *v1.Service) string {
	stack := a.choice("network-stack", godo.LoadBalancerNetworkStackIPv4, godo.LoadBalancerNetworkStackDualstack)
	if service.IpFamilyPolicy == "RequireDualStack" {
		if stack == godo.LoadBalancerNetworkStackIPv4 {
			a.refuse("network-stack", "is IPV4, but ipFamilyPolicy is RequireDualStack")
		}
		return godo.LoadBalancerNetworkStackDualstack
	}
	if stack == "" && slices.Equal(service.IpFamilies, []string{"IPv4"}) {
		return godo.LoadBalancerNetworkStackIPv4
	}
	return stack
}

// healthCheck asks kube-proxy, or with externalTrafficPolicy Local the health check's own port, unless the
// Service overrides that.
func healthCheck(a *annotations, service *v1.Service) *godo.HealthCheck {
	check := &godo.HealthCheck{
		Protocol: "http", Port: kubeProxyHealthPort, Path: "/healthz", ProxyProtocol: new(false),
		CheckIntervalSeconds:   a.number("healthcheck-check-interval-seconds", 3, 300, 3),
		ResponseTimeoutSeconds: a.number("healthcheck-response-timeout-seconds", 3, 300, 5),
		UnhealthyThreshold:     a.number("healthcheck-unhealthy-threshold", 2, 10, 3),
		HealthyThreshold:       a.number("healthcheck-healthy-threshold", 2, 10, 5),
	}
	if service.ExternalTrafficPolicy == "Local" && service.HealthCheckNodePort != 0 {
		check.Port = int(service.HealthCheckNodePort)
	}
	path := a.text("healthcheck-path")
	protocol := a.choice("healthcheck-protocol", "tcp", "http", "https")
	ports := a.ports("healthcheck-port", service)
	_, overridden := service.Annotations[AnnotationPrefix+"override-health-check"]
	a.text("override-health-check")
	if !overridden {
		a.setCheck(check, service, false)
		return check
	}
	if len(ports) > 1 {
		a.refuse("healthcheck-port", "names %d ports; one is checked", len(ports))
	}
	check.ProxyProtocol = nil // as the load balancer itself
	check.Protocol, check.Path = protocol, path
	if protocol == "" {
		check.Protocol = "tcp"
		if path != "" {
			check.Protocol = "http"
		}
	}
	if check.Protocol != "tcp" && path == "" {
		check.Path = "/"
	}
	for _, port := range service.Ports {
		if port.Protocol == "TCP" && (len(ports) == 0 || port.Port == ports[0]) {
			check.Port = int(port.NodePort)
			a.setCheck(check, service, true)
			return check
		}
	}
	a.refuse("healthcheck-port", "there is no TCP port to check")
	return check
}

func stickySessions(a *annotations) *godo.StickySessions {
	sticky := &godo.StickySessions{Type: a.choice("sticky-sessions-type", "none", "cookies")}
	cookie := a.text("sticky-sessions-cookie-name")
	ttl := a.number("sticky-sessions-cookie-ttl", 1, 34650, 0)
	if sticky.Type != "cookies" {
		sticky.Type = "none"
		return sticky
	}
	if cookie == "" || ttl == 0 {
		a.refuse("sticky-sessions-type", "cookies needs %[1]ssticky-sessions-cookie-name and "+
			"%[1]ssticky-sessions-cookie-ttl", AnnotationPrefix)
	}
	sticky.CookieName, sticky.CookieTtlSeconds = cookie, ttl
	return sticky
}

// firewall: source ranges of the Service win over the annotation.
func firewall(a *annotations, service *v1.Service) *godo.LBFirewall {
	allow, deny := sources(a, "allow-rules"), sources(a, "deny-rules")
	if len(service.LoadBalancerSourceRanges) > 0 {
		allow = nil
		for _, cidr := range service.LoadBalancerSourceRanges {
			allow = append(allow, godo.CIDRSourceFirewall(cidr))
		}
	}
	return &godo.LBFirewall{Allow: allow, Deny: deny}
}

func sources(a *annotations, key string) []string {
	rules := a.list(key)
	for _, rule := range rules {
		kind, source, _ := strings.Cut(rule, ":")
		var err error
		switch kind {
		case "ip":
			_, err = netip.ParseAddr(source)
		case "cidr":
			_, err = netip.ParsePrefix(source)
		default:
			err = fmt.Errorf("%q", kind)
		}
		if err != nil {
			a.refuse(key, "%q is no rule: use ip:1.2.3.4 or cidr:1.2.3.0/24", rule)
		}
	}
	return rules
}
