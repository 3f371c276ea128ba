// This file translates Nodes and Services between the contract and Kubernetes.

package serve

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// handedVersion is the resourceVersion of an object that the controller has sent, which is a part of the real one. No
// object of an API server has it, so an update of it is a conflict there, and does not remove the other fields.
const handedVersion = "1"

// nodeOf is the Node as far as the controller sends it: README.md lists what is missing.
func nodeOf(sent *v1.Node) *corev1.Node {
	node := &corev1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: sent.Name, UID: types.UID(sent.Uid), ResourceVersion: handedVersion,
			Labels: sent.Labels, Annotations: sent.Annotations,
		},
		Spec: corev1.NodeSpec{
			ProviderID: sent.ProviderId, PodCIDRs: sent.PodCidrs, Unschedulable: sent.Unschedulable,
		},
		Status: corev1.NodeStatus{
			Addresses: addressesOf(sent.Addresses),
			NodeInfo:  corev1.NodeSystemInfo{SystemUUID: sent.SystemUuid},
		},
	}
	if len(sent.PodCidrs) > 0 {
		node.Spec.PodCIDR = sent.PodCidrs[0]
	}
	if sent.CreationTime != nil {
		node.CreationTimestamp = metav1.NewTime(sent.CreationTime.AsTime())
	}
	if sent.DeletionTime != nil {
		deleted := metav1.NewTime(sent.DeletionTime.AsTime())
		node.DeletionTimestamp = &deleted
	}
	for _, taint := range sent.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect),
		})
	}
	if sent.Ready != "" {
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionStatus(sent.Ready),
		}}
	}
	return node
}

func addressesOf(sent []*v1.NodeAddress) []corev1.NodeAddress {
	addresses := make([]corev1.NodeAddress, 0, len(sent))
	for _, address := range sent {
		addresses = append(addresses, corev1.NodeAddress{
			Type: corev1.NodeAddressType(address.Type), Address: address.Address,
		})
	}
	return addresses
}

// serviceOf is the Service as far as the controller sends it.
func serviceOf(sent *v1.Service) *corev1.Service {
	service := &corev1.Service{
		TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sent.Namespace, Name: sent.Name, UID: types.UID(sent.Uid), ResourceVersion: handedVersion,
			Labels: sent.Labels, Annotations: sent.Annotations,
		},
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceType(sent.Type),
			LoadBalancerClass:        sent.LoadBalancerClass,
			LoadBalancerIP:           sent.LoadBalancerIp,
			LoadBalancerSourceRanges: sent.LoadBalancerSourceRanges,
			ExternalTrafficPolicy:    corev1.ServiceExternalTrafficPolicy(sent.ExternalTrafficPolicy),
			SessionAffinity:          corev1.ServiceAffinity(sent.SessionAffinity),
			ExternalIPs:              sent.ExternalIps,
			HealthCheckNodePort:      sent.HealthCheckNodePort,
		},
		Status: corev1.ServiceStatus{LoadBalancer: *statusOf(sent.Status)},
	}
	if sent.DeletionTime != nil {
		deleted := metav1.NewTime(sent.DeletionTime.AsTime())
		service.DeletionTimestamp = &deleted
	}
	if sent.SessionAffinityTimeout != nil {
		seconds := int32(sent.SessionAffinityTimeout.AsDuration().Seconds())
		service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds},
		}
	}
	for _, family := range sent.IpFamilies {
		service.Spec.IPFamilies = append(service.Spec.IPFamilies, corev1.IPFamily(family))
	}
	if sent.IpFamilyPolicy != "" {
		policy := corev1.IPFamilyPolicy(sent.IpFamilyPolicy)
		service.Spec.IPFamilyPolicy = &policy
	}
	for _, port := range sent.Ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: port.Name, Protocol: corev1.Protocol(port.Protocol), AppProtocol: port.AppProtocol,
			Port: port.Port, NodePort: port.NodePort, TargetPort: intstr.Parse(port.TargetPort),
		})
	}
	return service
}

func statusOf(sent *v1.LoadBalancerStatus) *corev1.LoadBalancerStatus {
	status := &corev1.LoadBalancerStatus{}
	for _, ingress := range sent.GetIngress() {
		entry := corev1.LoadBalancerIngress{IP: ingress.Ip, Hostname: ingress.Hostname}
		if ingress.IpMode != nil {
			mode := corev1.LoadBalancerIPMode(*ingress.IpMode)
			entry.IPMode = &mode
		}
		for _, port := range ingress.Ports {
			entry.Ports = append(entry.Ports, corev1.PortStatus{
				Port: port.Port, Protocol: corev1.Protocol(port.Protocol), Error: port.Error,
			})
		}
		status.Ingress = append(status.Ingress, entry)
	}
	return status
}

func ingressSent(status *corev1.LoadBalancerStatus) []*v1.LoadBalancerIngress {
	var sent []*v1.LoadBalancerIngress
	for _, ingress := range status.Ingress {
		// Clouds name it in capitals, or with the dot of the root, which Kubernetes refuses.
		hostname := strings.ToLower(strings.TrimSuffix(ingress.Hostname, "."))
		entry := &v1.LoadBalancerIngress{Ip: ingress.IP, Hostname: hostname}
		if ingress.IPMode != nil && ingress.IP != "" {
			mode := string(*ingress.IPMode)
			entry.IpMode = &mode
		}
		for _, port := range ingress.Ports {
			entry.Ports = append(entry.Ports, &v1.PortStatus{
				Port: port.Port, Protocol: string(port.Protocol), Error: port.Error,
			})
		}
		sent = append(sent, entry)
	}
	return sent
}

// keptTargets is how many revisions are kept: calls under way still name the one before the latest.
const keptTargets = 2

// nodeCache builds the Nodes of a revision once, for all calls that name it. As with an informer's
// objects, nothing may change them; each call gets a slice of its own, which clouds filter and sort in place.
type nodeCache struct {
	// ofOneCall is called with each Node of targets that no revision names.
	ofOneCall func(*corev1.Node)

	mu   sync.Mutex
	kept []builtNodes
}

type builtNodes struct {
	targets *provider.Targets
	nodes   []*corev1.Node
	byPath  map[string]*corev1.Node
}

func (c *nodeCache) nodesOf(targets *provider.Targets) []*corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, built := range c.kept {
		if built.targets == targets {
			return slices.Clone(built.nodes)
		}
	}
	built := builtNodes{targets, make([]*corev1.Node, 0, len(targets.Nodes())), map[string]*corev1.Node{}}
	for _, sent := range targets.Nodes() {
		node := nodeOf(sent)
		built.nodes = append(built.nodes, node)
		built.byPath[nodePath(node.Name)] = node
		if targets.Revision() == "" {
			c.ofOneCall(node)
		}
	}
	if targets.Revision() == "" {
		return built.nodes
	}
	if len(c.kept) == keptTargets {
		c.kept = c.kept[1:]
	}
	c.kept = append(c.kept, built)
	return slices.Clone(built.nodes)
}

// get is the Node with a path in the API, of the latest set that has it; nil: none has.
func (c *nodeCache) get(path string) *corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, built := range slices.Backward(c.kept) {
		if node := built.byPath[path]; node != nil {
			return node
		}
	}
	return nil
}
