// This file serves a provider on its socket until it drains.

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// These times are together less than the 30 s that Kubernetes waits by default.
const (
	// drainPatience is how long running calls have to end by themselves.
	drainPatience = 20 * time.Second
	// drainGrace is how long they have once their callers count as gone.
	drainGrace = 5 * time.Second
	// hangUp is how long callers have to read the last answers.
	hangUp = 2 * time.Second
)

// Serve serves until SIGTERM or SIGINT.
//
// The socket appears with mode 0660 once calls are answered. After the signal new calls get
// SHUTTING_DOWN, running ones have 20 s to end by themselves and 5 s more once their callers count as gone, then the
// socket file is removed. A second signal ends the process immediately, unless it is process 1 of a container.
func (p *Provider) Serve(endpoint Endpoint) error {
	return serveUntilSignal(endpoint, func(context.Context) (*Provider, error) { return p, nil })
}

// ServeUntil is Serve until ctx ends instead of a signal.
func (p *Provider) ServeUntil(ctx context.Context, endpoint Endpoint) error {
	core := p.core()
	listener, err := listen(endpoint)
	if err != nil {
		return err
	}
	defer listener.remove()
	server := core.server()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	bootID, _ := core.offer()
	core.log.Info("serving", "endpoint", endpoint.String(), "provider", p.Name, "version", p.Version, "boot_id", bootID)
	select {
	case err := <-ended:
		return fmt.Errorf("the gRPC server failed: %w", err)
	case <-ctx.Done():
	}
	// Until no call runs any more, a caller that connects gets an answer.
	if running := core.running.drain(drainPatience, drainGrace); running > 0 {
		core.log.Warn("calls still run and are dropped", "running", running)
	}
	listener.remove()
	late := time.AfterFunc(hangUp, func() {
		core.log.Info("a connection was still open and is dropped")
		server.Stop()
	})
	server.GracefulStop()
	late.Stop()
	core.log.Info("stopped")
	if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("the gRPC server failed: %w", err)
	}
	return nil
}

// server has the services of what is offered, and beside them identity and health.
func (c *core) server() *grpc.Server {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessageBytes),
		// The controller has one connection: its heartbeat must not wait behind calls that hang.
		grpc.MaxConcurrentStreams(4096),
		grpc.UnaryInterceptor(c.unary),
		grpc.StreamInterceptor(c.streaming),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			return Errorf(CapabilityDisabled, "this provider does not serve the method that was called")
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
	)
	v1.RegisterProviderServiceServer(server, &identityRPC{core: c})
	p := c.provider
	if c.capabilities.Instances != nil {
		v1.RegisterInstancesServiceServer(server, &instancesRPC{core: c, instances: p.Instances})
	}
	if capability := c.capabilities.LoadBalancers; capability != nil {
		set := &nodeSet{}
		v1.RegisterNodeSetsServiceServer(server, &nodeSetsRPC{core: c, nodeSet: set})
		v1.RegisterLoadBalancersServiceServer(server, &loadBalancersRPC{
			core: c, loadBalancers: p.LoadBalancers, capability: capability, nodeSet: set,
			changes: newChanges(cmp.Or(capability.MaxInFlight, defaultInFlight)),
		})
	}
	if capability := c.capabilities.Routes; capability != nil {
		v1.RegisterRoutesServiceServer(server, &routesRPC{
			core: c, routes: p.Routes, changes: newChanges(cmp.Or(capability.MaxInFlight, defaultInFlight)),
		})
	}
	if c.capabilities.Volumes != nil {
		v1.RegisterVolumesServiceServer(server, &volumesRPC{core: c, volumes: p.Volumes})
	}
	grpc_health_v1.RegisterHealthServer(server, &healthRPC{core: c, server: server})
	return server
}

// unary puts the errors of calls into the contract's words, and turns a panic into one.
func (c *core) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	defer c.inContractWords(info.FullMethod, &err)
	return handler(ctx, request)
}

func (c *core) streaming(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer c.inContractWords(info.FullMethod, &err)
	return handler(service, stream)
}

// inContractWords is to be deferred.
func (c *core) inContractWords(method string, err *error) {
	if cause := recover(); cause != nil {
		c.log.Error("a call panicked", "method", method, "panic", cut(fmt.Sprint(cause)),
			"stack", string(debug.Stack()))
		*err = errors.New("the provider panicked: look for the method in its log")
	}
	if !strings.HasPrefix(method, "/grpc.health.v1.") {
		*err = grpcError(*err)
	}
}
