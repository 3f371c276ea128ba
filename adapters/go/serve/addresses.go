// This file sends the addresses of Nodes that the controller accepts, and leaves the others out.

package serve

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// addresses sends those that are addresses. Upstream writes any text to a Node; the controller takes IP addresses and
// DNS names, and one that is neither must not cost the Node the others.
type addresses struct {
	// leftOut are the warnings about Nodes, each of which is one line and not one for each lookup.
	leftOut news
}

func (a *addresses) sent(ctx context.Context, node string, addresses []corev1.NodeAddress) []*v1.NodeAddress {
	sent, leftOut := make([]*v1.NodeAddress, 0, len(addresses)), []string(nil)
	for _, address := range addresses {
		if isAddress(address) {
			sent = append(sent, &v1.NodeAddress{Type: string(address.Type), Address: address.Address})
		} else {
			leftOut = append(leftOut, fmt.Sprintf("%s %q", address.Type, address.Address))
		}
	}
	if text := strings.Join(leftOut, ", "); text != "" && a.leftOut.is(node+": "+text) {
		provider.CallOf(ctx).Log.Warn("addresses of the cloud are left out: they are no IP addresses or DNS names, as their types say",
			"node", node, "addresses", text)
	}
	return sent
}

// isAddress follows the controller, which checks again.
func isAddress(address corev1.NodeAddress) bool {
	text := address.Address
	switch address.Type {
	case "":
		return false
	case corev1.NodeInternalIP, corev1.NodeExternalIP:
		return isIP(text)
	case corev1.NodeHostName:
		return isIP(text) || isDNSName(text)
	case corev1.NodeInternalDNS, corev1.NodeExternalDNS:
		return isDNSName(text)
	default: // Kubernetes may add types
		return text != "" && len(text) <= 253 && strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	}
}

func isIP(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && address.Zone() == ""
}

// dnsName is more lenient than a name in Kubernetes: upper case, underscores and the dot of the root occur in clouds.
var dnsName = regexp.MustCompile(`^(\w([\w-]{0,61}\w)?\.)*\w([\w-]{0,61}\w)?\.?$`)

func isDNSName(text string) bool { return len(text) <= 253 && dnsName.MatchString(text) }
