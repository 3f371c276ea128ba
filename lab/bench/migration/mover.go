// This file observes a step: what stood before it and after it, and what was written between.

package migration

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/rig"
)

// mover changes controllers on one cluster, and notes each step.
type mover struct {
	*rig.Rig
	report *Report
	// active is the controller that is meant to work now; all has every one that was started.
	active *rig.Replica
	// isElected: the active one has leader election.
	isElected bool
	all       []*rig.Replica
	moves     int
	// joined and lost are the Nodes that came and went.
	joined, lost []string
	// paused are the Services that only upstream's controller works on.
	paused []string
}

func (m *mover) stop() {
	for _, replica := range m.all {
		replica.Signal(syscall.SIGKILL)
	}
}

// start starts one of the two controllers.
func (m *mover) start(agent string, flags []string) (*rig.Replica, error) {
	starter := rig.BehindAdapter(nil, flags)
	if agent == rig.Upstream {
		starter = rig.InProcess(flags...)
	}
	replica, err := m.Start(agent, starter)
	if err == nil {
		m.all = append(m.all, replica)
	}
	return replica, err
}

// moment is all that a step is judged by, before it or after it.
type moment struct {
	objects Objects
	// mark is a place in the audit log.
	mark int
	// calls are those to the cloud about load balancers, of all controllers so far.
	calls int
	cloud *cloud.State
}

func (m *mover) now(ctx context.Context) (moment, error) {
	var now moment
	nodes, err := m.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return now, err
	}
	services, err := m.services().List(ctx, metav1.ListOptions{})
	if err != nil {
		return now, err
	}
	if now.objects, err = Snapshot(nodes.Items, services.Items); err != nil {
		return now, err
	}
	if now.mark, err = m.Audit.Mark(); err != nil {
		return now, err
	}
	if now.calls, err = m.calls(); err != nil {
		return now, err
	}
	now.cloud, err = m.Store.Read()
	return now, err
}

// observe notes what happens during a step, until neither controller has written for a while. The objects that are
// leaving, by kind and name, may differ in anything.
func (m *mover) observe(ctx context.Context, title string, expected Expected, leaving []string, act func(*Step) error) error {
	before, err := m.now(ctx)
	if err != nil {
		return err
	}
	for _, name := range leaving {
		delete(before.objects, name)
	}
	expected.Joined, expected.Left = m.joined, m.lost
	step := Step{Title: title}
	if err := act(&step); err != nil {
		return err
	}
	if err := m.quiet(ctx); err != nil {
		return err
	}
	after, err := m.now(ctx)
	if err != nil {
		return err
	}
	for agent, writes := range map[string]*Writes{rig.Upstream: &step.Upstream, rig.Outrigger: &step.Outrigger} {
		requests, err := m.Audit.Since(before.mark, agent)
		if err != nil {
			return err
		}
		*writes = Count(requests, before.objects)
	}
	step.Calls = after.calls - before.calls
	step.Touched, step.Wrong = expected.Judge(after.cloud.Changes[len(before.cloud.Changes):])
	step.Wrong = append(step.Wrong, before.objects.Differences(after.objects)...)
	step.Wrong = append(step.Wrong, m.staleTargets(after.cloud)...)
	m.report.Steps = append(m.report.Steps, step)
	return nil
}

// staleTargets are the load balancers without a node that came, and with one that went.
func (m *mover) staleTargets(state *cloud.State) []string {
	var wrong []string
	for _, balancer := range state.Balancers {
		if slices.Contains(m.paused, balancer.Service) {
			continue
		}
		for _, node := range m.joined {
			if !slices.Contains(balancer.Nodes, node) {
				wrong = append(wrong, fmt.Sprintf("the load balancer of %s does not have %s", balancer.Service, node))
			}
		}
		for _, node := range m.lost {
			if slices.Contains(balancer.Nodes, node) {
				wrong = append(wrong, fmt.Sprintf("the load balancer of %s still has %s", balancer.Service, node))
			}
		}
	}
	return wrong
}

// calls counts those about load balancers that may change something, of all controllers so far.
func (m *mover) calls() (int, error) {
	sum := 0
	for _, replica := range m.all {
		changes, err := replica.Changes()
		if err != nil {
			return 0, err
		}
		sum += changes
	}
	return sum, nil
}

// quiet waits until neither controller has written for a while and the cloud has not been called for a change.
func (m *mover) quiet(ctx context.Context) error {
	_, err := m.Quiet(ctx, m.active.Processes(), m.calls, rig.Upstream, rig.Outrigger)
	return err
}
