package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// loadBalancersRPC checks and serialises requests before a vendor's handler.
type loadBalancersRPC struct {
	v1.UnimplementedLoadBalancersServiceServer
	core          *core
	loadBalancers LoadBalancers
	capability    *v1.LoadBalancersCapability
	concurrency   int
	nodeSets      *nodeSets
	keys          *keys
}

func (s *loadBalancersRPC) GetLoadBalancer(ctx context.Context, request *v1.GetLoadBalancerRequest) (*v1.GetLoadBalancerResponse, error) {
	call, err := s.core.admit(ctx, "GetLoadBalancer", reads, request.Context)
	if err != nil {
		return nil, err
	}
	if err := checkService(request.Service); err != nil {
		return nil, err
	}
	var targets *Targets
	if request.Targets != nil {
		if targets, err = s.nodeSets.resolve(request.Targets); err != nil {
			return nil, err
		}
	}
	answer, err := run(call, ctx, func(ctx context.Context) (*v1.LoadBalancerAnswer, error) {
		return finished(legalGet)(s.loadBalancers.GetLoadBalancer(ctx, request.Service, targets))
	})
	return &v1.GetLoadBalancerResponse{Answer: answer}, err
}

func (s *loadBalancersRPC) EnsureLoadBalancer(ctx context.Context, request *v1.EnsureLoadBalancerRequest) (*v1.EnsureLoadBalancerResponse, error) {
	call, err := s.core.admit(ctx, "EnsureLoadBalancer", changes, request.Context)
	if err != nil {
		return nil, err
	}
	if err := checkService(request.Service); err != nil {
		return nil, err
	}
	targets, err := s.nodeSets.resolve(request.Targets)
	if err != nil {
		return nil, err
	}
	if call.call.HeldAddresses, err = heldAddresses(request.HeldAddresses); err != nil {
		return nil, err
	}
	if !s.serves(request.Service) {
		return &v1.EnsureLoadBalancerResponse{Answer: LoadBalancerNotManaged()}, nil
	}
	answer, err := run(call, ctx, func(ctx context.Context) (*v1.LoadBalancerAnswer, error) {
		release, err := s.keys.hold(ctx, "Service", request.Service.Uid)
		if err != nil {
			return nil, err
		}
		defer release()
		return finished(legalEnsure)(s.loadBalancers.EnsureLoadBalancer(ctx, request.Service, targets))
	})
	return &v1.EnsureLoadBalancerResponse{Answer: answer}, err
}

func (s *loadBalancersRPC) UpdateLoadBalancerNodes(request *v1.UpdateLoadBalancerNodesRequest, out grpc.ServerStreamingServer[v1.UpdateLoadBalancerNodesResponse]) error {
	call, err := s.core.admit(out.Context(), "UpdateLoadBalancerNodes", changes, request.Context)
	if err != nil {
		return err
	}
	if err := checkServices(request.Services, int(s.capability.MaxServicesPerUpdate)); err != nil {
		return err
	}
	targets, err := s.nodeSets.resolve(request.Targets)
	if err != nil {
		return err
	}
	return stream(call, out, func(ctx context.Context, send func(*v1.UpdateLoadBalancerNodesResponse) error) error {
		result := func(service *v1.Service, answer *v1.LoadBalancerAnswer, err error) {
			sent := &v1.UpdateLoadBalancerNodesResponse{Service: &v1.ServiceRef{
				Namespace: service.Namespace, Name: service.Name, Uid: service.Uid,
			}}
			if err == nil {
				sent.Outcome = &v1.UpdateLoadBalancerNodesResponse_Answer{Answer: answer}
			} else {
				sent.Outcome = &v1.UpdateLoadBalancerNodesResponse_Error{Error: wholeStatus(err)}
			}
			_ = send(sent) // a result without a reader is dropped: its Service is asked about again
		}
		return each(ctx, s.concurrency, request.Services, func(service *v1.Service) error {
			answer, err := s.update(ctx, service, targets)
			result(service, answer, err)
			return err
		}, func(service *v1.Service, err error) { result(service, nil, err) })
	})
}

