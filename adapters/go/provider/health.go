// This file serves grpc.health.v1 from the provider's own status.

package provider

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// watchInterval is how often a watch looks for a change.
const watchInterval = time.Second

// healthRPC serves grpc.health.v1 from the status that GetStatus returns; it has no state of its own.
type healthRPC struct {
	grpc_health_v1.UnimplementedHealthServer
	core *core
	// served are the names of the gRPC services that the provider implements.
	served map[string]struct{}
}

// knows is true for those names, and for the empty one, which is the whole provider.
func (s *healthRPC) knows(service string) bool {
	_, ok := s.served[service]
	return ok || service == ""
}

func (s *healthRPC) answer() *grpc_health_v1.HealthCheckResponse {
	if s.core.serving() {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}
}

func (s *healthRPC) Check(_ context.Context, request *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if !s.knows(request.Service) {
		// The code that the health protocol prescribes.
		return nil, status.Errorf(codes.NotFound, "service %q is not served here", request.Service)
	}
	return s.answer(), nil
}

func (s *healthRPC) List(context.Context, *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	answer := s.answer()
	statuses := map[string]*grpc_health_v1.HealthCheckResponse{"": answer}
	for service := range s.served {
		statuses[service] = answer
	}
	return &grpc_health_v1.HealthListResponse{Statuses: statuses}, nil
}

// Watch sends the last status and returns when the provider drains: an open watch would keep the connection open.
func (s *healthRPC) Watch(request *grpc_health_v1.HealthCheckRequest, out grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		draining := s.core.running.isDraining()
		next := &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN}
		if s.knows(request.Service) {
			next = s.answer()
		}
		if next.Status != last {
			if err := out.Send(next); err != nil {
				return err
			}
			last = next.Status
		}
		if draining {
			return nil
		}
		select {
		case <-ticks.C:
		case <-s.core.running.draining:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}
