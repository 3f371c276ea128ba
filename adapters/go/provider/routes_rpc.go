package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// busyRetry is when a route is asked for again that another call changes: soon, since that call is
// mostly one which its caller has cancelled.
const busyRetry = time.Second

// routesRPC checks and serialises requests before, and completes results after a vendor's handler.
type routesRPC struct {
	v1.UnimplementedRoutesServiceServer
	core     *core
	routes   Routes
	maxBatch int
	keys     *keys
	// batches has room for those that may run at a time; nil: any number.
	batches chan struct{}
}

func (s *routesRPC) ListRoutes(request *v1.ListRoutesRequest, out grpc.ServerStreamingServer[v1.ListRoutesResponse]) error {
	call, err := s.core.admit(out.Context(), "ListRoutes", reads, request.Context)
	if err != nil {
		return err
	}
	return stream(call, out, func(ctx context.Context, send func(*v1.ListRoutesResponse) error) error {
		list := gather[*v1.Route, v1.ListRoutesResponse]{
			send: send, maxBytes: call.session.maxSendBytes,
			message: func(routes []*v1.Route, complete bool) *v1.ListRoutesResponse {
				return &v1.ListRoutesResponse{Routes: routes, Complete: complete}
			},
		}
		if err := s.routes.ListRoutes(ctx, list.add); err != nil {
			return err
		}
		return list.flush(true)
	})
}

func (s *routesRPC) BatchCreateRoutes(ctx context.Context, request *v1.BatchCreateRoutesRequest) (*v1.BatchCreateRoutesResponse, error) {
	call, err := s.core.admit(ctx, "BatchCreateRoutes", changes, request.Context)
	if err != nil {
		return nil, err
	}
	if err := checkRoutes(request.Routes, s.maxBatch, wrongToCreate); err != nil {
		return nil, err
	}
	return run(call, ctx, func(ctx context.Context) (*v1.BatchCreateRoutesResponse, error) {
		results, err := s.change(ctx, request.Routes, call.session.maxSendBytes, s.routes.CreateRoutes)
		if err != nil {
			return nil, err
		}
		return within(call.session.maxSendBytes, &v1.BatchCreateRoutesResponse{Results: results},
			"RoutesCapability.max_batch_size")
	})
}

func (s *routesRPC) BatchDeleteRoutes(ctx context.Context, request *v1.BatchDeleteRoutesRequest) (*v1.BatchDeleteRoutesResponse, error) {
	call, err := s.core.admit(ctx, "BatchDeleteRoutes", changes, request.Context)
	if err != nil {
		return nil, err
	}
	if err := checkRoutes(request.Routes, s.maxBatch, nil); err != nil {
		return nil, err
	}
	return run(call, ctx, func(ctx context.Context) (*v1.BatchDeleteRoutesResponse, error) {
		results, err := s.change(ctx, request.Routes, call.session.maxSendBytes, s.routes.DeleteRoutes)
		if err != nil {
			return nil, err
		}
		return within(call.session.maxSendBytes, &v1.BatchDeleteRoutesResponse{Results: results},
			"RoutesCapability.max_batch_size")
	})
}

type changeRoutes func(context.Context, []*v1.Route) (RouteChanges, error)

// change works on the routes that no other call changes. The others are not waited for: the batch
// would wait with them.
func (s *routesRPC) change(ctx context.Context, routes []*v1.Route, maxBytes int, change changeRoutes) ([]*v1.RouteResult, error) {
	if s.batches != nil {
		select {
		case s.batches <- struct{}{}:
			defer func() { <-s.batches }()
		case <-CallOf(ctx).callerGone:
			return nil, errCallerGone
		}
	}
	var free []*v1.Route
	results := make([]*v1.RouteResult, 0, len(routes))
	for _, route := range routes {
		release := s.keys.tryHold(routeKey(route.DestinationCidr))
		if release == nil {
			busy := Errorf(OperationInProgress, "another call changes the route to %s", route.DestinationCidr)
			results = append(results, routeResult(route, RouteChange{Err: busy.WithRetryAfter(busyRetry)}))
			continue
		}
		defer release()
		free = append(free, route)
	}
	var changed RouteChanges
	if len(free) > 0 {
		var err error
		if changed, err = change(ctx, free); err != nil {
			return nil, err
		}
	}
	for _, route := range free {
		result, ok := changed[route.DestinationCidr]
		if !ok {
			result.Err = errors.New("the provider returned no result for this route")
		}
		delete(changed, route.DestinationCidr)
		results = append(results, routeResult(route, result))
	}
	for route := range changed {
		CallOf(ctx).Log.Warn("a batch returned a result for a route that the request does not name", "route", route)
	}
	withoutEffectsBeyond(ctx, results, maxBytes)
	return results, nil
}

