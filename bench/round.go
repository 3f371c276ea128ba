package main

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"time"
)

const (
	nodePrefix = "bench-"
	// quiet is how long nothing is written until work counts as done.
	quiet = 2 * time.Second
	// standbyTime is how long a standby has run when the leader ends; it has looked at the Lease by then.
	standbyTime = 3 * time.Second
)

// measures of one contestant in one round.
type measures map[string]float64

// floor is the time of the writes that initialise the nodes, with no logic around them.
func (g *rig) floor(ctx context.Context) (float64, error) {
	output, err := g.testbed(ctx, "floor", "--without-events", "--json", "--count", fmt.Sprint(g.options.nodes))
	if err != nil {
		return 0, err
	}
	var floor struct{ Seconds float64 }
	if err := json.Unmarshal(output, &floor); err != nil {
		return 0, fmt.Errorf("the floor: %w", err)
	}
	return floor.Seconds, nil
}

// run is one round of one contestant, on a cluster that has nothing in it, and leaves it so.
func (g *rig) run(ctx context.Context, one contestant) (measures, error) {
	ctx, cancel := context.WithTimeout(ctx, g.options.timeout)
	defer cancel()
	found := measures{}
	first, err := g.fresh(ctx, one, found)
	if err != nil {
		return nil, fmt.Errorf("%s, cold start and Services: %w", one.id, err)
	}
	if err := first.end(ctx, syscall.SIGTERM); err != nil {
		return nil, err
	}
	leader, err := g.restart(ctx, one, found)
	if err != nil {
		return nil, fmt.Errorf("%s, restart: %w", one.id, err)
	}
	for _, signal := range []struct {
		id string
		syscall.Signal
	}{{"sigterm", syscall.SIGTERM}, {"kill", syscall.SIGKILL}} {
		seconds, next, err := g.failOver(ctx, one, leader, signal.id, signal.Signal)
		if err != nil {
			return nil, fmt.Errorf("%s, fail-over after %s: %w", one.id, signal.id, err)
		}
		found["failover."+signal.id], leader = seconds, next
	}
	started := time.Now()
	if _, err := g.testbed(ctx, "services", "--delete", "--count", fmt.Sprint(g.options.services),
		"--timeout", g.options.timeout.String()); err != nil {
		return nil, fmt.Errorf("%s: %w", one.id, err)
	}
	found["deletion.seconds"] = time.Since(started).Seconds()
	if err := leader.end(ctx, syscall.SIGTERM); err != nil {
		return nil, err
	}
	return found, g.clear(ctx)
}

// fresh measures the start over nodes that all wait, and Services that come then.
func (g *rig) fresh(ctx context.Context, one contestant, found measures) (*replica, error) {
	if err := g.register(ctx, nodePrefix, g.options.nodes); err != nil {
		return nil, err
	}
	work, err := g.begin(one, nil)
	if err != nil {
		return nil, err
	}
	first, err := g.start(one)
	if err != nil {
		return nil, err
	}
	work.replica = first
	if err := g.initialised(ctx, first.processes(), nodePrefix, g.options.nodes); err != nil {
		return nil, err
	}
	found["cold.seconds"] = time.Since(work.began).Seconds()
	if err := work.finish(ctx, g, "cold", found); err != nil {
		return nil, err
	}
	if work, err = g.begin(one, first); err != nil {
		return nil, err
	}
	output, err := g.testbed(ctx, "services", "--json", "--count", fmt.Sprint(g.options.services),
		"--timeout", g.options.timeout.String())
	if err != nil {
		return nil, err
	}
	var served struct{ SecondsToAddresses float64 }
	if err := json.Unmarshal(output, &served); err != nil {
		return nil, fmt.Errorf("the report about Services: %w", err)
	}
	found["services.seconds"] = served.SecondsToAddresses
	if err := work.finish(ctx, g, "services", found); err != nil {
		return nil, err
	}
	return first, first.weigh(found)
}

