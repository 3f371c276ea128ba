// This file serves grpc.health.v1 from the provider's own status.

package provider

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthRPC serves Check, which the probes of the kubelet call, from the status that GetStatus returns.
type healthRPC struct {
	grpc_health_v1.UnimplementedHealthServer
	core *core
	// server has the services whose health can be asked for, besides that of the whole.
	server *grpc.Server
}

func (s *healthRPC) Check(_ context.Context, request *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if _, isServed := s.server.GetServiceInfo()[request.Service]; !isServed && request.Service != "" {
		// The code that the health protocol prescribes.
		return nil, status.Errorf(codes.NotFound, "service %q is not served here", request.Service)
	}
	if s.core.serving() {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
}
