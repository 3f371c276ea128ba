// This file serves grpc.health.v1 from the provider's own status, and asks a running provider for it, for exec probes of the kubelet.

package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
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

// Probe calls GetStatus of the provider, and takes at most limit. It makes a new connection: an old
// one could hide that the process is dead. It returns one sentence for an operator. A liveness probe fails if the
// provider does not answer or reports that it is broken; a readiness probe also while the provider is starting.
func Probe(endpoint Endpoint, ready bool, limit time.Duration) (sentence string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	status, err := ask(ctx, endpoint)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "", fmt.Errorf("the provider at %v did not answer within %v", endpoint, limit)
	}
	if err != nil {
		return "", err
	}
	var unready []string
	for _, dependency := range status.Dependencies {
		if dependency.Readiness != v1.Readiness_READINESS_READY {
			unready = append(unready, fmt.Sprintf("%s (%s)", dependency.Name, dependency.Message))
		}
	}
	because := ""
	if len(unready) > 0 {
		because = ": " + strings.Join(unready, ", ")
	}
	is := func(state string) string { return fmt.Sprintf("the provider at %v is %s%s", endpoint, state, because) }
	switch status.Readiness {
	case v1.Readiness_READINESS_READY:
		return is("ready"), nil
	case v1.Readiness_READINESS_STARTING:
		if ready {
			return "", errors.New(is("starting"))
		}
		return is("starting"), nil
	case v1.Readiness_READINESS_BROKEN:
		return "", errors.New(is("broken and wants a restart"))
	default:
		return is("degraded"), nil
	}
}

func ask(ctx context.Context, endpoint Endpoint) (*v1.GetStatusResponse, error) {
	// Dial first, so that a missing socket is not reported as an answer of the provider.
	connection, err := new(net.Dialer).DialContext(ctx, "unix", endpoint.path)
	if err != nil {
		return nil, fmt.Errorf("no provider serves %v: %w", endpoint, err)
	}
	_ = connection.Close()
	client, err := grpc.NewClient(endpoint.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	answer, err := v1.NewProviderServiceClient(client).GetStatus(ctx, &v1.GetStatusRequest{})
	if refused := status.Convert(err); err != nil {
		return nil, fmt.Errorf("the provider at %v answered with %v: %s", endpoint, refused.Code(), refused.Message())
	}
	return answer, nil
}
