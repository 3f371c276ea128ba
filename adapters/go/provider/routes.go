// This file has the interface about routes, and serves RoutesService with it.

package provider

import (
	"context"
	"net/netip"

	"google.golang.org/grpc"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Routes lists, makes and removes routes from Pod CIDRs to Nodes.
//
// Mark each route with Call.Cluster.UID, in a tag or in its name, in the call that creates it, and list
// and delete that cluster's routes only. The key is the destination CIDR: the server runs one change of it at a time. The
// context of a change outlives the caller as that of LoadBalancers does. A cloud that takes many routes by one call uses
// a Batcher.
type Routes interface {
	// ListRoutes hands every route of this cluster to send, those that lead nowhere too. Nil means
	// that the list is whole.
	ListRoutes(ctx context.Context, send func(*v1.Route) error) error
	// CreateRoute makes a route; one that exists already is a success, one to another target is
	// ConflictingResource and stays. Found of the response is the route as a list shows it. Without it the controller
	// keeps the route as it asked for it, and deletes it without a name.
	CreateRoute(ctx context.Context, route *v1.Route) (*v1.CreateRouteResponse, error)
	// DeleteRoute removes a route, which is as it was listed, or as its creation answered it; one that is gone is a
	// success. The response may be nil.
	DeleteRoute(ctx context.Context, route *v1.Route) (*v1.DeleteRouteResponse, error)
}

// routesRPC serialises changes of one destination.
type routesRPC struct {
	v1.UnimplementedRoutesServiceServer
	core    *core
	routes  Routes
	changes *changes
}

func (s *routesRPC) ListRoutes(request *v1.ListRoutesRequest, out grpc.ServerStreamingServer[v1.ListRoutesResponse]) error {
	return list(s.core, request, out, s.routes.ListRoutes)
}

func (s *routesRPC) CreateRoute(ctx context.Context, request *v1.CreateRouteRequest) (*v1.CreateRouteResponse, error) {
	return run(s.core, ctx, request, func(ctx context.Context) (*v1.CreateRouteResponse, error) {
		end, err := s.changes.begin(ctx, routeKeyOf(request.Route))
		if err != nil {
			return nil, err
		}
		defer end()
		made, err := s.routes.CreateRoute(ctx, request.Route)
		if made.GetFound() == nil {
			made = &v1.CreateRouteResponse{Found: &v1.Route{}, Effects: made.GetEffects()}
		}
		return made, err
	})
}

func (s *routesRPC) DeleteRoute(ctx context.Context, request *v1.DeleteRouteRequest) (*v1.DeleteRouteResponse, error) {
	return run(s.core, ctx, request, func(ctx context.Context) (*v1.DeleteRouteResponse, error) {
		end, err := s.changes.begin(ctx, routeKeyOf(request.Route))
		if err != nil {
			return nil, err
		}
		defer end()
		removed, err := s.routes.DeleteRoute(ctx, request.Route)
		return &v1.DeleteRouteResponse{Absent: Confirmed(""), Effects: removed.GetEffects()}, err
	})
}

func routeKeyOf(route *v1.Route) string { return "route " + RouteKey(route.GetDestinationCidr()) }

// RouteKey is the same for all spellings of a destination CIDR. A text that is no CIDR, which a cloud's list may have, is its own key.
func RouteKey(destination string) string {
	prefix, err := netip.ParsePrefix(destination)
	if err != nil {
		return destination
	}
	return prefix.Masked().String()
}
