package provider

import (
	"context"
	"sync"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Routes lists, makes and removes routes from Pod CIDRs to Nodes.
//
// Mark each route with Call.Cluster.UID, in a tag or in its name, in the call that creates it, and list
// and delete that cluster's routes only. The key is the destination CIDR; a batch names it once, and the
// server runs one change of it at a time: another one is answered OperationInProgress at once. The
// context of a change outlives the caller as that of LoadBalancers does.
type Routes interface {
	// ListRoutes hands every route of this cluster to send, those that lead nowhere too. Nil means
	// that the list is whole.
	ListRoutes(ctx context.Context, send func(*v1.Route) error) error
	// CreateRoutes makes routes; one that is there as wanted is a success, one to another target is
	// ConflictingResource and stays. An error of the whole is that of each. ChangeEach makes them one
	// by one.
	CreateRoutes(ctx context.Context, routes []*v1.Route) (RouteChanges, error)
	// DeleteRoutes removes routes; one that is gone is a success. Each is as it was listed, or as its
	// creation answered it.
	DeleteRoutes(ctx context.Context, routes []*v1.Route) (RouteChanges, error)
}

// RouteChanges are the results of a batch by destination CIDR, as the batch spells it.
type RouteChanges map[string]RouteChange

// RouteChange is a route that was made or removed, or the error of it.
type RouteChange struct {
	// Route that was made, as a list shows it. Nil: the controller keeps it as it asked for it, and
	// deletes it without a name.
	Route *v1.Route
	// Effects are events, annotations and conditions of the Node.
	Effects *v1.KubernetesEffects
	// Err is why not.
	Err error
}

// ChangeEach changes each route by itself, at most concurrency at a time. An error or a panic concerns
// its route only. Once the caller is gone, changes in flight end and no other begins.
func ChangeEach(ctx context.Context, concurrency int, routes []*v1.Route,
	change func(ctx context.Context, route *v1.Route) (RouteChange, error),
) (RouteChanges, error) {
	var mu sync.Mutex
	changed := make(RouteChanges, len(routes))
	note := func(route *v1.Route, result RouteChange) {
		mu.Lock()
		defer mu.Unlock()
		changed[route.DestinationCidr] = result
	}
	err := each(ctx, concurrency, routes, func(route *v1.Route) error {
		result, err := recovered(ctx, func() (RouteChange, error) { return change(ctx, route) })
		if err != nil {
			result.Err = err
		}
		note(route, result)
		return result.Err
	}, func(route *v1.Route, err error) { note(route, RouteChange{Err: err}) })
	return changed, err
}
