// This file sends the addresses of Nodes that the controller accepts, and leaves the others out.

package serve

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// addresses sends those that are addresses. Upstream writes any text to a Node; the controller takes IP addresses and
// DNS names, and one that is neither must not cost the Node the others.
type addresses struct {
	mu sync.Mutex
	// leftOut has the text of the last warning about each Node, so that it is one line and not one for each lookup.
	leftOut map[string]string
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
	if text := strings.Join(leftOut, ", "); a.isNews(node, text) {
		provider.CallOf(ctx).Log.Warn("addresses of the cloud are left out: they are no IP addresses or DNS names, as their types say",
			"node", node, "addresses", text)
	}
	return sent
}

func (a *addresses) isNews(node, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leftOut[node] == text {
		return false
	}
	if text == "" {
		delete(a.leftOut, node)
		return false
	}
	if a.leftOut == nil {
		a.leftOut = map[string]string{}
	}
	a.leftOut[node] = text
	return true
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

// isDNSName is more lenient than a name in Kubernetes: upper case, underscores and the dot of the root occur in clouds.
func isDNSName(text string) bool {
	if len(text) > 253 {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "."), ".") {
		isWrong := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}
		if part == "" || len(part) > 63 || part[0] == '-' || part[len(part)-1] == '-' || strings.IndexFunc(part, isWrong) >= 0 {
			return false
		}
	}
	return true
}
