// This file has the interface about routes, and serves RoutesService with it.

package provider

import (
	"context"
	"maps"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Routes lists, makes and removes routes from Pod CIDRs to Nodes.
//
// Mark each route with Call.Cluster.UID, in a tag or in its name, in the call that creates it, and list
// and delete that cluster's routes only. The key is the destination CIDR; a batch names it once, and the
// server runs one change of it at a time: another one is answered OperationInProgress immediately. The
// context of a change outlives the caller as that of LoadBalancers does.
type Routes interface {
	// ListRoutes hands every route of this cluster to send, those that lead nowhere too. Nil means
	// that the list is whole.
	ListRoutes(ctx context.Context, send func(*v1.Route) error) error
	// CreateRoutes makes routes; a route that exists already is a success, a route to another target is
	// ConflictingResource and stays. An error of the whole call is that of each route. Each makes them one
	// by one.
	CreateRoutes(ctx context.Context, routes []*v1.Route) (RouteChanges, error)
	// DeleteRoutes removes routes; a route that is gone is a success. Each is as it was listed, or as its
	// creation answered it.
	DeleteRoutes(ctx context.Context, routes []*v1.Route) (RouteChanges, error)
}

// RouteChange is a route that was made or removed, or the error of it. Found is the route that was made, as a list shows
// it. Without an error and without Found the controller keeps it as it asked for it, and deletes it without a name.
type RouteChange = Result[*v1.Route]

// RouteChanges are the results of a batch by destination CIDR, as the batch spells it.
type RouteChanges = Results[*v1.Route]

// busyRetry is when a route is asked for again that another call changes: soon, since that call is
// mostly one which its caller has cancelled.
const busyRetry = time.Second

// routesRPC serialises changes of one destination.
type routesRPC struct {
	v1.UnimplementedRoutesServiceServer
	core     *core
	routes   Routes
	keyLocks *keyLocks
	// batches that may run at a time.
	batches semaphore
}

func (s *routesRPC) ListRoutes(request *v1.ListRoutesRequest, out grpc.ServerStreamingServer[v1.ListRoutesResponse]) error {
	return list(s.core, request, out, s.routes.ListRoutes)
}

func (s *routesRPC) BatchCreateRoutes(ctx context.Context, request *v1.BatchCreateRoutesRequest) (*v1.BatchCreateRoutesResponse, error) {
	return batch[v1.BatchCreateRoutesResponse](s.core, ctx, request, func(ctx context.Context) (RouteChanges, error) {
		return s.change(ctx, request.Items, s.routes.CreateRoutes, func(made RouteChange) RouteChange {
			if made.Found == nil {
				made.Found = &v1.Route{}
			}
			return made
		})
	})
}

func (s *routesRPC) BatchDeleteRoutes(ctx context.Context, request *v1.BatchDeleteRoutesRequest) (*v1.BatchDeleteRoutesResponse, error) {
	return batch[v1.BatchDeleteRoutesResponse](s.core, ctx, request, func(ctx context.Context) (RouteChanges, error) {
		return s.change(ctx, request.Items, s.routes.DeleteRoutes, func(removed RouteChange) RouteChange {
			return RouteChange{Absent: Confirmed(""), Effects: removed.Effects}
		})
	})
}

// change works on the routes that no other call changes. The others are not waited for: the batch
// would wait with them.
func (s *routesRPC) change(ctx context.Context, routes []*v1.Route,
	work func(context.Context, []*v1.Route) (RouteChanges, error), succeeded func(RouteChange) RouteChange,
) (RouteChanges, error) {
	leave, err := s.batches.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	busy := RouteChanges{}
	var free []*v1.Route
	for _, route := range routes {
		release, err := s.keyLocks.lock(ctx, RouteKey(route.DestinationCidr))
		if err != nil {
			busy[route.DestinationCidr] = RouteChange{Err: err}
			continue
		}
		defer release()
		free = append(free, route)
	}
	if len(free) == 0 {
		return busy, nil
	}
	changed, err := work(ctx, free)
	if err != nil {
		return nil, err
	}
	for destination, change := range changed {
		if change.Err == nil {
			changed[destination] = succeeded(change)
		}
	}
	maps.Copy(busy, changed)
	return busy, nil
}

// RouteKey is the same for all spellings of a destination CIDR. A text that is no CIDR, which a cloud's list may have, is its own key.
func RouteKey(destination string) string {
	prefix, err := netip.ParsePrefix(destination)
	if err != nil {
		return destination
	}
	return prefix.Masked().String()
}
