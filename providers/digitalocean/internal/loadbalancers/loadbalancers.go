// Package loadbalancers makes the load balancers of Services.
package loadbalancers

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/api"
)

// Times after which the controller asks again.
const (
	activeAfter  = 10 * time.Second
	deletedAfter = 5 * time.Second
)

// States of a load balancer.
const (
	statusNew     = "new"
	statusErrored = "errored"
)

// Options of the load balancers.
type Options struct {
	// Region and VPC that new load balancers are made in; an empty VPC is the region's default.
	Region, VPC string
	// DefaultType of new load balancers that no annotation names the type of.
	DefaultType string
	// Adopt takes over the load balancers that annotations name and that have no tag of a Service.
	Adopt bool
}

// LoadBalancers makes one load balancer for each Service, found by its tags.
type LoadBalancers struct {
	API     *api.Client
	Options Options

	ids idCache
}

var (
	_ provider.LoadBalancerLister  = (*LoadBalancers)(nil)
	_ provider.LoadBalancerPlanner = (*LoadBalancers)(nil)
)

// GetLoadBalancer compares the load balancer with the Service.
func (s *LoadBalancers) GetLoadBalancer(ctx context.Context, service *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	if disowned(service) {
		return provider.LoadBalancerNotManaged(), nil
	}
	tags, current, err := s.locate(ctx, service)
	if err != nil {
		return nil, err
	}
	if current == nil {
		return provider.LoadBalancerAbsent(), nil
	}
	if current.Status == statusNew {
		return identified(provider.LoadBalancerInProgress(activeAfter), current), nil
	}
	spec, err := specOf(service)
	if err != nil {
		return nil, err
	}
	desired, err := s.request(ctx, spec, tags, targets, current)
	if err != nil {
		return nil, err
	}
	changes := differences(current, desired)
	if current.Status == statusErrored {
		changes = append(changes, "status errored")
	}
	if len(changes) > 0 {
		return identified(provider.LoadBalancerDiffers(strings.Join(changes, ", ")), current), nil
	}
	return identified(provider.LoadBalancerReady(ingress(spec, current)...), current), nil
}

// EnsureLoadBalancer makes the load balancer, or changes it where it differs.
func (s *LoadBalancers) EnsureLoadBalancer(ctx context.Context, service *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	if disowned(service) {
		return provider.LoadBalancerNotManaged(), nil
	}
	spec, err := specOf(service)
	if err != nil {
		return nil, err
	}
	tags, current, err := s.locate(ctx, service)
	if err != nil {
		return nil, err
	}
	desired, err := s.request(ctx, spec, tags, targets, current)
	if err != nil {
		return nil, err
	}
	if current == nil {
		current, err = s.create(ctx, service, desired, tags)
	} else {
		current, err = s.change(ctx, current, desired)
	}
	if err != nil {
		return nil, err
	}
	return ensured(spec, current)
}

func ensured(spec *spec, current *godo.LoadBalancer) (*v1.LoadBalancerAnswer, error) {
	addresses := ingress(spec, current)
	switch {
	case current.Status == statusErrored:
		return nil, provider.Errorf(provider.CloudError,
			"load balancer %s (%s) has the status errored: look into DigitalOcean's control panel", current.ID, current.Name)
	case current.Status == statusNew || len(addresses) == 0:
		return withEffects(identified(provider.LoadBalancerInProgress(activeAfter), current), spec), nil
	default:
		return withEffects(identified(provider.LoadBalancerReady(addresses...), current), spec), nil
	}
}

