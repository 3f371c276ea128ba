package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/bench/audit"
	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/migration"
)

// side is one of the two controllers.
type side string

const (
	upstream  side = upstreamAgent
	outrigger side = outriggerAgent
)

// mover changes controllers on one cluster, and notes each step.
type mover struct {
	rig    *rig
	store  cloud.Store
	report *migration.Report
	// works is the controller that is meant to work now; all has every one that was started.
	works  *replica
	elects bool // whether works has leader election
	all    []*replica
	moves  int
	// joined and lost are the Nodes that came and went.
	joined, lost []string
	// paused are the Services that only upstream's controller works on.
	paused []string
}

func (m *mover) stop() {
	for _, one := range m.all {
		one.signal(syscall.SIGKILL)
	}
}

// start starts a controller. A socket's path has 107 bytes at most.
func (m *mover) start(next side, flags []string) (*replica, error) {
	dir := filepath.Join(m.rig.dir, fmt.Sprintf("%d-%s", len(m.all), next))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	begin := behindAdapter(flags...)
	if next == upstream {
		begin = inProcess(flags...)
	}
	started, err := begin(m.rig, dir)
	if err == nil {
		m.all = append(m.all, started)
	}
	return started, err
}

// moment is all that a step is judged by, before it or after it.
type moment struct {
	objects migration.Objects
	// audited is a place in the audit log.
	audited int
	// calls are those to the cloud about load balancers, of all controllers so far.
	calls int
	cloud *cloud.State
}

func (m *mover) now(ctx context.Context) (moment, error) {
	var now moment
	nodes, err := m.rig.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return now, err
	}
	services, err := m.rig.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return now, err
	}
	if now.objects, err = migration.Snapshot(nodes.Items, services.Items); err != nil {
		return now, err
	}
	if now.audited, err = m.rig.audit.Mark(); err != nil {
		return now, err
	}
	if now.calls, err = m.calls(); err != nil {
		return now, err
	}
	now.cloud, err = m.store.Read()
	return now, err
}

// observe notes what happens during a step, until neither controller has written for a while. The objects that are
// leaving, by kind and name, may differ in anything.
func (m *mover) observe(ctx context.Context, title string, wanted migration.Wanted, leaving []string, act func(*migration.Step) error) error {
	before, err := m.now(ctx)
	if err != nil {
		return err
	}
	for _, name := range leaving {
		delete(before.objects, name)
	}
	wanted.Joined, wanted.Left = m.joined, m.lost
	step := migration.Step{Title: title}
	if err := act(&step); err != nil {
		return err
	}
	if err := m.calm(ctx, before.audited); err != nil {
		return err
	}
	after, err := m.now(ctx)
	if err != nil {
		return err
	}
	for agent, writes := range map[side]*migration.Writes{upstream: &step.Upstream, outrigger: &step.Outrigger} {
		requests, err := m.rig.audit.Since(before.audited, string(agent))
		if err != nil {
			return err
		}
		*writes = migration.Count(requests, before.objects)
	}
	step.Calls = after.calls - before.calls
	step.Touched, step.Wrong = wanted.Judge(after.cloud.Changes[len(before.cloud.Changes):])
	step.Wrong = append(step.Wrong, before.objects.Differences(after.objects)...)
	step.Wrong = append(step.Wrong, m.behind(after.cloud)...)
	m.report.Steps = append(m.report.Steps, step)
	return nil
}

// behind are the load balancers without a node that came, and with one that went.
func (m *mover) behind(state *cloud.State) []string {
	var wrong []string
	for _, one := range state.Balancers {
		if slices.Contains(m.paused, one.Service) {
			continue
		}
		for _, node := range m.joined {
			if !slices.Contains(one.Nodes, node) {
				wrong = append(wrong, fmt.Sprintf("the load balancer of %s does not have %s", one.Service, node))
			}
		}
		for _, node := range m.lost {
			if slices.Contains(one.Nodes, node) {
				wrong = append(wrong, fmt.Sprintf("the load balancer of %s still has %s", one.Service, node))
			}
		}
	}
	return wrong
}

// calls counts those about load balancers that may change something, of all controllers so far.
func (m *mover) calls() (int, error) {
	sum := 0
	for _, one := range m.all {
		counts, err := one.calls()
		if err != nil {
			return 0, err
		}
		for operation, count := range counts {
			if changesCloud(operation) {
				sum += count
			}
		}
	}
	return sum, nil
}

// calm waits until neither controller has written for a while and the cloud has not been called for a change.
func (m *mover) calm(ctx context.Context, mark int) error {
	last, calls := time.Now(), -1
	var broken error
	settled := func() bool {
		var requests []audit.Request
		for _, agent := range []side{upstream, outrigger} {
			found, err := m.rig.audit.Since(mark, string(agent))
			requests, broken = append(requests, found...), errors.Join(broken, err)
		}
		made, err := m.calls()
		broken = errors.Join(broken, err)
		if made != calls {
			last, calls = time.Now(), made
		}
		for _, one := range requests {
			if one.Changes() && one.At.After(last) {
				last = one.At
			}
		}
		return broken != nil || time.Since(last) > quiet
	}
	if err := until(ctx, "the end of all writes", m.works.processes(), settled); err != nil {
		return err
	}
	return broken
}

