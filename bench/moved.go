package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudprovider "k8s.io/cloud-provider"
	cloudapi "k8s.io/cloud-provider/api"

	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/migration"
)

const (
	namespace = metav1.NamespaceDefault
	// tried is the Service that is served before all others; held stays paused for good.
	tried, held = "standing-0", "standing-1"
	// edited has an annotation for the cloud, and tier is its value as JSON.
	edited, tier = "standing-2", `"gold"`
	paused       = "outrigger.dev/paused"
	settled      = "outrigger.dev/settled"
	targets      = "outrigger.dev/load-balancer-targets"
)

func worker(number int) string   { return fmt.Sprintf("worker-%d", number) }
func standing(number int) string { return fmt.Sprintf("standing-%d", number) }

// prepare starts upstream's controller over Nodes and Services, and waits until all are served.
func (m *mover) prepare(ctx context.Context) error {
	var err error
	if m.works, err = m.start(upstream, nil); err != nil {
		return err
	}
	m.elects = true
	for number := range m.report.Nodes {
		if err := m.join(ctx, worker(number)); err != nil {
			return err
		}
	}
	for number := range m.report.Services {
		if err := m.make(ctx, standing(number)); err != nil {
			return err
		}
	}
	for number := range m.report.Nodes {
		if err := m.initialised(ctx, worker(number)); err != nil {
			return err
		}
	}
	for number := range m.report.Services {
		if err := m.addressed(ctx, standing(number)); err != nil {
			return err
		}
	}
	if err := m.powerOff(ctx, worker(0)); err != nil {
		return err
	}
	return m.calm(ctx, 0)
}

// plan prints the changes that Outrigger would make, beside the controller that works: after a term of that one, an
// Ensure of each Service that is not paused.
func (m *mover) plan(ctx context.Context, title string) error {
	return m.observe(ctx, title, migration.Wanted{}, nil, func(*migration.Step) error {
		provider, err := m.start(outrigger, []string{"--plan"})
		if err != nil {
			return err
		}
		select {
		case <-provider.controller.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := provider.controller.failure; err != nil {
			return fmt.Errorf("--plan: %w: %s", err, tail(provider.controller.log))
		}
		printed, err := os.ReadFile(provider.controller.log)
		if err != nil {
			return err
		}
		services, err := m.rig.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, service := range services.Items {
			action := "ensure"
			if service.Annotations[paused] != "" {
				action = "hold"
			}
			if service.Spec.Type == corev1.ServiceTypeLoadBalancer && !planned(string(printed), namespace+"/"+service.Name, action) {
				return fmt.Errorf("--plan does not %s %s: %s", action, service.Name, printed)
			}
		}
		return provider.end(ctx, syscall.SIGTERM)
	})
}

// planned says whether the table of `--plan` has a Service with an action.
func planned(table, service, action string) bool {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == service {
			return fields[1] == action
		}
	}
	return false
}

