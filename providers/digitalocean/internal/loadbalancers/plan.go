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
	tags, err := tagsOf(ctx, service)
	if err != nil {
		return nil, err
	}
	owned, err := s.listOwned(ctx, tags.service)
	if err != nil {
		return nil, err
	}
	planned := func(action v1.ChangeAction, id, format string, args ...any) *v1.PlannedChange {
		return &v1.PlannedChange{
			Action: action, ResourceType: "load-balancer", ResourceId: id, Summary: fmt.Sprintf(format, args...),
		}
	}
	if targets == nil {
		var changes []*v1.PlannedChange
		for _, balancer := range owned {
			changes = append(changes, planned(v1.ChangeAction_CHANGE_ACTION_DELETE, balancer.ID,
				"load balancer %s would be deleted", balancer.Name))
		}
		return changes, nil
	}
	spec, err := specOf(service)
	if err != nil {
		return nil, err
	}
	var current *godo.LoadBalancer // a plan takes nothing over
	if len(owned) > 0 {
		current = &owned[0]
	}
	desired, err := s.request(ctx, spec, tags, targets, current)
	if err != nil {
		return nil, err
	}
	if current == nil {
		return []*v1.PlannedChange{planned(v1.ChangeAction_CHANGE_ACTION_CREATE, "",
			"load balancer %s would be made in %s with %d droplets", spec.name, desired.Region, len(desired.DropletIDs))}, nil
	}
	if differ := differences(current, desired); len(differ) > 0 {
		return []*v1.PlannedChange{planned(v1.ChangeAction_CHANGE_ACTION_UPDATE, current.ID,
			"load balancer %s would change: %s", current.Name, strings.Join(differ, ", "))}, nil
	}
	return nil, nil
}
