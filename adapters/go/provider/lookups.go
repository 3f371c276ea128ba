// This file has the answers about Nodes, and looks Nodes up one by one.

package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Lookup is the answer about one Node: Found, Absent, NotVisibleYet, NotManaged or Failed.
type Lookup struct {
	// Found is the machine.
	Found *v1.Instance
	// Absent says that there is none.
	Absent *v1.Absent
	// NotManaged says that it is another provider's.
	NotManaged *v1.NotManaged
	// Effects are events, annotations and conditions of the Node.
	Effects *v1.KubernetesEffects
	// Err is why there is no answer; nothing changes.
	Err error
}

// Lookups are answers by the name of the Node. Without one the answer is unknown.
type Lookups map[string]Lookup

// Found says that the machine exists.
func Found(instance *v1.Instance) Lookup { return Lookup{Found: instance} }

// Absent says that the cloud was asked during this call, with the permission to see every instance of
// the cluster, answered in full, and has no such instance. THE NODE MAY BE DELETED.
func Absent() Lookup { return Lookup{Absent: Confirmed("")} }

// NotVisibleYet says that no instance is there, but that may be a cache or eventual consistency.
// Deletes nothing.
func NotVisibleYet() Lookup {
	return Lookup{Absent: &v1.Absent{Certainty: v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET}}
}

// NotManaged says that another provider, or none, owns the Node; logs have the reason.
func NotManaged(reason string) Lookup { return Lookup{NotManaged: &v1.NotManaged{Reason: reason}} }

// Failed is the error of one lookup; the Node stays unchanged.
func Failed(err error) Lookup { return Lookup{Err: err} }

// Confirmed is the absence of an object that the cloud was asked about during this call, with the permission to
// see all of its kind, and that it does not have. An operator reads the reason.
func Confirmed(reason string) *v1.Absent {
	return &v1.Absent{Certainty: v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED, Reason: reason}
}

// WithEffects adds events, annotations and conditions of the Node.
func (l Lookup) WithEffects(effects *v1.KubernetesEffects) Lookup {
	l.Effects = effects
	return l
}

// sent is the answer as the contract has it.
func (l Lookup) sent(name string) *v1.InstanceResult {
	result := &v1.InstanceResult{Key: name, Effects: l.Effects}
	switch {
	case l.Err != nil:
		status, effects := statusOf(l.Err)
		result.Outcome = &v1.InstanceResult_Error{Error: status}
		if result.Effects == nil {
			result.Effects = effects
		}
	case l.Absent != nil:
		result.Outcome = &v1.InstanceResult_Absent{Absent: l.Absent}
	case l.NotManaged != nil:
		result.Outcome = &v1.InstanceResult_NotManaged{NotManaged: l.NotManaged}
	case l.Found != nil:
		result.Outcome = &v1.InstanceResult_Found{Found: l.Found}
	}
	return result
}

// answerMargin is how long before its deadline a batch of lookups is answered, at most: enough to send the answer.
const answerMargin = time.Second

// Errors of Nodes that were not answered in time, and of those that were not begun. They have no
// reason: the controller asks about each of them again in a call of its own.
var (
	errNotAnswered = fmt.Errorf("the cloud has not answered about this object: %w", context.DeadlineExceeded)
	errNotAsked    = fmt.Errorf("not asked about, other objects took the time: %w", context.DeadlineExceeded)
)

// Each looks up each Node by itself, at most concurrency at a time. An error or a panic concerns
// its Node only. Once the cloud limits the rate, refuses the credentials or is away, the Nodes that were not
// begun yet get that error too; once the caller is gone, what runs ends and no other one is begun.
//
// Shortly before the deadline of ctx it returns the answers that are there,
// and an error for each other Node: one that hangs must not take the answers about the others with it. The order
// changes from call to call, so that no Node is always behind those that hang.
func Each(ctx context.Context, concurrency int, nodes []*v1.Node,
	work func(ctx context.Context, node *v1.Node) (Lookup, error),
) (Lookups, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := &each{work: work, lookups: make(Lookups, len(nodes)), left: slices.Clone(nodes)}
	rand.Shuffle(len(e.left), func(i, j int) { e.left[i], e.left[j] = e.left[j], e.left[i] })
	for _, node := range nodes {
		e.lookups[node.Name] = Failed(errNotAsked)
	}
	var workers sync.WaitGroup
	for range min(max(concurrency, 1), len(nodes)) {
		workers.Go(func() { e.run(ctx) })
	}
	ended := make(chan struct{})
	go func() { workers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-beforeDeadline(ctx):
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.lookups), Check(ctx)
}

// each is the state of one call of Each.
type each struct {
	work func(context.Context, *v1.Node) (Lookup, error)

	mu      sync.Mutex
	lookups Lookups
	// left are the Nodes that were not begun.
	left []*v1.Node
}

func (e *each) run(ctx context.Context) {
	for node := e.next(ctx); node != nil; node = e.next(ctx) {
		lookup, err := Recovered(ctx, func() (Lookup, error) { return e.work(ctx, node) })
		if err != nil {
			lookup.Err = err
		}
		e.note(node, lookup)
	}
}

// next is a Node that is begun now; nil: none is left, or the caller is gone.
func (e *each) next(ctx context.Context) *v1.Node {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.left) == 0 || Check(ctx) != nil {
		return nil
	}
	node := e.left[0]
	e.left = e.left[1:]
	e.lookups[node.Name] = Failed(errNotAnswered)
	return node
}

// note begins no other lookup after an error that stops the class of calls:
// the next call would fail alike, and a cloud that limits the rate counts each try.
func (e *each) note(node *v1.Node, lookup Lookup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lookups[node.Name] = lookup
	if stop := stopOf(lookup.Err); stop != nil {
		for _, node := range e.left {
			e.lookups[node.Name] = Failed(stop)
		}
		e.left = nil
	}
}

// stopOf is an error with which other calls of the class would fail alike, so that the controller
// pauses them; effects stay with the first. Nil: it is another one.
func stopOf(err error) error {
	var named *Error
	if !errors.As(err, &named) {
		return nil
	}
	switch named.Reason {
	case RateLimited, CredentialsInvalid, CloudUnavailable:
		return &Error{Reason: named.Reason, RetryAfter: named.RetryAfter, err: err}
	default:
		return nil
	}
}

// beforeDeadline fires while there is time to answer; never where ctx has no deadline.
func beforeDeadline(ctx context.Context) <-chan time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	left := time.Until(deadline)
	return time.After(left - min(answerMargin, left/10))
}
