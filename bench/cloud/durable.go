// This file has the fake with a state that outlives its processes.

package cloud

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// durable is the cloud with a state that outlives its processes: it knows which machines there are, and which load
// balancers, and tells a call that changes one from a call that finds it as wanted.
type durable struct {
	*cloud
	store Store
}

func (d *durable) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return d, true }
func (d *durable) InstancesV2() (cloudprovider.InstancesV2, bool)   { return d, true }

func (d *durable) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if err := d.call(ctx, "InstanceExists"); err != nil {
		return false, err
	}
	state, err := d.store.Read()
	if err != nil {
		return false, err
	}
	_, exists := state.Machines[node.Name]
	return exists, nil
}

func (d *durable) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	if err := d.call(ctx, "InstanceShutdown"); err != nil {
		return false, err
	}
	state, err := d.store.Read()
	if err != nil {
		return false, err
	}
	return state.Machines[node.Name], nil
}

func (d *durable) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	state, err := d.store.Read()
	if err != nil {
		return nil, err
	}
	if _, exists := state.Machines[node.Name]; !exists {
		return nil, cloudprovider.InstanceNotFound
	}
	return d.cloud.InstanceMetadata(ctx, node)
}

func (d *durable) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if err := d.call(ctx, "GetLoadBalancer"); err != nil {
		return nil, false, err
	}
	state, err := d.store.Read()
	if err != nil {
		return nil, false, err
	}
	balancer, exists := state.Balancers[d.GetLoadBalancerName(ctx, cluster, service)]
	return balancer.status(), exists, nil
}

func (d *durable) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func (d *durable) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	if err := d.call(ctx, "EnsureLoadBalancer"); err != nil {
		return nil, err
	}
	spec, err := specOf(service)
	if err != nil {
		return nil, err
	}
	desired := Balancer{Service: service.Namespace + "/" + service.Name, Nodes: namesOf(nodes), Spec: spec}
	var ensured Balancer
	err = d.store.Update(func(state *State) error {
		ensured = state.ensure(d.GetLoadBalancerName(ctx, cluster, service), desired)
		return nil
	})
	return ensured.status(), err
}

func (d *durable) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	if err := d.call(ctx, "UpdateLoadBalancer"); err != nil {
		return err
	}
	name := d.GetLoadBalancerName(ctx, cluster, service)
	return d.store.Update(func(state *State) error {
		if _, exists := state.Balancers[name]; !exists {
			return fmt.Errorf("there is no load balancer %s", name)
		}
		state.retarget(name, namesOf(nodes))
		return nil
	})
}

func (d *durable) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	if err := d.call(ctx, "EnsureLoadBalancerDeleted"); err != nil {
		return err
	}
	return d.store.Update(func(state *State) error {
		return state.delete(d.GetLoadBalancerName(ctx, cluster, service))
	})
}

func (b Balancer) status() *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: b.Address}}}
}

// Annotation is the one that the durable cloud reads.
const Annotation = "fake.example.com/tier"

// specOf is what a load balancer is made from, nodes apart.
func specOf(service *corev1.Service) (string, error) {
	text, err := json.Marshal(map[string]any{
		"ports": service.Spec.Ports, "sources": service.Spec.LoadBalancerSourceRanges,
		"policy": service.Spec.ExternalTrafficPolicy, "affinity": service.Spec.SessionAffinity,
		"healthCheck": service.Spec.HealthCheckNodePort, "tier": service.Annotations[Annotation],
	})
	return string(text), err
}

func namesOf(nodes []*corev1.Node) []string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}