func (s *loadBalancersRPC) update(ctx context.Context, service *v1.Service, targets *Targets) (*v1.LoadBalancerAnswer, error) {
	if !s.serves(service) {
		return LoadBalancerNotManaged(), nil
	}
	release, err := s.keys.hold(ctx, "Service", service.Uid)
	if err != nil {
		return nil, err
	}
	defer release()
	return recovered(ctx, func() (*v1.LoadBalancerAnswer, error) {
		return finished(legalUpdate)(s.loadBalancers.UpdateLoadBalancerNodes(ctx, service, targets))
	})
}

func (s *loadBalancersRPC) DeleteLoadBalancer(ctx context.Context, request *v1.DeleteLoadBalancerRequest) (*v1.DeleteLoadBalancerResponse, error) {
	call, err := s.core.admit(ctx, "DeleteLoadBalancer", changes, request.Context)
	if err != nil {
		return nil, err
	}
	if err := checkService(request.Service); err != nil {
		return nil, err
	}
	answer, err := run(call, ctx, func(ctx context.Context) (*v1.LoadBalancerAnswer, error) {
		release, err := s.keys.hold(ctx, "Service", request.Service.Uid)
		if err != nil {
			return nil, err
		}
		defer release()
		return finished(legalDelete)(s.loadBalancers.DeleteLoadBalancer(ctx, request.Service))
	})
	return &v1.DeleteLoadBalancerResponse{Answer: answer}, err
}

func (s *loadBalancersRPC) ListLoadBalancers(request *v1.ListLoadBalancersRequest, out grpc.ServerStreamingServer[v1.ListLoadBalancersResponse]) error {
	call, err := s.core.admit(out.Context(), "ListLoadBalancers", reads, request.Context)
	if err != nil {
		return err
	}
	lister, ok := s.loadBalancers.(LoadBalancerLister)
	if !ok {
		return Errorf(CapabilityDisabled, "this provider does not list load balancers")
	}
	return stream(call, out, func(ctx context.Context, send func(*v1.ListLoadBalancersResponse) error) error {
		list := gather[*v1.OwnedLoadBalancer, v1.ListLoadBalancersResponse]{
			send: send, maxBytes: call.session.maxSendBytes,
			message: func(owned []*v1.OwnedLoadBalancer, complete bool) *v1.ListLoadBalancersResponse {
				return &v1.ListLoadBalancersResponse{LoadBalancers: owned, Complete: complete}
			},
		}
		if err := lister.ListLoadBalancers(ctx, list.add); err != nil {
			return err
		}
		return list.flush(true)
	})
}

func (s *loadBalancersRPC) PlanLoadBalancer(ctx context.Context, request *v1.PlanLoadBalancerRequest) (*v1.PlanLoadBalancerResponse, error) {
	call, err := s.core.admit(ctx, "PlanLoadBalancer", reads, request.Context)
	if err != nil {
		return nil, err
	}
	planner, ok := s.loadBalancers.(LoadBalancerPlanner)
	if !ok {
		return nil, Errorf(CapabilityDisabled, "this provider does not plan load balancers")
	}
	var targets *Targets
	switch request.Operation {
	case v1.PlanOperation_PLAN_OPERATION_ENSURE:
		if targets, err = s.nodeSets.resolve(request.Targets); err != nil {
			return nil, err
		}
	case v1.PlanOperation_PLAN_OPERATION_DELETE:
	default:
		return nil, Errorf(InvalidRequest, "the request names no operation that this provider knows")
	}
	if err := checkService(request.Service); err != nil {
		return nil, err
	}
	if targets != nil && !s.serves(request.Service) {
		return &v1.PlanLoadBalancerResponse{}, nil
	}
	return run(call, ctx, func(ctx context.Context) (*v1.PlanLoadBalancerResponse, error) {
		planned, err := planner.PlanLoadBalancer(ctx, request.Service, targets)
		return &v1.PlanLoadBalancerResponse{Changes: planned}, err
	})
}

