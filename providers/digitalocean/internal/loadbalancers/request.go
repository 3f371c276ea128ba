// This file makes the request for a load balancer, and compares it with the one that is there.

package loadbalancers

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/api"
	"outrigger.dev/providers/digitalocean/internal/instances"
)

// request is the whole load balancer as the API takes it: the specification, and of current, unless it is nil, all
// that cannot change after the creation and the Service does not speak of. Nil targets leave those of
// current.
func (s *LoadBalancers) request(ctx context.Context, spec *spec, tags tags, targets *provider.Targets, current *godo.LoadBalancer) (*godo.LoadBalancerRequest, error) {
	desired := spec.request
	desired.Region, desired.VPCUUID = s.Options.Region, s.Options.VPC
	desired.Type, desired.Network, desired.NetworkStack = cmp.Or(spec.kind, s.Options.DefaultType), spec.network, spec.networkStack
	certificate := ""
	if current != nil {
		if err := spec.checkFixed(current); err != nil {
			return nil, err
		}
		sent := current.AsRequest()
		desired.Region, desired.VPCUUID, desired.VPCSubnetUUID = cmp.Or(sent.Region, desired.Region), sent.VPCUUID, sent.VPCSubnetUUID
		desired.Type, desired.Network, desired.NetworkStack = cmp.Or(sent.Type, desired.Type), sent.Network, sent.NetworkStack
		desired.ProjectID = sent.ProjectID
		if desired.SizeUnit == 0 && desired.SizeSlug == "" { // never resize what was not asked for
			desired.SizeUnit = sent.SizeUnit
			if sent.SizeUnit == 0 {
				desired.SizeSlug = sent.SizeSlug
			}
		}
		certificate = certificateOf(current)
	}
	if spec.certificateName != "" {
		var err error
		if certificate, err = s.certificate(ctx, spec.certificateName); err != nil {
			return nil, err
		}
	}
	rules, err := spec.rules(desired.Type, certificate)
	if err != nil {
		return nil, err
	}
	if desired.ForwardingRules, err = s.renewed(ctx, rules, current); err != nil {
		return nil, err
	}
	if targets == nil && current != nil {
		setDroplets(&desired, current.DropletIDs, tags)
	} else {
		setDroplets(&desired, droplets(ctx, targets), tags)
	}
	return &desired, nil
}

// setDroplets names the backends. The API demands droplets or a tag of droplets: without droplets the
// load balancer's own tag, which no droplet has.
func setDroplets(request *godo.LoadBalancerRequest, ids []int, tags tags) {
	request.DropletIDs, request.Tag = ids, ""
	if len(ids) == 0 {
		request.DropletIDs, request.Tag = nil, tags.service
	}
}

