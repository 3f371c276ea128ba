package provider

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Instances looks up the machines behind Nodes. Nothing here changes the cloud, and ctx ends with its
// caller.
type Instances interface {
	// GetInstances looks up 1 to InstancesCapability.max_batch_size nodes with distinct names: by
	// provider ID, and only where that is empty by name, system UUID or labels. An error of the whole is
	// the error of each. A node without a result is reported as failed.
	//
	// A cloud that is asked about one machine at a time uses LookupEach.
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
	// View is how much of each is wanted; more may be filled. Never unspecified.
	View v1.InstanceView
	// MaxStaleness is how old an answer from the provider's own caches may be. Zero: ask the cloud now.
	MaxStaleness time.Duration
}

// Lookups are the results of a batch by the name of the Node.
type Lookups map[string]Lookup

// Lookup is the answer about one Node: Found, Absent, NotVisibleYet, NotManaged or Failed.
type Lookup struct {
	outcome *v1.InstanceResult
	err     error
}

// Found says that the instance exists, running or not.
func Found(instance *v1.Instance) Lookup {
	return Lookup{outcome: &v1.InstanceResult{Outcome: &v1.InstanceResult_Found{Found: instance}}}
}

// Absent says that the cloud was asked during this call, with the permission to see every instance of
// the cluster, answered in full, and has no such instance. THE NODE MAY BE DELETED.
func Absent() Lookup {
	return absent(&v1.InstanceAbsent{Certainty: v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED})
}

// AbsentSince is Absent by an answer of the cloud that is age old. One that is older than this call is
// sent as NotVisibleYet.
func AbsentSince(age time.Duration) Lookup {
	return absent(&v1.InstanceAbsent{
		Certainty: v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED, Age: durationpb.New(age),
	})
}

// NotVisibleYet says that no instance is there, but that may be a cache or eventual consistency.
// Deletes nothing.
func NotVisibleYet() Lookup {
	return absent(&v1.InstanceAbsent{Certainty: v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET})
}

// NotManaged says that another provider, or none, owns the Node: why, for logs.
func NotManaged(reason string) Lookup {
	return Lookup{outcome: &v1.InstanceResult{
		Outcome: &v1.InstanceResult_NotManaged{NotManaged: &v1.InstanceNotManaged{Reason: reason}},
	}}
}

// Failed is the error of one lookup; the Node stays as it is.
func Failed(err error) Lookup { return Lookup{err: err} }

// WithEffects adds events, annotations and conditions of the Node.
func (l Lookup) WithEffects(effects *v1.KubernetesEffects) Lookup {
	with := &v1.InstanceResult{Outcome: l.outcome.GetOutcome(), Effects: effects}
	return Lookup{outcome: with, err: l.err}
}

func (l Lookup) failure() error { return l.err }

func absent(absent *v1.InstanceAbsent) Lookup {
	return Lookup{outcome: &v1.InstanceResult{Outcome: &v1.InstanceResult_Absent{Absent: absent}}}
}

// LookupEach looks up each node by itself, at most concurrency at a time. An error or a panic concerns
// its node only. Once the cloud limits the rate, refuses the credentials or is away, the nodes that were
// not asked about yet get that error too. Shortly before the deadline of ctx it returns the results that
// are there, and an error for each other node; ctx ends then for lookups that still run.
func LookupEach(ctx context.Context, concurrency int, nodes []*v1.Node,
	lookup func(ctx context.Context, node *v1.Node) (Lookup, error),
) (Lookups, error) {
	return lookupEach(ctx, concurrency, nodes, (*v1.Node).GetName, lookup, Failed)
}
