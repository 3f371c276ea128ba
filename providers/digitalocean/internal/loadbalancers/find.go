// This file finds the load balancers of a Service by their tags.

package loadbalancers

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/api"
)

const (
	tagPrefix   = "outrigger:"
	readScope   = "load_balancer:read"
	tagScope    = "tag:create"
	createScope = "load_balancer:create"
	updateScope = "load_balancer:update"
	deleteScope = "load_balancer:delete"
)

// tags are those by which a load balancer is found, both given in the request that makes it.
type tags struct {
	// cluster is on every load balancer of the cluster.
	cluster string
	// service is on this Service's alone.
	service string
}

func tagsOf(ctx context.Context, service *v1.Service) (tags, error) {
	cluster, err := clusterTag(ctx)
	if err != nil {
		return tags{}, err
	}
	if !isTag(service.Uid) {
		return tags{}, provider.Errorf(provider.InvalidRequest, "the Service's UID %q cannot be a tag", service.Uid)
	}
	return tags{cluster: cluster, service: cluster + ":" + service.Uid}, nil
}

// locate returns the tags of a Service and its load balancer, nil if there is none.
func (s *LoadBalancers) locate(ctx context.Context, service *v1.Service) (tags, *godo.LoadBalancer, error) {
	tags, err := tagsOf(ctx, service)
	if err != nil {
		return tags, nil, err
	}
	balancer, err := s.find(ctx, service, tags)
	return tags, balancer, err
}

func clusterTag(ctx context.Context) (string, error) {
	uid := provider.CallOf(ctx).Cluster.UID
	if !isTag(uid) {
		return "", provider.Errorf(provider.InvalidRequest, "the cluster's UID %q cannot be a tag: without it the load "+
			"balancers of this cluster could not be distinguished from those of another", uid)
	}
	return tagPrefix + uid, nil
}

// isTag reports whether text can be a part of a tag. A colon would mix the parts up.
func isTag(text string) bool {
	return text != "" && len(text) <= 100 && !strings.ContainsFunc(text, func(char rune) bool {
		return !(char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z' || char >= '0' && char <= '9' ||
			char == '-' || char == '_')
	})
}

// hasTag reports whether a load balancer has a tag. Tags of DigitalOcean are equal whatever their case.
func hasTag(balancer *godo.LoadBalancer, tag string) bool {
	return slices.ContainsFunc(balancer.Tags, func(other string) bool { return strings.EqualFold(other, tag) })
}

// idCache remembers which load balancer has which tag, so that most lookups are one request; nothing is
// believed before the cloud has shown it again.
type idCache struct{ sync.Map }

func (c *idCache) get(tag string) string {
	id, _ := c.Load(tag)
	text, _ := id.(string)
	return text
}

// find is the Service's load balancer, nil if there is none. It is found by its tag, never by its name:
// by the id that is remembered or that the call or the Service's annotation names, where that one has the tag, else
// among all of the team.
func (s *LoadBalancers) find(ctx context.Context, service *v1.Service, tags tags) (*godo.LoadBalancer, error) {
	for _, id := range []string{s.ids.get(tags.service), provider.CallOf(ctx).Identity.GetId(), service.Annotations[IDAnnotation]} {
		balancer, err := s.tagged(ctx, id, tags.service)
		if err != nil {
			return nil, err
		}
		if balancer != nil {
			s.ids.Store(tags.service, balancer.ID)
			return balancer, nil
		}
	}
	owned, err := s.listOwned(ctx, tags.service)
	if err != nil {
		return nil, err
	}
	if len(owned) == 0 {
		s.ids.Delete(tags.service)
		return s.findUntagged(ctx, service, tags)
	}
	if len(owned) > 1 {
		provider.CallOf(ctx).Log.Warn("the Service has more than one load balancer; the oldest is used, all go with the Service",
			"tag", tags.service, "load_balancers", len(owned))
	}
	s.ids.Store(tags.service, owned[0].ID)
	return &owned[0], nil
}

