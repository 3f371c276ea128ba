// This file has the steps before and between changes: plan, pause, resume, and the removal of records.

package migration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"outrigger.dev/bench/rig"
)

// prepare starts upstream's controller over Nodes and Services, and waits until all are served.
func (m *mover) prepare(ctx context.Context) error {
	var err error
	if m.active, err = m.start(rig.Upstream, nil); err != nil {
		return err
	}
	m.isElected = true
	for _, step := range []struct {
		count int
		name  func(int) string
		take  func(context.Context, string) error
	}{
		{m.report.Nodes, worker, m.join}, {m.report.Services, standing, m.create},
		{m.report.Nodes, worker, m.initialized}, {m.report.Services, standing, m.addressed},
	} {
		for number := range step.count {
			if err := step.take(ctx, step.name(number)); err != nil {
				return err
			}
		}
	}
	if err := m.powerOff(ctx, worker(0)); err != nil {
		return err
	}
	return m.quiet(ctx)
}

// prepared is a step that changes no controller.
func (m *mover) prepared(ctx context.Context, title string, act func() error) error {
	return m.observe(ctx, title, Expected{}, nil, func(*Step) error { return act() })
}

// plan prints the changes that Outrigger would make, beside the active controller: after a term of that one, an Ensure of each
// Service that is not paused.
func (m *mover) plan(ctx context.Context, title string) error {
	return m.prepared(ctx, title, func() error {
		replica, err := m.start(rig.Outrigger, []string{"--plan"})
		if err != nil {
			return err
		}
		if err := replica.Controller.Wait(ctx); err != nil {
			return err
		}
		if err := replica.Controller.Err(); err != nil {
			return fmt.Errorf("--plan: %w", err)
		}
		table, err := os.ReadFile(replica.Controller.Log)
		if err != nil {
			return err
		}
		services, err := m.services().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, service := range services.Items {
			action := "ensure"
			if service.Annotations[paused] != "" {
				action = "hold"
			}
			if service.Spec.Type == corev1.ServiceTypeLoadBalancer && !isPlanned(string(table), namespace+"/"+service.Name, action) {
				return fmt.Errorf("--plan does not %s %s: %s", action, service.Name, table)
			}
		}
		return replica.End(ctx, syscall.SIGTERM)
	})
}

// isPlanned reports whether the table of `--plan` has a Service with an action.
func isPlanned(table, service, action string) bool {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == service {
			return fields[1] == action
		}
	}
	return false
}

// pauseAllButOne pauses Services while upstream's controller works, which does not read that.
func (m *mover) pauseAllButOne(ctx context.Context, title string) error {
	return m.prepared(ctx, title, func() error {
		for number := range m.report.Services {
			if standing(number) != first {
				m.paused = append(m.paused, namespace+"/"+standing(number))
				if err := m.annotate(ctx, standing(number), paused, `"true"`); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// resume has all Services served but one, after a look at the first one.
func (m *mover) resume(ctx context.Context, title string) error {
	for number := range m.report.Services {
		service, err := m.services().Get(ctx, standing(number), metav1.GetOptions{})
		if err != nil {
			return err
		}
		// Without its two hashes at the end, the record says only whose the Service is.
		record := service.Annotations[settled]
		if isSettled := record != "" && !strings.HasSuffix(record, "/"); isSettled != (service.Name == first) {
			return fmt.Errorf("while all but %s are paused, %s has %s=%q", first, service.Name, settled, record)
		}
	}
	return m.prepared(ctx, title, func() error {
		m.paused = []string{namespace + "/" + last}
		for number := range m.report.Services {
			if name := standing(number); name != first && name != last {
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
	return m.prepared(ctx, title, func() error {
		services, err := m.services().List(ctx, metav1.ListOptions{})
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
		leases := m.Client.CoordinationV1().Leases(rig.LeaseNamespace)
		_, err = leases.Patch(ctx, rig.LeaseName, types.MergePatchType, annotation(targets, "null"), metav1.PatchOptions{})
		return err
	})
}
