// This file has the interface about instances, and serves InstancesService with it.

package provider

import (
	"context"
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