// findUntagged takes over the load balancer that the annotation names, where the operator allows that.
func (s *LoadBalancers) findUntagged(ctx context.Context, service *v1.Service, tags tags) (*godo.LoadBalancer, error) {
	id := service.Annotations[IDAnnotation]
	if !isTag(id) {
		return nil, nil
	}
	balancer, err := s.get(ctx, id)
	if err != nil || balancer == nil {
		return nil, err
	}
	if slices.ContainsFunc(balancer.Tags, func(tag string) bool {
		return strings.HasPrefix(strings.ToLower(tag), tagPrefix)
	}) {
		// A manifest that was copied from another Service has it.
		provider.CallOf(ctx).Log.Warn("the annotation names the load balancer of another Service; it is not used",
			"service", service.Namespace+"/"+service.Name, "annotation", IDAnnotation, "load_balancer", balancer.ID)
		return nil, nil
	}
	if !s.Options.Adopt {
		return nil, provider.Errorf(provider.ConflictingResource, "the annotation %s names load balancer %s (%s), which has "+
			"no tag of this Service: remove the annotation, or run the provider with --adopt-load-balancers to take it over",
			IDAnnotation, balancer.ID, balancer.Name)
	}
	if err := s.tag(ctx, balancer.ID, tags); err != nil {
		return nil, err
	}
	provider.CallOf(ctx).Log.Info("load balancer taken over", "load_balancer", balancer.ID, "name", balancer.Name)
	return s.get(ctx, id)
}

// tag marks a load balancer that is there: the Service's tag last, by which it counts as ours.
func (s *LoadBalancers) tag(ctx context.Context, id string, tags tags) error {
	for _, tag := range []string{tags.cluster, tags.service} {
		if err := provider.Check(ctx); err != nil {
			return err
		}
		if _, _, err := s.API.Tags.Create(ctx, &godo.TagCreateRequest{Name: tag}); err != nil {
			return api.Explain(ctx, "create tag "+tag, tagScope, err)
		}
		_, err := s.API.Tags.TagResources(ctx, tag, &godo.TagResourcesRequest{
			Resources: []godo.Resource{{ID: id, Type: godo.LoadBalancerResourceType}},
		})
		if err != nil {
			return api.Explain(ctx, "tag load balancer "+id, tagScope, err)
		}
	}
	return nil
}

// tagged returns the load balancer with this id if it has the tag.
func (s *LoadBalancers) tagged(ctx context.Context, id, tag string) (*godo.LoadBalancer, error) {
	if !isTag(id) { // nor can it be an id
		return nil, nil
	}
	balancer, err := s.get(ctx, id)
	if err != nil || balancer == nil || !hasTag(balancer, tag) {
		return nil, err
	}
	return balancer, nil
}

// get is nil where there is none of this id.
func (s *LoadBalancers) get(ctx context.Context, id string) (*godo.LoadBalancer, error) {
	balancer, _, err := s.API.LoadBalancers.Get(ctx, id)
	if api.IsNotFound(err) {
		return nil, nil
	}
	return balancer, api.Explain(ctx, "get load balancer "+id, readScope, err)
}

// listOwned returns the load balancers with the tag, each once, the oldest first.
func (s *LoadBalancers) listOwned(ctx context.Context, tag string) ([]godo.LoadBalancer, error) {
	owned := map[string]godo.LoadBalancer{}
	_, err := api.All(ctx, s.API.LoadBalancers.List, func(balancer godo.LoadBalancer) error {
		if hasTag(&balancer, tag) {
			owned[balancer.ID] = balancer
		}
		return nil
	})
	if err != nil {
		return nil, api.Explain(ctx, "list load balancers", readScope, err)
	}
	sorted := make([]godo.LoadBalancer, 0, len(owned))
	for _, balancer := range owned {
		sorted = append(sorted, balancer)
	}
	slices.SortFunc(sorted, func(a, b godo.LoadBalancer) int {
		return cmp.Or(strings.Compare(a.Created, b.Created), strings.Compare(a.ID, b.ID))
	})
	return sorted, nil
}
