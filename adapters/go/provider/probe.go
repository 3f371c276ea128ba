package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Probe dials the provider anew, so that no old connection hides a dead one, and asks grpc.health.v1
// and GetStatus, for at most limit. It returns one sentence for people. A liveness probe fails when
// there is no answer, or the provider calls itself broken; a readiness probe also while it is starting.
func Probe(endpoint Endpoint, ready bool, limit time.Duration) (sentence string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	told, err := ask(ctx, endpoint)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "", fmt.Errorf("the provider at %v did not answer within %v", endpoint, limit)
	}
	if err != nil {
		return "", err
	}
	var blamed []string
	for _, dependency := range told.Dependencies {
		if dependency.Readiness != v1.Readiness_READINESS_READY {
			blamed = append(blamed, fmt.Sprintf("%s (%s)", dependency.Name, dependency.Message))
		}
	}
	because := ""
	if len(blamed) > 0 {
		because = ": " + strings.Join(blamed, ", ")
	}
	is := func(state string) string { return fmt.Sprintf("the provider at %v is %s%s", endpoint, state, because) }
	switch told.Readiness {
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
	var dialer net.Dialer
	first, err := dialer.DialContext(ctx, "unix", endpoint.path)
	if err != nil {
		return nil, fmt.Errorf("no provider serves %v: %w", endpoint, err)
	}
	// The one connection that was made, so that a failure to make it shows as such.
	connections := make(chan net.Conn, 1)
	connections <- first
	client, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			select {
			case connection := <-connections:
				return connection, nil
			default:
				return nil, errors.New("the connection was lost")
			}
		}))
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	failed := func(call string, err error) error {
		told := status.Convert(err)
		return fmt.Errorf("the provider at %v answered %s with %v: %s", endpoint, call, told.Code(), told.Message())
	}
	if _, err := grpc_health_v1.NewHealthClient(client).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		return nil, failed("the health check", err)
	}
	told, err := v1.NewProviderServiceClient(client).GetStatus(ctx, &v1.GetStatusRequest{})
	if err != nil {
		return nil, failed("GetStatus", err)
	}
	return told, nil
}
