// This file measures one round of one contestant.

package sidebyside

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"time"

	"outrigger.dev/bench/rig"
)

const (
	nodePrefix = "bench-"
	// standbyTime is how long a standby has run when the leader ends; it has looked at the Lease by then.
	standbyTime = 3 * time.Second
)

// bench is a run on its control plane.
type bench struct {
	*rig.Rig
	*options
}

// measures of one contestant in one round.
type measures map[string]float64

// floor is the time of the writes that initialize the nodes, with no logic around them.
func (b *bench) floor(ctx context.Context) (float64, error) {
	var floor struct{ Seconds float64 }
	output, err := b.Lab(ctx, "floor", "--without-events", "--json", "--count", fmt.Sprint(b.nodes))
	err = decode(&floor, output, err)
	return floor.Seconds, err
}

// decode reads what a command of the testbed or the lab has printed as JSON, unless it failed.
func decode(result any, output []byte, err error) error {
	if err != nil {
		return err
	}
	if err := json.Unmarshal(output, result); err != nil {
		return fmt.Errorf("an output that is no JSON: %w", err)
	}
	return nil
}

// measure is one round of one contestant, on a cluster that has nothing in it, and leaves it so.
func (b *bench) measure(ctx context.Context, contestant contestant) (measures, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	measured := measures{}
	first, err := b.fresh(ctx, contestant, measured)
	if err != nil {
		return nil, fmt.Errorf("%s, cold start and Services: %w", contestant.id, err)
	}
	if err := first.End(ctx, syscall.SIGTERM); err != nil {
		return nil, err
	}
	leader, err := b.restart(ctx, contestant, measured)
	if err != nil {
		return nil, fmt.Errorf("%s, restart: %w", contestant.id, err)
	}
	for _, signal := range []struct {
		id string
		syscall.Signal
	}{{"sigterm", syscall.SIGTERM}, {"kill", syscall.SIGKILL}} {
		seconds, next, err := b.failOver(ctx, contestant, leader, signal.id, signal.Signal)
		if err != nil {
			return nil, fmt.Errorf("%s, fail-over after %s: %w", contestant.id, signal.id, err)
		}
		measured["failover."+signal.id], leader = seconds, next
	}
	began := time.Now()
	if _, err := b.Testbed(ctx, "services", "--delete", "--count", fmt.Sprint(b.services), "--timeout", b.timeout.String()); err != nil {
		return nil, fmt.Errorf("%s: %w", contestant.id, err)
	}
	measured["deletion.seconds"] = time.Since(began).Seconds()
	if err := leader.End(ctx, syscall.SIGTERM); err != nil {
		return nil, err
	}
	return measured, b.Clear(ctx)
}

// fresh measures the start over nodes that all wait, and Services that come then.
func (b *bench) fresh(ctx context.Context, contestant contestant, measured measures) (*rig.Replica, error) {
	if err := b.Register(ctx, nodePrefix, b.nodes); err != nil {
		return nil, err
	}
	work, err := b.begin(contestant, nil)
	if err != nil {
		return nil, err
	}
	replica, err := b.Start(contestant.id, contestant.start)
	if err != nil {
		return nil, err
	}
	if err := b.Initialized(ctx, replica.Processes(), nodePrefix, b.nodes); err != nil {
		return nil, err
	}
	measured["cold.seconds"] = time.Since(work.began).Seconds()
	if err := work.finish(ctx, replica, "cold", measured); err != nil {
		return nil, err
	}
	if work, err = b.begin(contestant, replica); err != nil {
		return nil, err
	}
	var services struct{ SecondsToAddresses float64 }
	output, err := b.Testbed(ctx, "services", "--json", "--count", fmt.Sprint(b.services), "--timeout", b.timeout.String())
	if err := decode(&services, output, err); err != nil {
		return nil, err
	}
	measured["services.seconds"] = services.SecondsToAddresses
	if err := work.finish(ctx, replica, "services", measured); err != nil {
		return nil, err
	}
	if err := weigh(replica, measured); err != nil {
		return nil, err
	}
	err = b.change(ctx, contestant, replica, "leave", measured, func() error { return b.Delete(ctx, nodePrefix, b.nodes-1) })
	if err != nil {
		return nil, fmt.Errorf("a node leaves: %w", err)
	}
	err = b.change(ctx, contestant, replica, "exclusion", measured, func() error { return b.Exclude(ctx, nodePrefix, excluded(b.nodes)) })
	if err != nil {
		return nil, fmt.Errorf("the exclusion of nodes: %w", err)
	}
	return replica, nil
}

// excluded is how many nodes leave all load balancers by their label.
func excluded(nodes int) int { return max(nodes/10, 1) }

