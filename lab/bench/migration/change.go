// This file changes from one controller to the next one.

package migration

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"outrigger.dev/bench/audit"
	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/rig"
)

// change is one from the active controller to the next one.
type change struct {
	next  string
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
func (m *mover) move(ctx context.Context, title string, c change) error {
	if c.isQuiet {
		return m.observe(ctx, title, Expected{}, nil, func(step *Step) error {
			signalled, err := m.handOver(ctx, c, func() error { return nil })
			step.Leaderless = secondsSince(signalled)
			return err
		})
	}
	m.moves++
	node, service, leaving := fmt.Sprintf("joined-%d", m.moves), fmt.Sprintf("made-%d", m.moves), fmt.Sprintf("leaving-%d", m.moves)
	release, err := m.beginDeletion(ctx, leaving)
	if err != nil {
		return err
	}
	m.joined = append(m.joined, node)
	objects := []string{"Service " + leaving}
	if c.loses != "" {
		m.lost = append(m.lost, c.loses)
		objects = append(objects, "Node "+c.loses)
	}
	expected := Expected{Created: []string{namespace + "/" + service}, Deleted: []string{namespace + "/" + leaving}}
	if c.takesBack {
		expected.TakenBack = []string{namespace + "/" + edited}
	}
	return m.observe(ctx, title, expected, objects, func(step *Step) error {
		if c.takesBack {
			if err := m.edit(ctx); err != nil {
				return err
			}
		}
		signalled, err := m.handOver(ctx, c, func() error {
			if c.takesBack {
				if err := m.annotate(ctx, edited, cloud.Annotation, tier); err != nil {
					return err
				}
			}
			if c.loses != "" {
				if err := m.lose(ctx, c.loses); err != nil {
					return err
				}
			}
			if err := m.join(ctx, node); err != nil {
				return err
			}
			return m.create(ctx, service)
		})
		if err != nil {
			return err
		}
		step.Leaderless = secondsSince(signalled)
		if err := m.addressed(ctx, service); err != nil {
			return err
		}
		if err := m.initialized(ctx, node); err != nil {
			return err
		}
		step.Served = secondsSince(signalled)
		if err := release(); err != nil {
			return err
		}
		if err := m.serviceGone(ctx, leaving); err != nil || c.loses == "" {
			return err
		}
		return m.nodeGone(ctx, c.loses)
	})
}

func secondsSince(moment time.Time) *float64 { return new(time.Since(moment).Seconds()) }

// handOver ends the active controller and returns, with the time of the signal, once the next one leads. While none leads, it
// calls between.
func (m *mover) handOver(ctx context.Context, c change, between func() error) (signalled time.Time, err error) {
	isElected := !slices.Contains(c.flags, unelected)
	old, began := m.active, time.Now()
	mark, err := m.Audit.Mark()
	if err != nil {
		return began, err
	}
	var next *rig.Replica
	start := func() (err error) {
		if next, err = m.start(c.next, c.flags); err == nil {
			err = next.Healthy(ctx)
		}
		return err
	}
	// Only the Lease keeps two apart: one without it starts when the other is gone.
	isStandby := isElected && m.isElected
	if isStandby {
		if err := start(); err != nil {
			return began, err
		}
		if err := m.readsLease(ctx, c.next, next, mark); err != nil {
			return began, err
		}
	}
	signalled = time.Now()
	if err := old.End(ctx, syscall.SIGTERM); err != nil {
		return signalled, err
	}
	if err := between(); err != nil {
		return signalled, err
	}
	if !isStandby {
		if err := start(); err != nil {
			return signalled, err
		}
	}
	m.active, m.isElected = next, isElected
	if !isElected {
		return signalled, nil
	}
	return signalled, m.Leads(ctx, next, began.Truncate(time.Microsecond))
}

// readsLease waits until a standby has read that the other one has the Lease: its first look could otherwise come after the
// end of the other, which would show no wait at all.
func (m *mover) readsLease(ctx context.Context, agent string, standby *rig.Replica, mark int) error {
	return rig.Until(ctx, "a look of the standby at the Lease", standby.Processes(), func() (bool, error) {
		requests, err := m.Audit.Since(mark, agent)
		return slices.ContainsFunc(requests, func(request audit.Request) bool { return request.Resource == "leases" }), err
	})
}
