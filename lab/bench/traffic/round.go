// This file has the steps of a round.

package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"outrigger.dev/bench/rig"
)

const (
	machines = 3
	// leaver is the machine that is turned off, turned on and deleted.
	leaver = "machine-3"
	// newServices are made one after the other.
	newServices = 5
	// watched is how long connections are watched after an event, and after the last lost one.
	watched = 8 * time.Second
	// standbyTime is how long a standby has run when the leader is killed; it has looked at the Lease by then.
	standbyTime = 3 * time.Second
)

// round is one controller on its cluster.
type round struct {
	*rig.Rig
	name  string
	start rig.Starter
	// add notes a figure.
	add func(name string, value float64)

	leader  *rig.Replica
	clients *clients
}

func (r *round) play(ctx context.Context) (err error) {
	if r.leader, err = r.Start(r.name, r.start); err != nil {
		return err
	}
	if err := r.Initialized(ctx, r.leader.Processes(), "machine-", machines); err != nil {
		return err
	}
	if err := r.deploy(ctx); err != nil {
		return err
	}
	address, err := r.serve(ctx, "steady")
	if err != nil {
		return err
	}
	r.clients = begin(ctx, address)
	defer r.clients.stop()
	if err := r.allAnswer(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.services, r.restart, r.failOver, r.powerOff, r.deletion} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return r.leader.End(ctx, syscall.SIGTERM)
}

// allAnswer waits until the Pods of all machines answer, and no connection is lost.
func (r *round) allAnswer(ctx context.Context) error {
	moment := time.Now()
	return rig.Until(ctx, "answers of all Pods", r.leader.Processes(), func() (bool, error) {
		if w := r.clients.since(moment); w.lost > 0 {
			moment = time.Now()
		} else if len(w.pods) == machines && w.quiet > 2*lostAfter {
			return true, nil
		}
		return false, nil
	})
}

// services measures the time from the creation of a Service to its first answer.
func (r *round) services(ctx context.Context) error {
	for number := range newServices {
		seconds, err := r.answered(ctx, fmt.Sprintf("new-%d", number), time.Now())
		if err != nil {
			return err
		}
		r.add("service", seconds)
	}
	return nil
}

// restart ends the controller and starts it again, as the update of a Deployment with one replica does.
func (r *round) restart(ctx context.Context) error {
	began := time.Now()
	r.leader.Signal(syscall.SIGTERM)
	if err := r.leader.Wait(ctx); err != nil {
		return err
	}
	var err error
	if r.leader, err = r.Start(r.name, r.start); err != nil {
		return err
	}
	return r.change(ctx, "restart", began)
}

// failOver kills the leader beside a standby.
func (r *round) failOver(ctx context.Context) error {
	standby, err := r.Start(r.name, r.start)
	if err != nil {
		return err
	}
	if err := standby.Healthy(ctx); err != nil {
		return err
	}
	if err := pause(ctx, standbyTime); err != nil {
		return err
	}
	began := time.Now()
	if err := r.leader.End(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	r.leader = standby
	return r.change(ctx, "kill", began)
}

// change makes a Service after an event, and notes its first answer and the connections that others have lost meanwhile.
func (r *round) change(ctx context.Context, name string, began time.Time) error {
	seconds, err := r.answered(ctx, name, began)
	if err != nil {
		return err
	}
	r.add(name+".seconds", seconds)
	return r.watch(ctx, name, began)
}

// powerOff turns a machine off, and on again before its Node is not ready.
func (r *round) powerOff(ctx context.Context) error {
	if err := r.anyTime(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := r.Machine(ctx, "stop", leaver); err != nil {
		return err
	}
	if err := r.watch(ctx, "off", began); err != nil {
		return err
	}
	if err := r.Machine(ctx, "start", leaver); err != nil {
		return err
	}
	return r.allAnswer(ctx)
}

// deletion deletes a running machine from the cloud.
func (r *round) deletion(ctx context.Context) error {
	if err := r.anyTime(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := r.Machine(ctx, "delete", leaver); err != nil {
		return err
	}
	err := rig.Until(ctx, "the end of Node "+leaver, r.leader.Processes(), func() (bool, error) {
		nodes, err := r.Nodes.List(labels.Everything())
		return len(nodes) < machines, err
	})
	if err != nil {
		return err
	}
	r.add("deleted.node", time.Since(began).Seconds())
	return r.watch(ctx, "deleted", began)
}

// watch waits until no connection is lost any more and notes those that were.
func (r *round) watch(ctx context.Context, name string, began time.Time) error {
	err := rig.Until(ctx, "the end of lost connections", r.leader.Processes(), func() (bool, error) {
		return r.clients.since(began).quiet > watched, nil
	})
	w := r.clients.since(began)
	r.add(name+".lost", float64(w.lost))
	r.add(name+".outage", w.outage.Seconds())
	return err
}

// anyTime waits for some part of the time between two health checks, which the step before has ended with.
func (r *round) anyTime(ctx context.Context) error { return pause(ctx, rand.N(time.Second)) }

func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
