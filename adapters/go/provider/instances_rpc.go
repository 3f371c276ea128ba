package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// instancesRPC checks requests before, and completes results after a vendor's handler.
type instancesRPC struct {
	v1.UnimplementedInstancesServiceServer
	core      *core
	instances Instances
	maxBatch  int
}

func (s *instancesRPC) BatchGetInstances(ctx context.Context, request *v1.BatchGetInstancesRequest) (*v1.BatchGetInstancesResponse, error) {
	call, err := s.core.admit(ctx, "BatchGetInstances", reads, request.Context)
	if err != nil {
		return nil, err
	}
	query, err := queryOf(request)
	if err != nil {
		return nil, err
	}
	if err := checkNodes(request.Nodes, s.maxBatch); err != nil {
		return nil, err
	}
	return run(call, ctx, func(ctx context.Context) (*v1.BatchGetInstancesResponse, error) {
		askedAt := time.Now()
		found, err := s.instances.GetInstances(ctx, request.Nodes, query)
		if err != nil {
			return nil, err
		}
		response := &v1.BatchGetInstancesResponse{Results: make([]*v1.InstanceResult, 0, len(request.Nodes))}
		for _, node := range request.Nodes {
			lookup, ok := found[node.Name]
			if !ok {
				lookup = Failed(errors.New("the provider returned no result for this node"))
			}
			delete(found, node.Name)
			response.Results = append(response.Results, lookup.result(node.Name, time.Since(askedAt)))
		}
		for name := range found {
			CallOf(ctx).Log.Warn("a lookup returned a result for a node that the request does not name", "node", name)
		}
		return within(call.session.maxSendBytes, response, "InstancesCapability.max_batch_size")
	})
}

func (s *instancesRPC) ListInstances(request *v1.ListInstancesRequest, out grpc.ServerStreamingServer[v1.ListInstancesResponse]) error {
	call, err := s.core.admit(out.Context(), "ListInstances", reads, request.Context)
	if err != nil {
		return err
	}
	lister, ok := s.instances.(InstanceLister)
	if !ok {
		return Errorf(CapabilityDisabled, "this provider does not list instances")
	}
	query, err := queryOf(request)
	if err != nil {
		return err
	}
	return stream(call, out, func(ctx context.Context, send func(*v1.ListInstancesResponse) error) error {
		list := gather[*v1.Instance, v1.ListInstancesResponse]{
			send: send, maxBytes: call.session.maxSendBytes,
			message: func(instances []*v1.Instance, complete bool) *v1.ListInstancesResponse {
				return &v1.ListInstancesResponse{Instances: instances, Complete: complete}
			},
		}
		if err := lister.ListInstances(ctx, query, list.add); err != nil {
			return err
		}
		return list.flush(true)
	})
}

// queryOf refuses a negative staleness, and reads a view of a later minor as everything.
func queryOf(request interface {
	GetView() v1.InstanceView
	GetMaxStaleness() *durationpb.Duration
}) (Query, error) {
	query := Query{View: request.GetView(), MaxStaleness: request.GetMaxStaleness().AsDuration()}
	if query.MaxStaleness < 0 {
		return query, Errorf(InvalidRequest, "max_staleness is negative; send zero to have the cloud asked now")
	}
	switch query.View {
	case v1.InstanceView_INSTANCE_VIEW_METADATA, v1.InstanceView_INSTANCE_VIEW_STATE:
	default:
		query.View = v1.InstanceView_INSTANCE_VIEW_FULL
	}
	return query, nil
}

func checkNodes(nodes []*v1.Node, maxBatch int) error {
	if len(nodes) < 1 || len(nodes) > maxBatch {
		return Errorf(InvalidRequest, "the request asks about %d nodes; send 1 to %d "+
			"(InstancesCapability.max_batch_size)", len(nodes), maxBatch)
	}
	names := make(map[string]struct{}, len(nodes))
	for index, node := range nodes {
		wrong := wrongName(node.GetName())
		if wrong == "" && len(node.ProviderId) > 1024 {
			wrong = fmt.Sprintf("has a provider_id of %d bytes; send at most 1,024", len(node.ProviderId))
		}
		if _, twice := names[node.GetName()]; wrong == "" && twice {
			wrong = fmt.Sprintf("is %q, which the request has asked about already", node.Name)
		}
		if wrong != "" {
			return Errorf(InvalidRequest, "nodes[%d] %s", index, wrong)
		}
		names[node.Name] = struct{}{}
	}
	return nil
}

// result is what is sent about one node. took is how long the call has run.
func (l Lookup) result(node string, took time.Duration) *v1.InstanceResult {
	sent := &v1.InstanceResult{NodeName: node, Outcome: l.outcome.GetOutcome(), Effects: l.outcome.GetEffects()}
	err := l.err
	switch outcome := sent.Outcome.(type) {
	case *v1.InstanceResult_Absent:
		gone := outcome.Absent
		// An observation from before the call is a cache, whatever the vendor calls it.
		if gone.GetAge().AsDuration() > took {
			gone = &v1.InstanceAbsent{
				Certainty: v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET, Age: gone.Age,
			}
			sent.Outcome = &v1.InstanceResult_Absent{Absent: gone}
		}
	case *v1.InstanceResult_Found:
		if outcome.Found == nil && err == nil {
			err = errors.New("the provider returned a found instance that is nil")
		}
	case nil:
		if err == nil {
			err = errors.New("the provider returned a result without an outcome")
		}
	}
	if err == nil {
		if _, unsendable := proto.Marshal(sent); unsendable != nil {
			err = fmt.Errorf("the instance cannot be sent: %w", unsendable)
			sent.Effects = nil
		}
	}
	if err != nil {
		status, effects := itemStatus(err)
		if sent.Effects == nil {
			sent.Effects = effects
		}
		sent.Outcome = &v1.InstanceResult_Error{Error: status}
	}
	return sent
}
