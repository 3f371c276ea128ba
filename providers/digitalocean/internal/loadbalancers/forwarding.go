// This file makes forwarding rules from the ports and annotations of a Service.

package loadbalancers

import (
	"slices"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// Protocols of forwarding rules.
const (
	tcp   = "tcp"
	udp   = "udp"
	http  = "http"
	https = "https"
	http2 = "http2"
	http3 = "http3"
)

const securePort = 443

// forwarding reads the annotations about protocols. The rules wait for the kind of load balancer and the
// id of the certificate, which one that is there already, or the cloud, tells.
func forwarding(a *annotations, service *v1.Service, spec *spec) func(kind, certificateID string) ([]godo.ForwardingRule, error) {
	fallback := a.choice("protocol", tcp, http, https, http2)
	httpPorts, tlsPorts := a.ports("http-ports", service), a.ports("tls-ports", service)
	http2Ports, http3Ports := a.ports("http2-ports", service), a.ports("http3-port", service)
	passthrough := a.flag("tls-passthrough")
	certificate := a.text("certificate-id")
	spec.certificateName = a.text("certificate-name")
	hasCertificate := certificate != "" || spec.certificateName != ""
	if certificate != "" {
		spec.certificateName = "" // the id wins
	}
	if len(http3Ports) > 1 {
		a.refuse("http3-port", "names %d ports; one is served", len(http3Ports))
	}
	if (hasCertificate || passthrough) && len(tlsPorts) == 0 && !slices.Contains(http2Ports, securePort) {
		tlsPorts = []int32{securePort}
	}
	protocols := map[int32]string{}
	for _, named := range []struct {
		key, protocol string
		ports         []int32
	}{{"http-ports", http, httpPorts}, {"tls-ports", https, tlsPorts}, {"http2-ports", http2, http2Ports}} {
		for _, port := range named.ports {
			if other, twice := protocols[port]; twice && other != named.protocol {
				a.refuse(named.key, "port %d is %s already", port, other)
			}
			protocols[port] = named.protocol
		}
	}
	protocolOf := func(port *v1.ServicePort) string {
		switch {
		case port.Protocol == "UDP":
			return udp
		case protocols[port.Port] != "":
			return protocols[port.Port]
		case fallback != "":
			return fallback
		default:
			return tcp
		}
	}
	secure, layer7 := len(http3Ports) > 0, len(http3Ports) > 0
	for _, port := range service.Ports {
		protocol := protocolOf(port)
		secure = secure || protocol == https || protocol == http2
		layer7 = layer7 || protocol != tcp && protocol != udp
	}
	switch {
	case secure && hasCertificate && passthrough:
		a.refuse("tls-passthrough", "cannot stand beside a certificate")
	case secure && !hasCertificate && !passthrough:
		a.refuse("protocol", "https and http2 need %[1]scertificate-id, %[1]scertificate-name or %[1]stls-passthrough",
			AnnotationPrefix)
	case len(http3Ports) > 0 && passthrough:
		a.refuse("http3-port", "cannot be served with tls-passthrough")
	}
	return func(kind, certificateID string) ([]godo.ForwardingRule, error) {
		if certificate != "" {
			certificateID = certificate
		}
		if kind == godo.LoadBalancerTypeRegionalNetwork {
			if layer7 {
				return nil, provider.Errorf(provider.InvalidAnnotation, "%[1]stype is %[2]s, which serves TCP and UDP "+
					"alone: set it to %[3]s for HTTP and TLS", AnnotationPrefix, kind, godo.LoadBalancerTypeRegional)
			}
			return networkRules(service), nil
		}
		var rules []godo.ForwardingRule
		for _, port := range service.Ports {
			if port.NodePort == 0 {
				return nil, provider.Errorf(provider.UnsupportedFeature, "port %d has no node port: a load balancer of "+
					"type %s needs allocateLoadBalancerNodePorts", port.Port, kind)
			}
			protocol := protocolOf(port)
			if protocol == udp && slices.Contains(http3Ports, port.Port) {
				continue // HTTP/3 is what this port is for
			}
			rule := godo.ForwardingRule{
				EntryProtocol: protocol, EntryPort: int(port.Port), TargetProtocol: protocol, TargetPort: int(port.NodePort),
			}
			if protocol == https || protocol == http2 {
				if passthrough {
					rule.TlsPassthrough = true
				} else {
					rule.CertificateID, rule.TargetProtocol = certificateID, http
				}
			}
			rules = append(rules, rule)
			if port.Protocol == "TCP" && slices.Contains(http3Ports, port.Port) {
				rules = append(rules, godo.ForwardingRule{
					EntryProtocol: http3, EntryPort: int(port.Port), CertificateID: certificateID,
					TargetProtocol: http, TargetPort: int(port.NodePort),
				})
			}
		}
		return rules, nil
	}
}

// networkRules of a load balancer that sends packets on as they are: to the port that clients use.
func networkRules(service *v1.Service) []godo.ForwardingRule {
	var rules []godo.ForwardingRule
	for _, port := range service.Ports {
		protocol := tcp
		if port.Protocol == "UDP" {
			protocol = udp
		}
		rules = append(rules, godo.ForwardingRule{
			EntryProtocol: protocol, EntryPort: int(port.Port), TargetProtocol: protocol, TargetPort: int(port.Port),
		})
	}
	return rules
}