// pauseAllButOne is done while upstream's controller works, which knows nothing of it.
func (m *mover) pauseAllButOne(ctx context.Context, title string) error {
	return m.observe(ctx, title, migration.Wanted{}, nil, func(*migration.Step) error {
		for number := range m.report.Services {
			if standing(number) != tried {
				m.paused = append(m.paused, namespace+"/"+standing(number))
				if err := m.annotate(ctx, standing(number), paused, `"true"`); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// resume has all Services served but one, after a look at the one that was tried.
func (m *mover) resume(ctx context.Context, title string) error {
	for number := range m.report.Services {
		service, err := m.rig.client.CoreV1().Services(namespace).Get(ctx, standing(number), metav1.GetOptions{})
		if err != nil {
			return err
		}
		// Without its two hashes at the end, the record says only whose the Service is.
		record := service.Annotations[settled]
		if isSettled := record != "" && !strings.HasSuffix(record, "/"); isSettled != (service.Name == tried) {
			return fmt.Errorf("while all but %s are paused, %s has %s=%q", tried, service.Name, settled, record)
		}
	}
	return m.observe(ctx, title, migration.Wanted{}, nil, func(*migration.Step) error {
		m.paused = []string{namespace + "/" + held}
		for number := range m.report.Services {
			if name := standing(number); name != tried && name != held {
				if err := m.annotate(ctx, name, paused, "null"); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// forget removes Outrigger's records of what load balancers were made from, while upstream's controller works. Only the
// Lease tells Outrigger that another program has worked, and that one may have none.
func (m *mover) forget(ctx context.Context, title string) error {
	return m.observe(ctx, title, migration.Wanted{}, nil, func(*migration.Step) error {
		services, err := m.rig.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, service := range services.Items {
			if _, has := service.Annotations[settled]; has {
				if err := m.annotate(ctx, service.Name, settled, "null"); err != nil {
					return err
				}
			}
		}
		leases := m.rig.client.CoordinationV1().Leases(leaseNamespace)
		_, err = leases.Patch(ctx, leaseName, types.MergePatchType, annotation(targets, "null"), metav1.PatchOptions{})
		return err
	})
}

// edit changes a Service, and waits until the cloud has it so.
func (m *mover) edit(ctx context.Context) error {
	before, err := m.store.Read()
	if err != nil {
		return err
	}
	if err := m.annotate(ctx, edited, cloud.Annotation, `"silver"`); err != nil {
		return err
	}
	return m.until(ctx, "the edit in the cloud", func() (bool, error) {
		now, err := m.store.Read()
		return err == nil && len(now.Changes) > len(before.Changes), err
	})
}

func (m *mover) annotate(ctx context.Context, service, key, value string) error {
	services := m.rig.client.CoreV1().Services(namespace)
	_, err := services.Patch(ctx, service, types.MergePatchType, annotation(key, value), metav1.PatchOptions{})
	return err
}

// annotation is the patch that sets one to a value of JSON.
func annotation(key, value string) []byte {
	return fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %s}}}`, key, value)
}

// join makes a machine, and its node as a kubelet registers it.
func (m *mover) join(ctx context.Context, name string) error {
	if err := m.store.Update(func(state *cloud.State) error { state.Machines[name] = false; return nil }); err != nil {
		return err
	}
	return m.rig.registerOne(ctx, name)
}

// powerOff has the machine stopped, and waits for the taint that says so.
func (m *mover) powerOff(ctx context.Context, name string) error {
	if err := m.store.Update(func(state *cloud.State) error { state.Machines[name] = true; return nil }); err != nil {
		return err
	}
	if err := m.silence(ctx, name); err != nil {
		return err
	}
	return m.until(ctx, name+" to be tainted as powered off", func() (bool, error) {
		node, err := m.rig.nodes.Get(name)
		return err == nil && slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == cloudapi.TaintNodeShutdown
		}), err
	})
}

// silence has the node as it is once its kubelet has said nothing for a while.
func (m *mover) silence(ctx context.Context, name string) error {
	patch := `{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}`
	_, err := m.rig.client.CoreV1().Nodes().PatchStatus(ctx, name, []byte(patch))
	return err
}

// lose has the machine of a node go for good.
func (m *mover) lose(ctx context.Context, name string) error {
	if err := m.store.Update(func(state *cloud.State) error { delete(state.Machines, name); return nil }); err != nil {
		return err
	}
	return m.silence(ctx, name)
}

// make creates a Service; some of those that stand differ from the others.
func (m *mover) make(ctx context.Context, name string) error {
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
	_, err := m.rig.client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	return err
}

// beginDeletion deletes a Service whose load balancer the cloud keeps until release is called.
func (m *mover) beginDeletion(ctx context.Context, name string) (release func() error, err error) {
	if err := m.make(ctx, name); err != nil {
		return nil, err
	}
	if err := m.addressed(ctx, name); err != nil {
		return nil, err
	}
	services := m.rig.client.CoreV1().Services(namespace)
	service, err := services.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	balancer := cloudprovider.DefaultLoadBalancerName(service)
	if err := m.store.Update(func(state *cloud.State) error { state.Kept = []string{balancer}; return nil }); err != nil {
		return nil, err
	}
	began, err := m.works.calls()
	if err != nil {
		return nil, err
	}
	if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	err = m.until(ctx, "the first attempt to delete the load balancer of "+name, func() (bool, error) {
		now, err := m.works.calls()
		return now["EnsureLoadBalancerDeleted"] > began["EnsureLoadBalancerDeleted"], err
	})
	release = func() error {
		return m.store.Update(func(state *cloud.State) error { state.Kept = nil; return nil })
	}
	return release, err
}

func (m *mover) addressed(ctx context.Context, name string) error {
	return m.until(ctx, "the address of "+name, func() (bool, error) {
		service, err := m.rig.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(service.Status.LoadBalancer.Ingress) > 0, err
	})
}

func (m *mover) initialised(ctx context.Context, name string) error {
	return m.until(ctx, name+" without its taint", func() (bool, error) {
		node, err := m.rig.nodes.Get(name)
		if apierrors.IsNotFound(err) {
			return false, nil // the informer is behind
		}
		return err == nil && !isTainted(node) && strings.HasPrefix(node.Spec.ProviderID, cloud.Name+"://"), err
	})
}

func (m *mover) gone(ctx context.Context, name string) error {
	return m.until(ctx, "the end of "+name, func() (bool, error) {
		_, err := m.rig.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// deleted waits until a node whose machine is gone is deleted.
func (m *mover) deleted(ctx context.Context, name string) error {
	return m.until(ctx, "the deletion of "+name, func() (bool, error) {
		_, err := m.rig.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// until waits while the controller works; an error of the condition ends it.
func (m *mover) until(ctx context.Context, what string, condition func() (bool, error)) error {
	limit, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var broken error
	err := until(limit, what, m.works.processes(), func() bool {
		done, err := condition()
		broken = err
		return done || err != nil
	})
	if err != nil {
		return err
	}
	return broken
}
