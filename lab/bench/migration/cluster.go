// This file changes the cluster and the cloud as their users do, and waits for the controllers.

package migration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clients "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudapi "k8s.io/cloud-provider/api"

	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/rig"
)

const (
	namespace = metav1.NamespaceDefault
	// first is the Service that is served before all others; last stays paused for good.
	first, last = "standing-0", "standing-1"
	// edited has an annotation for the cloud, and tier is its value as JSON.
	edited, tier = "standing-2", `"gold"`
	paused       = "outrigger.dev/paused"
	settled      = "outrigger.dev/last-applied"
	targets      = "outrigger.dev/load-balancer-targets"
)

func worker(number int) string   { return fmt.Sprintf("worker-%d", number) }
func standing(number int) string { return fmt.Sprintf("standing-%d", number) }

func (m *mover) services() clients.ServiceInterface { return m.Client.CoreV1().Services(namespace) }

// inCloud changes the state of the cloud.
func (m *mover) inCloud(change func(*cloud.State)) error {
	return m.Store.Update(func(state *cloud.State) error { change(state); return nil })
}

// edit changes a Service, and waits until the cloud has it so.
func (m *mover) edit(ctx context.Context) error {
	before, err := m.Store.Read()
	if err != nil {
		return err
	}
	if err := m.annotate(ctx, edited, cloud.Annotation, `"silver"`); err != nil {
		return err
	}
	return m.until(ctx, "the edit in the cloud", func() (bool, error) {
		now, err := m.Store.Read()
		return err == nil && len(now.Changes) > len(before.Changes), err
	})
}

func (m *mover) annotate(ctx context.Context, service, key, value string) error {
	_, err := m.services().Patch(ctx, service, types.MergePatchType, annotation(key, value), metav1.PatchOptions{})
	return err
}

// annotation is the patch that sets one to a value of JSON.
func annotation(key, value string) []byte {
	return fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %s}}}`, key, value)
}

// join makes a machine, and its node as a kubelet registers it.
func (m *mover) join(ctx context.Context, name string) error {
	if err := m.inCloud(func(state *cloud.State) { state.Machines[name] = false }); err != nil {
		return err
	}
	return m.RegisterOne(ctx, name)
}

// powerOff stops the machine, and waits for the taint that says so.
func (m *mover) powerOff(ctx context.Context, name string) error {
	if err := m.inCloud(func(state *cloud.State) { state.Machines[name] = true }); err != nil {
		return err
	}
	if err := m.silence(ctx, name); err != nil {
		return err
	}
	return m.until(ctx, name+" to be tainted as powered off", func() (bool, error) {
		node, err := m.Nodes.Get(name)
		return err == nil && slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == cloudapi.TaintNodeShutdown
		}), err
	})
}

// silence makes the node what it is once its kubelet has said nothing for a while.
func (m *mover) silence(ctx context.Context, name string) error {
	patch := `{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}`
	_, err := m.Client.CoreV1().Nodes().PatchStatus(ctx, name, []byte(patch))
	return err
}

// lose removes the machine of a node for good.
func (m *mover) lose(ctx context.Context, name string) error {
	if err := m.inCloud(func(state *cloud.State) { delete(state.Machines, name) }); err != nil {
		return err
	}
	return m.silence(ctx, name)
}

// create makes a Service; some of those that stand differ from the others.
func (m *mover) create(ctx context.Context, name string) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	switch name {
	case edited:
		service.Annotations = map[string]string{cloud.Annotation: strings.Trim(tier, `"`)}
	case standing(3):
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	_, err := m.services().Create(ctx, service, metav1.CreateOptions{})
	return err
}

// beginDeletion deletes a Service whose load balancer the cloud keeps until release is called.
func (m *mover) beginDeletion(ctx context.Context, name string) (release func() error, err error) {
	if err := m.create(ctx, name); err != nil {
		return nil, err
	}
	if err := m.addressed(ctx, name); err != nil {
		return nil, err
	}
	service, err := m.services().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	balancer := cloudprovider.DefaultLoadBalancerName(service)
	if err := m.inCloud(func(state *cloud.State) { state.Undeletable = []string{balancer} }); err != nil {
		return nil, err
	}
	before, err := m.active.Calls()
	if err != nil {
		return nil, err
	}
	if err := m.services().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	err = m.until(ctx, "the first attempt to delete the load balancer of "+name, func() (bool, error) {
		now, err := m.active.Calls()
		return now["EnsureLoadBalancerDeleted"] > before["EnsureLoadBalancerDeleted"], err
	})
	return func() error { return m.inCloud(func(state *cloud.State) { state.Undeletable = nil }) }, err
}

func (m *mover) addressed(ctx context.Context, name string) error {
	return m.until(ctx, "the address of "+name, func() (bool, error) {
		service, err := m.services().Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(service.Status.LoadBalancer.Ingress) > 0, err
	})
}

func (m *mover) initialized(ctx context.Context, name string) error {
	return m.until(ctx, name+" without its taint", func() (bool, error) {
		node, err := m.Nodes.Get(name)
		if apierrors.IsNotFound(err) {
			return false, nil // the informer is behind
		}
		return err == nil && !rig.IsTainted(node) && strings.HasPrefix(node.Spec.ProviderID, cloud.Name+"://"), err
	})
}

func (m *mover) serviceGone(ctx context.Context, name string) error {
	return m.gone(ctx, name, func() error {
		_, err := m.services().Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

func (m *mover) nodeGone(ctx context.Context, name string) error {
	return m.gone(ctx, name, func() error {
		_, err := m.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

func (m *mover) gone(ctx context.Context, name string, get func() error) error {
	return m.until(ctx, "the end of "+name, func() (bool, error) {
		err := get()
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// until waits while the active controller runs.
func (m *mover) until(ctx context.Context, goal string, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return rig.Until(ctx, goal, m.active.Processes(), condition)
}