// change measures an edit of nodes until the last call to the cloud because of it.
func (b *bench) change(ctx context.Context, contestant contestant, replica *rig.Replica, id string, measured measures, edit func() error) error {
	work, err := b.begin(contestant, replica)
	if err != nil {
		return err
	}
	if err := edit(); err != nil {
		return err
	}
	last, err := b.Quiet(ctx, replica.Processes(), replica.Changes)
	if err != nil {
		return err
	}
	measured[id+".seconds"] = last.Sub(work.began).Seconds()
	return work.finish(ctx, replica, id, measured)
}

// weigh notes memory and CPU until now.
func weigh(replica *rig.Replica, measured measures) error {
	for index, process := range replica.Processes() {
		usage, err := process.Usage()
		if err != nil {
			return err
		}
		id := []string{"controller", "provider"}[index]
		measured["memory."+id], measured["cpu."+id] = usage.PeakMiB, usage.CPUSeconds
		measured["memory.sum"] += usage.PeakMiB
		measured["cpu.sum"] += usage.CPUSeconds
	}
	return nil
}

// restart measures what a start costs over nodes and Services that are all as they should be.
func (b *bench) restart(ctx context.Context, contestant contestant, measured measures) (*rig.Replica, error) {
	work, err := b.begin(contestant, nil)
	if err != nil {
		return nil, err
	}
	replica, err := b.Start(contestant.id, contestant.start)
	if err != nil {
		return nil, err
	}
	if err := b.Leads(ctx, replica, work.began); err != nil {
		return nil, err
	}
	return replica, work.finish(ctx, replica, "restart", measured)
}

// failOver ends the leader while a standby waits, and measures from the signal to a new node without its taint. It
// returns the new leader.
func (b *bench) failOver(ctx context.Context, contestant contestant, leader *rig.Replica, id string, signal syscall.Signal) (float64, *rig.Replica, error) {
	standby, err := b.Start(contestant.id, contestant.start)
	if err != nil {
		return 0, nil, err
	}
	if err := standby.Healthy(ctx); err != nil {
		return 0, nil, err
	}
	select {
	case <-time.After(standbyTime):
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	for _, process := range append(leader.Processes(), standby.Processes()...) {
		if err := process.Ended(); err != nil {
			return 0, nil, err
		}
	}
	signalled := time.Now()
	leader.Signal(signal)
	prefix := id + "-"
	if err := b.Register(ctx, prefix, 1); err != nil {
		return 0, nil, err
	}
	if err := b.Initialized(ctx, standby.Processes(), prefix, 1); err != nil {
		return 0, nil, err
	}
	seconds := time.Since(signalled).Seconds()
	return seconds, standby, leader.Wait(ctx)
}

// work is a part of a round in which calls are counted.
type work struct {
	bench *bench
	agent string
	began time.Time
	mark  int
	calls map[string]int
	// server is what the API server had used.
	server rig.Usage
}

// begin counts from now on. Calls to the cloud of a replica that is yet to start begin at zero.
func (b *bench) begin(contestant contestant, running *rig.Replica) (*work, error) {
	mark, err := b.Audit.Mark()
	if err != nil {
		return nil, err
	}
	server, err := b.APIServer()
	if err != nil {
		return nil, err
	}
	w := &work{bench: b, agent: contestant.agent, mark: mark, server: server, began: time.Now(), calls: map[string]int{}}
	if running != nil {
		w.calls, err = running.Calls()
	}
	return w, err
}

// finish waits until nothing has been written for a while, and counts.
func (w *work) finish(ctx context.Context, replica *rig.Replica, id string, measured measures) error {
	if _, err := w.bench.Quiet(ctx, replica.Processes(), nil, w.agent); err != nil {
		return err
	}
	server, err := w.bench.APIServer()
	if err != nil {
		return err
	}
	measured[id+".apiserver"] = server.CPUSeconds - w.server.CPUSeconds
	requests, err := w.bench.Audit.Since(w.mark, w.agent)
	if err != nil {
		return err
	}
	calls, err := replica.Calls()
	if err != nil {
		return err
	}
	for _, count := range []string{"writes", "events", "reads", "calls", "changes"} {
		measured[id+"."+count] = 0 // zero is a result too
	}
	for _, request := range requests {
		measured[id+".api "+request.Verb+" "+request.Resource]++
		switch {
		case request.Changes() && request.Resource == "events":
			measured[id+".events"]++
		case request.Changes():
			measured[id+".writes"]++
		case request.Resource != "leases":
			measured[id+".reads"]++
		}
	}
	for operation, count := range calls {
		count := float64(count - w.calls[operation])
		if count == 0 {
			continue
		}
		measured[id+".cloud "+operation] = count
		measured[id+".calls"] += count
		if rig.ChangesCloud(operation) {
			measured[id+".changes"] += count
		}
	}
	return nil
}
