// This file has the interface about load balancers and the answers that its methods give, and serves LoadBalancersService with it.

package provider

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// LoadBalancers makes and removes the load balancers of Services.
//
// The key is Service.uid. Tag with it and with Call.Cluster.UID, in the cloud call that creates: a
// reply may be lost, and the process may be killed at any time. Each method carries the whole desired state
// and may be repeated. The server runs one changing call per Service at a time, also while a handler
// outlives its caller, and no more of all Services than max_in_flight says.
//
// The context of Ensure, Update and Delete outlives the caller by up to 30 s, so that a cloud request
// in flight is not cut off: ask Check between two changes of the cloud, and begin no further one when
// it fails, unless what was made cannot be found from its key without it.
type LoadBalancers interface {
	// GetLoadBalancer compares the load balancer with the Service and, unless targets is nil, with
	// those. Answers: ready, differs, in progress, not managed, absent. Changes nothing.
	GetLoadBalancer(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error)
	// EnsureLoadBalancer makes the load balancer what the Service and its targets ask for. An
	// empty set of targets is legal. Answers: ready, in progress, not managed.
	EnsureLoadBalancer(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error)
	// UpdateLoadBalancerNodes gives one load balancer new targets and changes nothing else. Answers:
	// ready, in progress, not managed, absent.
	UpdateLoadBalancerNodes(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error)
	// DeleteLoadBalancer removes every part; without any it is absent. Answers: absent, retained, not
	// managed, in progress.
	DeleteLoadBalancer(ctx context.Context, service *v1.Service) (*v1.LoadBalancerAnswer, error)
}

// LoadBalancerLister is implemented by LoadBalancers that can list: the capability "list" is offered
// exactly then.
type LoadBalancerLister interface {
	// ListLoadBalancers hands everything that this cluster owns to send. Nil means that the list is
	// whole.
	ListLoadBalancers(ctx context.Context, send func(*v1.OwnedLoadBalancer) error) error
}

// LoadBalancerPlanner is implemented by LoadBalancers that can plan: the capability "plan" is offered
// exactly then.
type LoadBalancerPlanner interface {
	// PlanLoadBalancer lists the changes that an Ensure, or without targets a Delete, would make.
	// Changes nothing.
	PlanLoadBalancer(ctx context.Context, service *v1.Service, targets *Targets) ([]*v1.PlannedChange, error)
}

// LoadBalancerReady says that the load balancer is in sync and reached by these addresses.
func LoadBalancerReady(ingress ...*v1.LoadBalancerIngress) *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{
		Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY,
		Status:      &v1.LoadBalancerStatus{Ingress: ingress},
	}
}

// LoadBalancerUpdated says that the targets are in place, and nothing about addresses.
func LoadBalancerUpdated() *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY}
}

// LoadBalancerDiffers is an answer to Get alone: the load balancer works, but an Ensure would change
// it. difference is for the log.
func LoadBalancerDiffers(difference string) *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{
		Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_DIFFERS, Message: difference,
	}
}

// LoadBalancerInProgress says that the change was accepted: the controller asks again after
// retryAfter, 1 s to 5 min. Early addresses are published.
func LoadBalancerInProgress(retryAfter time.Duration, early ...*v1.LoadBalancerIngress) *v1.LoadBalancerAnswer {
	answer := &v1.LoadBalancerAnswer{
		Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS,
		RetryAfter:  durationpb.New(retryAfter),
	}
	if len(early) > 0 { // an empty status says nothing
		answer.Status = &v1.LoadBalancerStatus{Ingress: early}
	}
	return answer
}

// LoadBalancerNotManaged says that another controller owns the Service. Nothing was touched.
func LoadBalancerNotManaged() *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED}
}

// LoadBalancerAbsent says that no part of the load balancer is left, or that there is none to update.
func LoadBalancerAbsent() *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT}
}

// LoadBalancerRetained is an answer to Delete alone: it is kept on purpose, and the finalizer may go.
func LoadBalancerRetained() *v1.LoadBalancerAnswer {
	return &v1.LoadBalancerAnswer{Disposition: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_RETAINED}
}

// declareLoadBalancers declares the optional methods that there are.
func declareLoadBalancers(capability *v1.LoadBalancersCapability, balancers LoadBalancers) {
	_, capability.List = balancers.(LoadBalancerLister)
	_, capability.Plan = balancers.(LoadBalancerPlanner)
}

// loadBalancersRPC resolves targets and serialises changes before a vendor's handler.
type loadBalancersRPC struct {
	v1.UnimplementedLoadBalancersServiceServer
	core          *core
	loadBalancers LoadBalancers
	capability    *v1.LoadBalancersCapability
	nodeSet       *nodeSet
	changes       *changes
}

// handler is a vendor's code about one Service.
type handler = func(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error)

// serviceRequest is about one Service.
type serviceRequest interface {
	request
	GetService() *v1.Service
}

func (s *loadBalancersRPC) GetLoadBalancer(ctx context.Context, request *v1.GetLoadBalancerRequest) (*v1.GetLoadBalancerResponse, error) {
	answer, err := s.call(ctx, request, request.Targets, s.loadBalancers.GetLoadBalancer)
	return &v1.GetLoadBalancerResponse{Answer: answer}, err
}

