// This file has the interface about instances and the answers about Nodes, and serves InstancesService with it.

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

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Instances looks up the machines behind Nodes. Nothing here changes the cloud, and ctx ends with its
// caller.
type Instances interface {
	// GetInstances looks up 1 to InstancesCapability.max_batch_size nodes with distinct names: by
	// provider ID, and only where that is empty by name, system UUID or labels. An error of the whole call is
	// the error of each node.
	//
	// A cloud that is asked about one machine at a time uses Each.
	GetInstances(ctx context.Context, nodes []*v1.Node, query Query) (Lookups, error)
}

// InstanceLister is implemented by Instances whose cloud can list: the capability "list" is offered
// exactly then.
type InstanceLister interface {
	// ListInstances hands every instance that can be a node of this cluster to send. Nil means that the
	// list is whole; after an error the caller discards it.
	ListInstances(ctx context.Context, query Query, send func(*v1.Instance) error) error
}

// Query has the options of a lookup.
type Query struct {
	// View is how much of each instance the controller reads; more may be filled. Never unspecified.
	View v1.InstanceView
	// MaxStaleness is how old an answer from the provider's own caches may be. Zero: ask the cloud now.
	MaxStaleness time.Duration
}

// declareInstances declares the optional methods that there are.
func declareInstances(capability *v1.InstancesCapability, instances Instances) {
	_, capability.List = instances.(InstanceLister)
}

type instancesRPC struct {
	v1.UnimplementedInstancesServiceServer
	core      *core
	instances Instances
}

func (s *instancesRPC) BatchGetInstances(ctx context.Context, request *v1.BatchGetInstancesRequest) (*v1.BatchGetInstancesResponse, error) {
	return run(s.core, ctx, request, func(ctx context.Context) (*v1.BatchGetInstancesResponse, error) {
		lookups, err := s.instances.GetInstances(ctx, request.Items, queryOf(request))
		response := &v1.BatchGetInstancesResponse{}
		for _, node := range request.Items {
			response.Results = append(response.Results, lookups[node.Name].sent(node.Name))
		}
		return response, err
	})
}

func (s *instancesRPC) ListInstances(request *v1.ListInstancesRequest, out grpc.ServerStreamingServer[v1.ListInstancesResponse]) error {
	lister, ok := s.instances.(InstanceLister)
	if !ok {
		return Errorf(CapabilityDisabled, "this provider does not list instances")
	}
	return list(s.core, request, out, func(ctx context.Context, send func(*v1.Instance) error) error {
		return lister.ListInstances(ctx, queryOf(request), send)
	})
}

// queryOf reads a view of a later minor as everything.
func queryOf(request interface {
	GetView() v1.InstanceView
	GetMaxStaleness() *durationpb.Duration
}) Query {
	query := Query{View: request.GetView(), MaxStaleness: max(request.GetMaxStaleness().AsDuration(), 0)}
	switch query.View {
	case v1.InstanceView_INSTANCE_VIEW_METADATA, v1.InstanceView_INSTANCE_VIEW_STATE:
	default:
		query.View = v1.InstanceView_INSTANCE_VIEW_FULL
	}
	return query
}

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
