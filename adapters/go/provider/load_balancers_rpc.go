// This file serves LoadBalancersService: it resolves targets, and runs one change per Service.

package provider

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

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