// change is one from the controller that works to the next one.
type change struct {
	next  side
	flags []string
	// isQuiet: nothing else happens meanwhile.
	isQuiet bool
	// takesBack: an edit that the old controller has carried out is taken back while none leads.
	takesBack bool
	// loses is a Node whose machine goes while none leads; empty: none does.
	loses string
}

// move changes controllers. Right after the old one's end a Node and a Service come; a deletion has begun before and
// ends after.
func (m *mover) move(ctx context.Context, title string, asked change) error {
	if asked.isQuiet {
		return m.observe(ctx, title, migration.Wanted{}, nil, func(step *migration.Step) error {
			signalled, err := m.handOver(ctx, asked, func() error { return nil })
			leaderless := time.Since(signalled).Seconds()
			step.Leaderless = &leaderless
			return err
		})
	}
	m.moves++
	node, made, leaving := fmt.Sprintf("joined-%d", m.moves), fmt.Sprintf("made-%d", m.moves), fmt.Sprintf("leaving-%d", m.moves)
	release, err := m.beginDeletion(ctx, leaving)
	if err != nil {
		return err
	}
	m.joined = append(m.joined, node)
	gone := []string{"Service " + leaving}
	if asked.loses != "" {
		m.lost = append(m.lost, asked.loses)
		gone = append(gone, "Node "+asked.loses)
	}
	wanted := migration.Wanted{Created: []string{namespace + "/" + made}, Deleted: []string{namespace + "/" + leaving}}
	if asked.takesBack {
		wanted.TakenBack = []string{namespace + "/" + edited}
	}
	return m.observe(ctx, title, wanted, gone, func(step *migration.Step) error {
		if asked.takesBack {
			if err := m.edit(ctx); err != nil {
				return err
			}
		}
		signalled, err := m.handOver(ctx, asked, func() error {
			if asked.takesBack {
				if err := m.annotate(ctx, edited, cloud.Annotation, tier); err != nil {
					return err
				}
			}
			if asked.loses != "" {
				if err := m.lose(ctx, asked.loses); err != nil {
					return err
				}
			}
			if err := m.join(ctx, node); err != nil {
				return err
			}
			return m.make(ctx, made)
		})
		if err != nil {
			return err
		}
		leaderless := time.Since(signalled).Seconds()
		if err := m.addressed(ctx, made); err != nil {
			return err
		}
		if err := m.initialised(ctx, node); err != nil {
			return err
		}
		served := time.Since(signalled).Seconds()
		step.Leaderless, step.Served = &leaderless, &served
		if err := release(); err != nil {
			return err
		}
		if err := m.gone(ctx, leaving); err != nil || asked.loses == "" {
			return err
		}
		return m.deleted(ctx, asked.loses)
	})
}

// handOver ends the controller that works and returns, with the time of the signal, once the next one leads. Between
// them is the time for what comes while none does.
func (m *mover) handOver(ctx context.Context, asked change, between func() error) (signalled time.Time, err error) {
	elects := !slices.Contains(asked.flags, unelected)
	old, began := m.works, time.Now()
	mark, err := m.rig.audit.Mark()
	if err != nil {
		return began, err
	}
	var fresh *replica
	start := func() (err error) {
		if fresh, err = m.start(asked.next, asked.flags); err == nil {
			err = fresh.healthy(ctx)
		}
		return err
	}
	// Only the Lease keeps two apart: one without it starts when the other is gone.
	beside := elects && m.elects
	if beside {
		if err := start(); err != nil {
			return began, err
		}
		if err := m.looked(ctx, asked.next, fresh, mark); err != nil {
			return began, err
		}
	}
	signalled = time.Now()
	if err := old.end(ctx, syscall.SIGTERM); err != nil {
		return signalled, err
	}
	if err := between(); err != nil {
		return signalled, err
	}
	if !beside {
		if err := start(); err != nil {
			return signalled, err
		}
	}
	m.works, m.elects = fresh, elects
	if !elects {
		return signalled, nil
	}
	return signalled, m.rig.leads(ctx, fresh, began.Truncate(time.Microsecond))
}

// looked waits until a standby has seen that the other one has the Lease: else its first look could come after the
// end of the other, which would show no wait at all.
func (m *mover) looked(ctx context.Context, next side, standby *replica, mark int) error {
	var broken error
	looked := func() bool {
		requests, err := m.rig.audit.Since(mark, string(next))
		broken = err
		return err != nil || slices.ContainsFunc(requests, func(one audit.Request) bool { return one.Resource == "leases" })
	}
	if err := until(ctx, "a look of the standby at the Lease", standby.processes(), looked); err != nil {
		return err
	}
	return broken
}
