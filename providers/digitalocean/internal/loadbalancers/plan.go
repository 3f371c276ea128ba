// This file plans the requests of an Ensure or a Delete.

package loadbalancers

import (
	"context"
	"fmt"
	"strings"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// PlanLoadBalancer lists the requests that an Ensure, or without targets a Delete, would make.
func (s *LoadBalancers) PlanLoadBalancer(ctx context.Context, service *v1.Service, targets *provider.Targets) ([]*v1.PlannedChange, error) {
	if disowned(service) {
		return nil, nil
	}
	of, err := keyOf(ctx, service)
	if err != nil {
		return nil, err
	}
	planned := func(action v1.ChangeAction, id, format string, args ...any) *v1.PlannedChange {
		return &v1.PlannedChange{
			Action: action, ResourceType: "load-balancer", ResourceId: id, Summary: fmt.Sprintf(format, args...),
		}
	}
	if targets == nil {
		owned, err := s.listOwned(ctx, of.service)
		var changes []*v1.PlannedChange
		for _, balancer := range owned {
			changes = append(changes, planned(v1.ChangeAction_CHANGE_ACTION_DELETE, balancer.ID,
				"load balancer %s would be deleted", balancer.Name))
		}
		return changes, err
	}
	w, err := wishOf(service)
	if err != nil {
		return nil, err
	}
	current, err := s.plannedFrom(ctx, of)
	if err != nil {
		return nil, err
	}
	desired, err := s.request(ctx, w, of, targets, current)
	if err != nil {
		return nil, err
	}
	if current == nil {
		return []*v1.PlannedChange{planned(v1.ChangeAction_CHANGE_ACTION_CREATE, "",
			"load balancer %s would be made in %s with %d droplets", w.name, desired.Region, len(desired.DropletIDs))}, nil
	}
	if differ := differences(current, desired); len(differ) > 0 {
		return []*v1.PlannedChange{planned(v1.ChangeAction_CHANGE_ACTION_UPDATE, current.ID,
			"load balancer %s would change: %s", current.Name, strings.Join(differ, ", "))}, nil
	}
	return nil, nil
}

// plannedFrom is what is there, without taking anything over.
func (s *LoadBalancers) plannedFrom(ctx context.Context, of key) (*godo.LoadBalancer, error) {
	owned, err := s.listOwned(ctx, of.service)
	if err != nil || len(owned) == 0 {
		return nil, err
	}
	return &owned[0], nil
}