func (s *LoadBalancers) create(ctx context.Context, service *v1.Service, desired *godo.LoadBalancerRequest, tags tags) (*godo.LoadBalancer, error) {
	desired.Tags = []string{tags.cluster, tags.service}
	if err := provider.Check(ctx); err != nil {
		return nil, err
	}
	created, _, err := s.API.LoadBalancers.Create(ctx, desired)
	if api.IsNameTaken(err) {
		return s.nameTaken(ctx, desired.Name, tags)
	}
	if err != nil {
		return nil, api.Explain(ctx, "create load balancer "+desired.Name, createScope, err)
	}
	s.ids.Store(tags.service, created.ID)
	provider.CallOf(ctx).Log.Info("load balancer created", "service", service.Namespace+"/"+service.Name,
		"load_balancer", created.ID, "name", created.Name)
	return created, nil
}

// nameTaken tells our own load balancer, made by a request of which the answer was lost or by another
// process of this provider, from a foreign one.
func (s *LoadBalancers) nameTaken(ctx context.Context, name string, tags tags) (*godo.LoadBalancer, error) {
	owned, err := s.listOwned(ctx, tags.service)
	if err != nil {
		return nil, err
	}
	if len(owned) == 0 {
		return nil, provider.Errorf(provider.ConflictingResource, "a load balancer named %q is there already, without the "+
			"tag %s: rename or remove it, or choose another name with %sname", name, tags.service, AnnotationPrefix)
	}
	s.ids.Store(tags.service, owned[0].ID)
	return nil, provider.Errorf(provider.OperationInProgress, "load balancer %s was just made by another request",
		owned[0].ID).WithRetryAfter(deletedAfter)
}

// change makes the load balancer as desired, where it differs.
func (s *LoadBalancers) change(ctx context.Context, current *godo.LoadBalancer, desired *godo.LoadBalancerRequest) (*godo.LoadBalancer, error) {
	changes := differences(current, desired)
	if len(changes) == 0 {
		return current, nil
	}
	if err := provider.Check(ctx); err != nil {
		return nil, err
	}
	changed, _, err := s.API.LoadBalancers.Update(ctx, current.ID, desired)
	if err != nil {
		return nil, api.Explain(ctx, "update load balancer "+current.ID, updateScope, err)
	}
	provider.CallOf(ctx).Log.Info("load balancer changed", "load_balancer", current.ID, "changed", strings.Join(changes, ", "))
	return changed, nil
}

// UpdateLoadBalancerNodes sends the load balancer as it is with other droplets.
func (s *LoadBalancers) UpdateLoadBalancerNodes(ctx context.Context, service *v1.Service, targets *provider.Targets) (*v1.LoadBalancerAnswer, error) {
	if disowned(service) {
		return provider.LoadBalancerNotManaged(), nil
	}
	tags, current, err := s.locate(ctx, service)
	if err != nil {
		return nil, err
	}
	if current == nil {
		return provider.LoadBalancerAbsent(), nil
	}
	desired := current.AsRequest()
	if desired.SizeUnit > 0 {
		desired.SizeSlug = "" // the API returns both and takes one
	}
	setDroplets(desired, droplets(ctx, targets), tags)
	if current, err = s.change(ctx, current, desired); err != nil {
		return nil, err
	}
	return identified(provider.LoadBalancerUpdated(), current), nil
}

// DeleteLoadBalancer removes every load balancer with the Service's tag, then the tag.
func (s *LoadBalancers) DeleteLoadBalancer(ctx context.Context, service *v1.Service) (*v1.LoadBalancerAnswer, error) {
	if disowned(service) {
		return provider.LoadBalancerRetained(), nil
	}
	tags, err := tagsOf(ctx, service)
	if err != nil {
		return nil, err
	}
	owned, err := s.ownedWithYoung(ctx, service, tags)
	if err != nil {
		return nil, err
	}
	for _, balancer := range owned {
		gone, err := s.remove(ctx, balancer.ID)
		if err != nil {
			return nil, err
		}
		if !gone {
			return identified(provider.LoadBalancerInProgress(deletedAfter), &balancer), nil
		}
	}
	s.ids.Delete(tags.service)
	if err := provider.Check(ctx); err != nil {
		return nil, err
	}
	if _, err := s.API.Tags.Delete(ctx, tags.service); err != nil && !api.IsNotFound(err) {
		return nil, api.Explain(ctx, "delete tag "+tags.service, "tag:delete", err)
	}
	return provider.LoadBalancerAbsent(), nil
}