// droplets of the targets, sorted. A Node without a provider ID yet is named by a later revision.
func droplets(ctx context.Context, targets *provider.Targets) []int {
	if targets == nil {
		return nil
	}
	var ids []int
	for _, node := range targets.Nodes() {
		id, err := instances.DropletID(node.ProviderId)
		if err != nil {
			provider.CallOf(ctx).Log.Debug("a Node is no target: it has no droplet", "node", node.Name,
				"provider_id", node.ProviderId)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// checkFixed refuses a specification of something that the API never changes.
func (spec *spec) checkFixed(current *godo.LoadBalancer) error {
	for _, fixed := range []struct{ annotation, current, desired string }{
		{"type", current.Type, spec.kind},
		{"network", current.Network, spec.network},
		{"network-stack", current.NetworkStack, spec.networkStack},
	} {
		if fixed.current != "" && fixed.desired != "" && fixed.current != fixed.desired {
			if option, isOption := spec.options[fixed.annotation]; isOption {
				return provider.FixedOption(option, fixed.desired, fixed.current)
			}
			return provider.Errorf(provider.InvalidAnnotation, "%s%s: %s cannot become %s: it is fixed when the load balancer is made; "+
				"set it back, or delete the Service and create it again", AnnotationPrefix, fixed.annotation, fixed.current, fixed.desired)
		}
	}
	return nil
}

func certificateOf(current *godo.LoadBalancer) string {
	for _, rule := range current.ForwardingRules {
		if rule.CertificateID != "" {
			return rule.CertificateID
		}
	}
	return ""
}

// certificate is the id of the one that has this name now: a renewal by Let's Encrypt changes the id.
func (s *LoadBalancers) certificate(ctx context.Context, name string) (string, error) {
	id := ""
	_, err := api.All(ctx, s.API.Certificates.List, func(certificate godo.Certificate) error {
		if certificate.Name == name {
			id = certificate.ID
		}
		return nil
	})
	switch {
	case err != nil:
		return "", api.Explain(ctx, "list certificates", "certificate:read", err)
	case id == "":
		return "", provider.Errorf(provider.DependencyNotReady, "%scertificate-name: there is no certificate %q",
			AnnotationPrefix, name)
	}
	return id, nil
}

// renewed keeps the certificate that the load balancer has where the wanted one is gone: a renewal by
// Let's Encrypt replaces it in the load balancer, not in the annotation.
func (s *LoadBalancers) renewed(ctx context.Context, rules []godo.ForwardingRule, current *godo.LoadBalancer) ([]godo.ForwardingRule, error) {
	if current == nil {
		return rules, nil
	}
	has := certificateOf(current)
	for index, rule := range rules {
		if rule.CertificateID == "" || has == "" || rule.CertificateID == has {
			continue
		}
		_, _, err := s.API.Certificates.Get(ctx, rule.CertificateID)
		switch {
		case api.IsNotFound(err):
			provider.CallOf(ctx).Log.Info("the certificate of the annotation is gone; the load balancer's stays",
				"certificate", rule.CertificateID, "load_balancer_certificate", has)
			rules[index].CertificateID = has
		case err != nil:
			return nil, api.Explain(ctx, "get certificate "+rule.CertificateID, "certificate:read", err)
		}
	}
	return rules, nil
}

// ingress is how the load balancer is reached. Where it ends TLS or HTTP, or speaks the PROXY protocol,
// Pods must go through it as well, which ip_mode Proxy tells kube-proxy.
func ingress(spec *spec, current *godo.LoadBalancer) []*v1.LoadBalancerIngress {
	if spec.hostname != "" {
		return []*v1.LoadBalancerIngress{{Hostname: spec.hostname}}
	}
	proxy := current.EnableProxyProtocol
	for _, rule := range current.ForwardingRules {
		proxy = proxy || rule.EntryProtocol != tcp && rule.EntryProtocol != udp
	}
	var addresses []*v1.LoadBalancerIngress
	for _, ip := range []string{current.IP, current.IPv6} {
		if ip == "" {
			continue
		}
		address := &v1.LoadBalancerIngress{Ip: ip}
		if proxy {
			address.IpMode = new("Proxy")
		}
		addresses = append(addresses, address)
	}
	return addresses
}

// differences names all that an update would change, for operators.
func differences(current *godo.LoadBalancer, desired *godo.LoadBalancerRequest) []string {
	var differ []string
	note := func(name string, equal bool) {
		if !equal {
			differ = append(differ, name)
		}
	}
	note("name", current.Name == desired.Name)
	note("size", (desired.SizeUnit == 0 || current.SizeUnit == desired.SizeUnit) &&
		(desired.SizeSlug == "" || current.SizeSlug == desired.SizeSlug))
	note("forwarding rules", sameSet(current.ForwardingRules, desired.ForwardingRules, compareRules))
	note("health check", sameHealthCheck(current.HealthCheck, desired.HealthCheck))
	note("sticky sessions", sameStickiness(current.StickySessions, desired.StickySessions))
	note("droplets", sameSet(current.DropletIDs, desired.DropletIDs, cmp.Compare) &&
		strings.EqualFold(current.Tag, desired.Tag))
	note("redirection to HTTPS", current.RedirectHttpToHttps == desired.RedirectHttpToHttps)
	note("PROXY protocol", current.EnableProxyProtocol == desired.EnableProxyProtocol)
	note("keep-alive of backends", current.EnableBackendKeepalive == desired.EnableBackendKeepalive)
	note("DNS records of Let's Encrypt", orZero(current.DisableLetsEncryptDNSRecords) ==
		orZero(desired.DisableLetsEncryptDNSRecords))
	note("idle timeout", cmp.Or(orZero(current.HTTPIdleTimeoutSeconds), 60) == cmp.Or(orZero(desired.HTTPIdleTimeoutSeconds), 60))
	note("firewall", sameFirewall(current.Firewall, desired.Firewall))
	note("TLS cipher policy", cmp.Or(current.TLSCipherPolicy, "DEFAULT") == cmp.Or(desired.TLSCipherPolicy, "DEFAULT"))
	return differ
}

func orZero[T any](value *T) (zero T) {
	if value == nil {
		return zero
	}
	return *value
}

func sameSet[T any](a, b []T, compare func(T, T) int) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, compare)
	slices.SortFunc(b, compare)
	return slices.EqualFunc(a, b, func(a, b T) bool { return compare(a, b) == 0 })
}

func compareRules(a, b godo.ForwardingRule) int {
	return cmp.Or(
		cmp.Compare(a.EntryPort, b.EntryPort), cmp.Compare(a.EntryProtocol, b.EntryProtocol),
		cmp.Compare(a.TargetPort, b.TargetPort), cmp.Compare(a.TargetProtocol, b.TargetProtocol),
		cmp.Compare(a.CertificateID, b.CertificateID), cmp.Compare(number(a.TlsPassthrough), number(b.TlsPassthrough)),
	)
}

func number(flag bool) int {
	if flag {
		return 1
	}
	return 0
}

// sameHealthCheck leaves out the PROXY protocol of the check, which the API need not return.
func sameHealthCheck(current, desired *godo.HealthCheck) bool {
	if current == nil || desired == nil {
		return current == desired
	}
	a, b := *current, *desired
	a.ProxyProtocol, b.ProxyProtocol = nil, nil
	if b.Path == "" { // a TCP check has none
		a.Path = ""
	}
	return a == b
}

func sameStickiness(current, desired *godo.StickySessions) bool {
	kind := func(tags *godo.StickySessions) string {
		if tags == nil {
			return "none"
		}
		return cmp.Or(tags.Type, "none")
	}
	if kind(current) != "cookies" || kind(desired) != "cookies" {
		return kind(current) == kind(desired)
	}
	return *current == *desired
}

func sameFirewall(current, desired *godo.LBFirewall) bool {
	a, b := orZero(current), orZero(desired)
	return sameSet(a.Allow, b.Allow, strings.Compare) && sameSet(a.Deny, b.Deny, strings.Compare)
}
