// This file answers calls about routes with upstream's Routes.

package serve

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// routes answers with a cloud's Routes.
type routes struct {
	cloud    *part[cloudprovider.Routes]
	outcomes *outcomes
	bridge   *bridge
	memory   *memory
	prefixes []string
	// tables are lists of the cloud's routes by destination. Changes that wait together look at one list, which begins
	// after each of them has come.
	tables *provider.Batcher[struct{}, map[string][]*cloudprovider.Route]
}

// newRoutes asks a cloud for its routes.
func newRoutes(options Options, cloud cloudprovider.Interface, memory *memory, outcomes *outcomes, bridged func(most int) *bridge) (*routes, *v1.RoutesCapability) {
	r := &routes{
		cloud: newPart("Routes", true, cloud.Routes), outcomes: outcomes, memory: memory, bridge: bridged(options.RouteConcurrency),
		prefixes: options.ProviderIDPrefixes,
	}
	r.tables = provider.NewBatcher(options.RouteConcurrency, r.listTogether)
	return r, &v1.RoutesCapability{MaxInFlight: uint32(options.RouteConcurrency)}
}

// Available tells whether the cloud has shown that it has routes.
func (r *routes) Available() bool { return r.cloud.Available() }

func (r *routes) ListRoutes(ctx context.Context, send func(*v1.Route) error) error {
	list, err := r.list(ctx)
	if err != nil {
		return err
	}
	for _, route := range list {
		if route == nil {
			return errNothing
		}
		if err := send(r.sent(route)); err != nil {
			return err
		}
	}
	return nil
}

// CreateRoute looks at the table before: upstream creates only what its list did not show, so that
// clouds do not agree on a create of a route that is there, or of one whose destination leads elsewhere.
func (r *routes) CreateRoute(ctx context.Context, route *v1.Route) (*v1.CreateRouteResponse, error) {
	table, err := r.tables.Do(ctx, struct{}{})
	if err != nil {
		return nil, err
	}
	for _, existing := range table[provider.RouteKey(route.DestinationCidr)] {
		switch {
		case existing.Blackhole:
			return nil, provider.Errorf(provider.ConflictingResource,
				"route %q to %s leads nowhere: it has to be deleted first", existing.Name, existing.DestinationCIDR)
		case !r.leadsTo(existing, route):
			return nil, provider.Errorf(provider.ConflictingResource,
				"route %q to %s leads to %q", existing.Name, existing.DestinationCIDR, existing.TargetNode)
		}
		return &v1.CreateRouteResponse{Found: r.sent(existing)}, nil
	}
	effects, err := r.change(ctx, "CreateRoute", route, func(ctx context.Context, cloud cloudprovider.Routes) error {
		hint := cmp.Or(route.NodeUid, route.NodeName) // as upstream's controller has it
		return cloud.CreateRoute(ctx, clusterName(ctx), hint, routeOf(route))
	})
	return &v1.CreateRouteResponse{Effects: effects}, err
}

// DeleteRoute hands a route to the cloud as it lists it, which is what it may expect; one that it does
// not list is gone.
func (r *routes) DeleteRoute(ctx context.Context, route *v1.Route) (*v1.DeleteRouteResponse, error) {
	table, err := r.tables.Do(ctx, struct{}{})
	if err != nil {
		return nil, err
	}
	for _, existing := range table[provider.RouteKey(route.DestinationCidr)] {
		isNamed := route.Name == "" || route.Name == existing.Name
		if !isNamed || !r.leadsTo(existing, route) {
			continue
		}
		effects, err := r.change(ctx, "DeleteRoute", route, func(ctx context.Context, cloud cloudprovider.Routes) error {
			return cloud.DeleteRoute(ctx, clusterName(ctx), existing)
		})
		return &v1.DeleteRouteResponse{Effects: effects}, err
	}
	return nil, nil
}

// listTogether is the same table for each of the calls.
func (r *routes) listTogether(ctx context.Context, calls []struct{}) ([]map[string][]*cloudprovider.Route, error) {
	list, err := r.list(ctx)
	table := make(map[string][]*cloudprovider.Route, len(list))
	for _, route := range list {
		if route != nil {
			key := provider.RouteKey(route.DestinationCIDR)
			table[key] = append(table[key], route)
		}
	}
	return slices.Repeat([]map[string][]*cloudprovider.Route{table}, len(calls)), err
}

func (r *routes) list(ctx context.Context) ([]*cloudprovider.Route, error) {
	cloud, err := r.cloud.get()
	if err != nil {
		return nil, r.outcomes.saw(err)
	}
	list, err := cloud.ListRoutes(ctx, clusterName(ctx))
	return list, r.outcomes.saw(about(err, r.memory))
}

func (r *routes) change(ctx context.Context, what string, route *v1.Route,
	work func(context.Context, cloudprovider.Routes) error,
) (*v1.KubernetesEffects, error) {
	text := what + " of " + route.DestinationCidr + " to " + route.NodeName
	path := nodePath(route.NodeName)
	_, err := through(r.bridge, ctx, "route/"+provider.RouteKey(route.DestinationCidr), text, text,
		func(ctx context.Context) (struct{}, error) {
			cloud, err := r.cloud.get()
			if err != nil {
				return struct{}{}, err
			}
			defer r.memory.hold(path)()
			return struct{}{}, about(work(ctx, cloud), route, r.memory)
		})
	if err != nil {
		return nil, r.memory.failed(path, r.outcomes.classify.asError(err))
	}
	return r.memory.take(path, answerEffectBytes), nil
}

func routeOf(sent *v1.Route) *cloudprovider.Route {
	return &cloudprovider.Route{
		Name: sent.Name, TargetNode: types.NodeName(sent.NodeName), DestinationCIDR: sent.DestinationCidr,
		EnableNodeAddresses: sent.CompareNodeAddresses, TargetNodeAddresses: addressesOf(sent.NodeAddresses),
		Blackhole: sent.Blackhole,
	}
}

// isProviderID: a cloud without a list of Nodes may name the target of a route so; no Node's name looks like it.
func (r *routes) isProviderID(target types.NodeName) bool {
	return hasPrefix(string(target), r.prefixes)
}

// leadsTo tells whether a route of the table is the one that is named. A cloud may not know the target of one that
// leads nowhere any more (AWS): its destination alone names it, and it serves no other Node.
func (r *routes) leadsTo(existing *cloudprovider.Route, route *v1.Route) bool {
	if existing.Blackhole && existing.TargetNode == "" {
		return true
	}
	if r.isProviderID(existing.TargetNode) {
		return string(existing.TargetNode) == route.ProviderId
	}
	return string(existing.TargetNode) == route.NodeName
}

func (r *routes) sent(route *cloudprovider.Route) *v1.Route {
	sent := &v1.Route{
		Name: route.Name, DestinationCidr: route.DestinationCIDR,
		Blackhole: route.Blackhole, CompareNodeAddresses: route.EnableNodeAddresses,
	}
	for _, address := range route.TargetNodeAddresses {
		if isAddress(address) {
			sent.NodeAddresses = append(sent.NodeAddresses, &v1.NodeAddress{Type: string(address.Type), Address: address.Address})
		}
	}
	if r.isProviderID(route.TargetNode) {
		sent.ProviderId = string(route.TargetNode)
	} else {
		sent.NodeName = string(route.TargetNode)
	}
	return sent
}