// serves tells whether Services of this one's class are served.
func (s *loadBalancersRPC) serves(service *v1.Service) bool {
	if service.LoadBalancerClass == nil {
		return !s.capability.WithoutDefaultClass
	}
	return slices.Contains(s.capability.Classes, *service.LoadBalancerClass)
}

// legal has the dispositions that an answer to one RPC may have.
type legal struct {
	rpc          string
	dispositions []v1.LoadBalancerDisposition
}

var (
	legalGet = legal{"GetLoadBalancer", []v1.LoadBalancerDisposition{
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_DIFFERS,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT,
	}}
	legalEnsure = legal{"EnsureLoadBalancer", []v1.LoadBalancerDisposition{
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED,
	}}
	legalUpdate = legal{"UpdateLoadBalancerNodes", []v1.LoadBalancerDisposition{
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT,
	}}
	legalDelete = legal{"DeleteLoadBalancer", []v1.LoadBalancerDisposition{
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_RETAINED,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED,
		v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS,
	}}
)

// finished checks a vendor's answer, where its author sees it, and keeps it within the contract's limits.
func finished(may legal) func(*v1.LoadBalancerAnswer, error) (*v1.LoadBalancerAnswer, error) {
	return func(answer *v1.LoadBalancerAnswer, err error) (*v1.LoadBalancerAnswer, error) {
		if err != nil {
			return nil, err
		}
		if answer == nil {
			return nil, errors.New("the provider returned neither an answer nor an error")
		}
		if !slices.Contains(may.dispositions, answer.Disposition) {
			return nil, fmt.Errorf("the provider answered %s with %v, which is no answer to it", may.rpc,
				answer.Disposition)
		}
		answer = proto.CloneOf(answer)
		answer.Reason, answer.Message = cut(answer.Reason, 128), cut(answer.Message, 1024)
		if answer.RetryAfter != nil {
			after := min(max(answer.RetryAfter.AsDuration(), minRetryAfter), maxRetryAfter)
			answer.RetryAfter = durationpb.New(after)
		}
		if _, err := proto.Marshal(answer); err != nil {
			return nil, fmt.Errorf("the answer cannot be sent: %w", err)
		}
		return answer, nil
	}
}

func heldAddresses(held *v1.HeldAddresses) ([]netip.Addr, error) {
	if held == nil {
		return nil, nil
	}
	addresses := make([]netip.Addr, 0, len(held.Ips))
	for _, ip := range held.Ips {
		address, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, Errorf(InvalidRequest, "held_addresses has %q, which is no IP address", ip)
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func checkService(service *v1.Service) error {
	if service == nil {
		return Errorf(InvalidRequest, "the request has no service")
	}
	if wrong := wrongService(service); wrong != "" {
		return Errorf(InvalidRequest, "service %s", wrong)
	}
	return nil
}

func checkServices(services []*v1.Service, most int) error {
	if len(services) < 1 || len(services) > most {
		return Errorf(InvalidRequest, "the request is about %d services; send 1 to %d "+
			"(LoadBalancersCapability.max_services_per_update)", len(services), most)
	}
	uids := make(map[string]struct{}, len(services))
	for index, service := range services {
		wrong := wrongService(service)
		if _, twice := uids[service.GetUid()]; wrong == "" && twice {
			wrong = fmt.Sprintf("has the UID %q, which came before", service.Uid)
		}
		if wrong != "" {
			return Errorf(InvalidRequest, "services[%d] %s", index, wrong)
		}
		uids[service.Uid] = struct{}{}
	}
	return nil
}

// wrongService is the mistake in the key of a Service or its name, if there is one.
func wrongService(service *v1.Service) string {
	for _, field := range []struct{ name, text string }{
		{"UID", service.GetUid()}, {"namespace", service.GetNamespace()}, {"name", service.GetName()},
	} {
		if len(field.text) < 1 || len(field.text) > 253 {
			return fmt.Sprintf("has a %s of %d bytes; send 1 to 253", field.name, len(field.text))
		}
	}
	return ""
}