// withoutEffectsBeyond leaves effects out where they do not fit: the caller must learn which routes
// there are.
func withoutEffectsBeyond(ctx context.Context, results []*v1.RouteResult, maxBytes int) {
	bytes := 0
	for _, result := range results {
		bytes += proto.Size(result) + elementOverhead
	}
	if bytes <= maxBytes {
		return
	}
	CallOf(ctx).Log.Warn("the effects of a batch are too large and were left out; send fewer or shorter ones",
		"bytes", bytes, "limit", maxBytes)
	for _, result := range results {
		result.Effects = nil
	}
}

func routeResult(asked *v1.Route, change RouteChange) *v1.RouteResult {
	sent := &v1.RouteResult{
		DestinationCidr: asked.DestinationCidr, NodeName: asked.NodeName,
		Status: &rpcstatus.Status{}, Effects: change.Effects, Route: change.Route,
	}
	err := change.Err
	if err == nil {
		if _, unsendable := proto.Marshal(sent); unsendable != nil {
			err = fmt.Errorf("the route cannot be sent: %w", unsendable)
			sent.Effects = nil
		}
	}
	if err != nil {
		var effects *v1.KubernetesEffects
		sent.Status, effects = itemStatus(err)
		sent.Route = nil
		if sent.Effects == nil {
			sent.Effects = effects
		}
	}
	return sent
}

// routeKey is one for all spellings. A listed route may have a destination that is none.
func routeKey(destination string) string {
	prefix, err := netip.ParsePrefix(destination)
	if err != nil {
		return destination
	}
	return prefix.Masked().String()
}

func checkRoutes(routes []*v1.Route, maxBatch int, wrong func(*v1.Route) string) error {
	if len(routes) < 1 || len(routes) > maxBatch {
		return Errorf(InvalidRequest, "the request is about %d routes; send 1 to %d "+
			"(RoutesCapability.max_batch_size)", len(routes), maxBatch)
	}
	known := make(map[string]struct{}, len(routes))
	for index, route := range routes {
		mistake := tooLong(route)
		if mistake == "" && wrong != nil {
			mistake = wrong(route)
		}
		key := routeKey(route.GetDestinationCidr())
		if _, twice := known[key]; mistake == "" && twice {
			mistake = fmt.Sprintf("has the destination %q, which came before", route.DestinationCidr)
		}
		if mistake != "" {
			return Errorf(InvalidRequest, "routes[%d] %s", index, mistake)
		}
		known[key] = struct{}{}
	}
	return nil
}

func tooLong(route *v1.Route) string {
	for _, field := range []struct {
		name, text  string
		least, most int
	}{
		{"destination_cidr", route.GetDestinationCidr(), 1, 253},
		{"name", route.GetName(), 0, 253},
		{"node_name", route.GetNodeName(), 0, 253},
		{"node_uid", route.GetNodeUid(), 0, 253},
		{"provider_id", route.GetProviderId(), 0, 1024},
	} {
		if bytes := len(field.text); bytes < field.least || bytes > field.most {
			return fmt.Sprintf("has a %s of %d bytes; send %d to %d", field.name, bytes, field.least, field.most)
		}
	}
	return ""
}

// wrongToCreate: a route is listed by one of several fields, and created with all of them.
func wrongToCreate(route *v1.Route) string {
	prefix, err := netip.ParsePrefix(route.DestinationCidr)
	switch {
	case err != nil:
		return fmt.Sprintf("has the destination %q, which is no CIDR", route.DestinationCidr)
	case prefix.Masked() != prefix:
		return fmt.Sprintf("has the destination %q with host bits; send %v", route.DestinationCidr, prefix.Masked())
	case route.NodeName == "":
		return "has no node_name"
	default:
		return ""
	}
}