// ownedWithYoung has also the one that a list may not show yet.
func (s *LoadBalancers) ownedWithYoung(ctx context.Context, service *v1.Service, tags tags) ([]godo.LoadBalancer, error) {
	owned, err := s.listOwned(ctx, tags.service)
	if err != nil || len(owned) > 0 {
		return owned, err
	}
	id := cmp.Or(s.ids.get(tags.service), provider.CallOf(ctx).Identity.GetId())
	if id == "" && !s.Options.Adopt {
		id = service.Annotations[IDAnnotation]
	}
	balancer, err := s.tagged(ctx, id, tags.service)
	if err != nil {
		return nil, err
	}
	if balancer != nil {
		return []godo.LoadBalancer{*balancer}, nil
	}
	if !s.Options.Adopt {
		return nil, nil
	}
	if balancer, err = s.find(ctx, service, tags); err != nil || balancer == nil {
		return nil, err
	}
	return []godo.LoadBalancer{*balancer}, nil
}

// remove tells whether the load balancer is gone.
func (s *LoadBalancers) remove(ctx context.Context, id string) (gone bool, err error) {
	if err := provider.Check(ctx); err != nil {
		return false, err
	}
	_, err = s.API.LoadBalancers.Delete(ctx, id)
	if api.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, api.Explain(ctx, "delete load balancer "+id, deleteScope, err)
	}
	provider.CallOf(ctx).Log.Info("load balancer deleted", "load_balancer", id)
	left, err := s.get(ctx, id)
	return left == nil, err
}

// ListLoadBalancers hands everything with the cluster's tag to send.
func (s *LoadBalancers) ListLoadBalancers(ctx context.Context, send func(*v1.OwnedLoadBalancer) error) error {
	cluster, err := clusterTag(ctx)
	if err != nil {
		return err
	}
	owned, err := s.listOwned(ctx, cluster)
	if err != nil {
		return err
	}
	for _, balancer := range owned {
		item := &v1.OwnedLoadBalancer{
			Identity: &v1.LoadBalancerIdentity{Id: balancer.ID, Name: balancer.Name},
			Status:   &v1.LoadBalancerStatus{Ingress: ingress(&spec{}, &balancer)},
		}
		for _, tag := range balancer.Tags {
			if uid, ours := strings.CutPrefix(strings.ToLower(tag), strings.ToLower(cluster)+":"); ours {
				item.Service = &v1.ServiceRef{Uid: uid}
			}
		}
		if err := send(item); err != nil {
			return err
		}
	}
	return nil
}

func disowned(service *v1.Service) bool {
	return strings.EqualFold(strings.TrimSpace(service.Annotations[DisownAnnotation]), "true")
}

func identified(answer *v1.LoadBalancerAnswer, balancer *godo.LoadBalancer) *v1.LoadBalancerAnswer {
	answer.Identity = &v1.LoadBalancerIdentity{Id: balancer.ID, Name: balancer.Name}
	return answer
}

// withEffects notes the id on the Service, as DigitalOcean's own controller does, and names annotations
// that mean nothing, which may be misspelt.
func withEffects(answer *v1.LoadBalancerAnswer, spec *spec) *v1.LoadBalancerAnswer {
	answer.Effects = &v1.KubernetesEffects{SetAnnotations: map[string]string{IDAnnotation: answer.Identity.Id}}
	if len(spec.unknown) > 0 {
		answer.Effects.Events = []*v1.KubernetesEvent{{
			Type: "Warning", Reason: "UnknownAnnotation",
			Message: "This provider does not read " + strings.Join(spec.unknown, ", "),
		}}
	}
	return answer
}