// weigh notes memory and CPU until now.
func (r *replica) weigh(found measures) error {
	sum := usage{}
	for place, p := range r.processes() {
		used, err := p.usage()
		if err != nil {
			return err
		}
		id := []string{"controller", "provider"}[place]
		found["memory."+id], found["cpu."+id] = used.peakMiB, used.cpuSeconds
		sum.peakMiB += used.peakMiB
		sum.cpuSeconds += used.cpuSeconds
	}
	found["memory.sum"], found["cpu.sum"] = sum.peakMiB, sum.cpuSeconds
	return nil
}

// restart measures what a start over nodes and Services costs that are all as they should be.
func (g *rig) restart(ctx context.Context, one contestant, found measures) (*replica, error) {
	work, err := g.begin(one, nil)
	if err != nil {
		return nil, err
	}
	second, err := g.start(one)
	if err != nil {
		return nil, err
	}
	work.replica = second
	if err := g.leads(ctx, second, work.began); err != nil {
		return nil, err
	}
	return second, work.finish(ctx, g, "restart", found)
}

// failOver ends the leader while a standby waits, and measures from the signal to a new node without its taint. It
// returns the new leader.
func (g *rig) failOver(ctx context.Context, one contestant, leader *replica, id string, signal syscall.Signal) (float64, *replica, error) {
	standby, err := g.start(one)
	if err != nil {
		return 0, nil, err
	}
	if err := standby.healthy(ctx); err != nil {
		return 0, nil, err
	}
	select {
	case <-time.After(standbyTime):
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	for _, p := range append(leader.processes(), standby.processes()...) {
		if err := p.hasEnded(); err != nil {
			return 0, nil, err
		}
	}
	signalled := time.Now()
	leader.signal(signal)
	prefix := id + "-"
	if err := g.register(ctx, prefix, 1); err != nil {
		return 0, nil, err
	}
	if err := g.initialised(ctx, standby.processes(), prefix, 1); err != nil {
		return 0, nil, err
	}
	seconds := time.Since(signalled).Seconds()
	return seconds, standby, leader.gone(ctx)
}

// work is a part of a round in which calls are counted.
type work struct {
	one     contestant
	replica *replica
	began   time.Time
	mark    int
	calls   map[string]int
}

// begin counts from now on. Calls to the cloud of a replica that is yet to start begin at zero.
func (g *rig) begin(one contestant, running *replica) (*work, error) {
	mark, err := g.audit.Mark()
	if err != nil {
		return nil, err
	}
	begun := &work{one: one, replica: running, mark: mark, began: time.Now(), calls: map[string]int{}}
	if running != nil {
		begun.calls, err = running.calls()
	}
	return begun, err
}

// finish waits until nothing has been written for a while, and counts. Only writes show that work goes on: lookups
// of nodes never end.
func (w *work) finish(ctx context.Context, g *rig, id string, found measures) error {
	last, seen := time.Now(), w.mark
	var broken error
	settled := func() bool {
		next, err := g.audit.Mark()
		if err != nil {
			broken = err
			return true
		}
		requests, err := g.audit.Since(seen, w.one.agent)
		seen, broken = next, err
		for _, one := range requests {
			if one.Changes() && one.At.After(last) {
				last = one.At
			}
		}
		return err != nil || time.Since(last) > quiet
	}
	if err := until(ctx, "the end of all writes", w.replica.processes(), settled); err != nil {
		return err
	}
	if broken != nil {
		return broken
	}
	requests, err := g.audit.Since(w.mark, w.one.agent)
	if err != nil {
		return err
	}
	calls, err := w.replica.calls()
	if err != nil {
		return err
	}
	for _, count := range []string{"writes", "events", "reads", "calls", "changes"} {
		found[id+"."+count] = 0 // none is a result too
	}
	for _, one := range requests {
		found[id+".api "+one.Verb+" "+one.Resource]++
		switch {
		case one.Changes() && one.Resource == "events":
			found[id+".events"]++
		case one.Changes():
			found[id+".writes"]++
		case one.Resource != "leases":
			found[id+".reads"]++
		}
	}
	for operation, count := range calls {
		made := float64(count - w.calls[operation])
		if made == 0 {
			continue
		}
		found[id+".cloud "+operation] = made
		found[id+".calls"] += made
		if changesCloud(operation) {
			found[id+".changes"] += made
		}
	}
	return nil
}