func (s *loadBalancersRPC) EnsureLoadBalancer(ctx context.Context, request *v1.EnsureLoadBalancerRequest) (*v1.EnsureLoadBalancerResponse, error) {
	answer, err := s.call(ctx, request, required(request.Targets), s.inClass(s.loadBalancers.EnsureLoadBalancer))
	return &v1.EnsureLoadBalancerResponse{Answer: answer}, err
}

func (s *loadBalancersRPC) UpdateLoadBalancerNodes(ctx context.Context, request *v1.UpdateLoadBalancerNodesRequest) (*v1.UpdateLoadBalancerNodesResponse, error) {
	answer, err := s.call(ctx, request, required(request.Targets), s.inClass(s.loadBalancers.UpdateLoadBalancerNodes))
	return &v1.UpdateLoadBalancerNodesResponse{Answer: answer}, err
}

func (s *loadBalancersRPC) DeleteLoadBalancer(ctx context.Context, request *v1.DeleteLoadBalancerRequest) (*v1.DeleteLoadBalancerResponse, error) {
	remove := func(ctx context.Context, service *v1.Service, _ *Targets) (*v1.LoadBalancerAnswer, error) {
		return s.loadBalancers.DeleteLoadBalancer(ctx, service)
	}
	answer, err := s.call(ctx, request, nil, remove)
	return &v1.DeleteLoadBalancerResponse{Answer: answer}, err
}

func (s *loadBalancersRPC) ListLoadBalancers(request *v1.ListLoadBalancersRequest, out grpc.ServerStreamingServer[v1.ListLoadBalancersResponse]) error {
	lister, ok := s.loadBalancers.(LoadBalancerLister)
	if !ok {
		return Errorf(CapabilityDisabled, "this provider does not list load balancers")
	}
	return list(s.core, request, out, lister.ListLoadBalancers)
}

func (s *loadBalancersRPC) PlanLoadBalancer(ctx context.Context, request *v1.PlanLoadBalancerRequest) (*v1.PlanLoadBalancerResponse, error) {
	planner, ok := s.loadBalancers.(LoadBalancerPlanner)
	if !ok {
		return nil, Errorf(CapabilityDisabled, "this provider does not plan load balancers")
	}
	return run(s.core, ctx, request, func(ctx context.Context) (*v1.PlanLoadBalancerResponse, error) {
		var sent *v1.NodeTargets
		switch request.Operation {
		case v1.PlanOperation_PLAN_OPERATION_ENSURE:
			sent = required(request.Targets)
		case v1.PlanOperation_PLAN_OPERATION_DELETE:
		default:
			return nil, Errorf(InvalidRequest, "the request names no operation that this provider knows")
		}
		targets, err := s.nodeSet.resolve(sent)
		if err != nil {
			return nil, err
		}
		if err := named(request.Service); err != nil {
			return nil, err
		}
		if targets != nil && !s.serves(request.Service) {
			return &v1.PlanLoadBalancerResponse{}, nil
		}
		planned, err := planner.PlanLoadBalancer(ctx, request.Service, targets)
		return &v1.PlanLoadBalancerResponse{Changes: planned}, err
	})
}

// call runs a call about one Service.
func (s *loadBalancersRPC) call(ctx context.Context, request serviceRequest, sent *v1.NodeTargets, handler handler) (*v1.LoadBalancerAnswer, error) {
	return run(s.core, ctx, request, func(ctx context.Context) (*v1.LoadBalancerAnswer, error) {
		targets, err := s.nodeSet.resolve(sent)
		if err != nil {
			return nil, err
		}
		return s.answer(ctx, request.GetService(), targets, handler)
	})
}

// answer is the handler's, which has the Service for itself where the call changes the cloud.
func (s *loadBalancersRPC) answer(ctx context.Context, service *v1.Service, targets *Targets, handler handler) (*v1.LoadBalancerAnswer, error) {
	if err := named(service); err != nil {
		return nil, err
	}
	if CallOf(ctx).method.ChangesCloud {
		end, err := s.changes.begin(ctx, "Service "+service.Uid)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	return handler(ctx, service, targets)
}

// named refuses a Service without the UID by which its load balancer is found.
func named(service *v1.Service) error {
	if service.GetUid() == "" {
		return Errorf(InvalidRequest, "the request has no Service, or one without a UID")
	}
	return nil
}

// inClass leaves Services of other classes alone.
func (s *loadBalancersRPC) inClass(handler handler) handler {
	return func(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error) {
		if !s.serves(service) {
			return LoadBalancerNotManaged(), nil
		}
		return handler(ctx, service, targets)
	}
}

// serves reports whether Services of this class are served.
func (s *loadBalancersRPC) serves(service *v1.Service) bool {
	if service.LoadBalancerClass == nil {
		return !s.capability.WithoutDefaultClass
	}
	return slices.Contains(s.capability.Classes, *service.LoadBalancerClass)
}
