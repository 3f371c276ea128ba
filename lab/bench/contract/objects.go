// This file puts Kubernetes' objects into the contract's words, and back.

package contract

import (
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// nodeSent has the fields that name a Node's machine, and its addresses.
func nodeSent(node *corev1.Node) *v1.Node {
	return &v1.Node{
		Name: node.Name, Uid: string(node.UID), ProviderId: node.Spec.ProviderID, Labels: node.Labels,
		PodCidrs: node.Spec.PodCIDRs, Unschedulable: node.Spec.Unschedulable, SystemUuid: node.Status.NodeInfo.SystemUUID,
		Addresses: addressesSent(node.Status.Addresses),
	}
}

func targets(nodes []*corev1.Node) *v1.NodeTargets {
	inline := &v1.InlineNodes{}
	for _, node := range nodes {
		inline.Nodes = append(inline.Nodes, nodeSent(node))
	}
	return &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: inline}}
}

// serviceSent has all that a load balancer is made from.
func serviceSent(service *corev1.Service) *v1.Service {
	spec := service.Spec
	sent := &v1.Service{
		Namespace: service.Namespace, Name: service.Name, Uid: string(service.UID),
		Labels: service.Labels, Annotations: service.Annotations,
		Type: string(spec.Type), LoadBalancerClass: spec.LoadBalancerClass, LoadBalancerIp: spec.LoadBalancerIP,
		LoadBalancerSourceRanges: spec.LoadBalancerSourceRanges, ExternalTrafficPolicy: string(spec.ExternalTrafficPolicy),
		SessionAffinity: string(spec.SessionAffinity), ExternalIps: spec.ExternalIPs,
		HealthCheckNodePort: spec.HealthCheckNodePort, Status: &v1.LoadBalancerStatus{},
	}
	if config := spec.SessionAffinityConfig; config != nil && config.ClientIP != nil && config.ClientIP.TimeoutSeconds != nil {
		sent.SessionAffinityTimeout = &durationpb.Duration{Seconds: int64(*config.ClientIP.TimeoutSeconds)}
	}
	for _, family := range spec.IPFamilies {
		sent.IpFamilies = append(sent.IpFamilies, string(family))
	}
	if spec.IPFamilyPolicy != nil {
		sent.IpFamilyPolicy = string(*spec.IPFamilyPolicy)
	}
	for _, port := range spec.Ports {
		sent.Ports = append(sent.Ports, &v1.ServicePort{
			Name: port.Name, Protocol: string(port.Protocol), Port: port.Port, NodePort: port.NodePort,
			TargetPort: port.TargetPort.String(), AppProtocol: port.AppProtocol,
		})
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		sent.Status.Ingress = append(sent.Status.Ingress, &v1.LoadBalancerIngress{
			Ip: ingress.IP, Hostname: ingress.Hostname, IpMode: (*string)(ingress.IPMode),
		})
	}
	return sent
}

func status(sent *v1.LoadBalancerStatus) *corev1.LoadBalancerStatus {
	status := &corev1.LoadBalancerStatus{}
	for _, ingress := range sent.GetIngress() {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{
			IP: ingress.Ip, Hostname: ingress.Hostname, IPMode: (*corev1.LoadBalancerIPMode)(ingress.IpMode),
		})
	}
	return status
}

func routeSent(route *cloudprovider.Route) *v1.Route {
	return &v1.Route{
		Name: route.Name, DestinationCidr: route.DestinationCIDR, NodeName: string(route.TargetNode),
		NodeAddresses: addressesSent(route.TargetNodeAddresses),
	}
}

func addressesSent(addresses []corev1.NodeAddress) []*v1.NodeAddress {
	var sent []*v1.NodeAddress
	for _, address := range addresses {
		sent = append(sent, &v1.NodeAddress{Type: string(address.Type), Address: address.Address})
	}
	return sent
}

func addresses(sent []*v1.NodeAddress) []corev1.NodeAddress {
	var addresses []corev1.NodeAddress
	for _, address := range sent {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(address.Type), Address: address.Address})
	}
	return addresses
}
