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

// request is the whole load balancer as the API wants it: the wish, and of current, unless it is nil, all
// that cannot change after the creation and the Service does not speak of. Nil targets leave those of
// current.
func (s *LoadBalancers) request(ctx context.Context, w *wish, of key, targets *provider.Targets, current *godo.LoadBalancer) (*godo.LoadBalancerRequest, error) {
	wanted := w.request
	wanted.Region, wanted.VPCUUID = s.Options.Region, s.Options.VPC
	wanted.Type, wanted.Network, wanted.NetworkStack = cmp.Or(w.kind, s.Options.DefaultType), w.network, w.networkStack
	certificate := ""
	if current != nil {
		if err := w.checkFixed(current); err != nil {
			return nil, err
		}
		is := current.AsRequest()
		wanted.Region, wanted.VPCUUID, wanted.VPCSubnetUUID = cmp.Or(is.Region, wanted.Region), is.VPCUUID, is.VPCSubnetUUID
		wanted.Type, wanted.Network, wanted.NetworkStack = cmp.Or(is.Type, wanted.Type), is.Network, is.NetworkStack
		wanted.ProjectID = is.ProjectID
		if wanted.SizeUnit == 0 && wanted.SizeSlug == "" { // never resize what was not asked for
			wanted.SizeUnit = is.SizeUnit
			if is.SizeUnit == 0 {
				wanted.SizeSlug = is.SizeSlug
			}
		}
		certificate = certificateOf(current)
	}
	if w.certificateName != "" {
		var err error
		if certificate, err = s.certificate(ctx, w.certificateName); err != nil {
			return nil, err
		}
	}
	rules, err := w.rules(wanted.Type, certificate)
	if err != nil {
		return nil, err
	}
	if wanted.ForwardingRules, err = s.renewed(ctx, rules, current); err != nil {
		return nil, err
	}
	if targets == nil && current != nil {
		setDroplets(&wanted, current.DropletIDs, of)
	} else {
		setDroplets(&wanted, droplets(ctx, targets), of)
	}
	return &wanted, nil
}

// setDroplets names the backends. The API demands droplets or a tag of droplets: without droplets the
// load balancer's own tag, which no droplet has.
func setDroplets(request *godo.LoadBalancerRequest, ids []int, of key) {
	request.DropletIDs, request.Tag = ids, ""
	if len(ids) == 0 {
		request.DropletIDs, request.Tag = nil, of.service
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

// checkFixed refuses a wish for something that the API never changes.
func (w *wish) checkFixed(current *godo.LoadBalancer) error {
	for _, fixed := range []struct{ annotation, is, wanted string }{
		{"type", current.Type, w.kind},
		{"network", current.Network, w.network},
		{"network-stack", current.NetworkStack, w.networkStack},
	} {
		if fixed.is != "" && fixed.wanted != "" && fixed.is != fixed.wanted {
			return provider.Errorf(provider.InvalidAnnotation, "%s%s: %s cannot become %s: it is fixed when the load "+
				"balancer is made; set it back, or make the Service anew", AnnotationPrefix, fixed.annotation, fixed.is, fixed.wanted)
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
func ingress(w *wish, current *godo.LoadBalancer) []*v1.LoadBalancerIngress {
	if w.hostname != "" {
		return []*v1.LoadBalancerIngress{{Hostname: w.hostname}}
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

// differences name all that an update would change, for people; none: nothing.
func differences(current *godo.LoadBalancer, wanted *godo.LoadBalancerRequest) []string {
	var differ []string
	note := func(name string, equal bool) {
		if !equal {
			differ = append(differ, name)
		}
	}
	note("name", current.Name == wanted.Name)
	note("size", (wanted.SizeUnit == 0 || current.SizeUnit == wanted.SizeUnit) &&
		(wanted.SizeSlug == "" || current.SizeSlug == wanted.SizeSlug))
	note("forwarding rules", sameSet(current.ForwardingRules, wanted.ForwardingRules, compareRules))
	note("health check", sameHealthCheck(current.HealthCheck, wanted.HealthCheck))
	note("sticky sessions", sameStickiness(current.StickySessions, wanted.StickySessions))
	note("droplets", sameSet(current.DropletIDs, wanted.DropletIDs, cmp.Compare) &&
		strings.EqualFold(current.Tag, wanted.Tag))
	note("redirection to HTTPS", current.RedirectHttpToHttps == wanted.RedirectHttpToHttps)
	note("PROXY protocol", current.EnableProxyProtocol == wanted.EnableProxyProtocol)
	note("keep-alive of backends", current.EnableBackendKeepalive == wanted.EnableBackendKeepalive)
	note("DNS records of Let's Encrypt", orZero(current.DisableLetsEncryptDNSRecords) ==
		orZero(wanted.DisableLetsEncryptDNSRecords))
	note("idle timeout", cmp.Or(orZero(current.HTTPIdleTimeoutSeconds), 60) == cmp.Or(orZero(wanted.HTTPIdleTimeoutSeconds), 60))
	note("firewall", sameFirewall(current.Firewall, wanted.Firewall))
	note("TLS cipher policy", cmp.Or(current.TLSCipherPolicy, "DEFAULT") == cmp.Or(wanted.TLSCipherPolicy, "DEFAULT"))
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
func sameHealthCheck(is, wanted *godo.HealthCheck) bool {
	if is == nil || wanted == nil {
		return is == wanted
	}
	a, b := *is, *wanted
	a.ProxyProtocol, b.ProxyProtocol = nil, nil
	if b.Path == "" { // a TCP check has none
		a.Path = ""
	}
	return a == b
}

func sameStickiness(is, wanted *godo.StickySessions) bool {
	kind := func(of *godo.StickySessions) string {
		if of == nil {
			return "none"
		}
		return cmp.Or(of.Type, "none")
	}
	if kind(is) != "cookies" || kind(wanted) != "cookies" {
		return kind(is) == kind(wanted)
	}
	return *is == *wanted
}

func sameFirewall(is, wanted *godo.LBFirewall) bool {
	a, b := orZero(is), orZero(wanted)
	return sameSet(a.Allow, b.Allow, strings.Compare) && sameSet(a.Deny, b.Deny, strings.Compare)
}
