// Package instances looks up droplets, the machines behind Nodes.
package instances

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/api"
)

// Families of addresses.
const (
	IPv4 = "ipv4"
	IPv6 = "ipv6"
)

// parallel is how many droplets are asked for by themselves at a time.
const parallel = 4

const (
	readScope   = "droplet:read"
	listDroplet = "list droplets"
)

// Options of the instances.
type Options struct {
	// Families of the addresses that Nodes get, in their order.
	Families []string
	// ZoneIsRegion fills the zone with the region: DigitalOcean has no zones.
	ZoneIsRegion bool
}

// Instances looks up droplets: a few by themselves, many by lists of 200.
type Instances struct {
	API     *api.Client
	Options Options

	// total is how many droplets the last list had.
	total atomic.Int64
}

var _ provider.InstanceLister = (*Instances)(nil)

// GetInstances asks the cloud each time and caches nothing. A droplet counts as absent only when the
// API has answered 404 to its id, or shows no droplet of that name, alone and in a whole list.
func (s *Instances) GetInstances(ctx context.Context, nodes []*v1.Node, _ provider.Query) (provider.Lookups, error) {
	pages := 1 + int(s.total.Load())/api.PageSize
	if len(nodes) <= pages {
		return provider.Each(ctx, parallel, nodes, func(ctx context.Context, node *v1.Node) (provider.Lookup, error) {
			return s.lookup(ctx, node, nil)
		})
	}
	inventory, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	return provider.Each(ctx, parallel, nodes, func(ctx context.Context, node *v1.Node) (provider.Lookup, error) {
		return s.lookup(ctx, node, inventory)
	})
}

// ListInstances hands every droplet of the team to send, in the state of when its page was read.
func (s *Instances) ListInstances(ctx context.Context, _ provider.Query, send func(*v1.Instance) error) error {
	inventory, err := s.list(ctx)
	if err != nil {
		return err
	}
	for _, droplet := range inventory.byID {
		if err := send(s.instance(droplet)); err != nil {
			return err
		}
	}
	return nil
}

// inventory is one list of all droplets.
type inventory struct {
	byID   map[int]*godo.Droplet
	byName map[string][]*godo.Droplet
}

func (s *Instances) list(ctx context.Context) (*inventory, error) {
	inventory := &inventory{byID: map[int]*godo.Droplet{}, byName: map[string][]*godo.Droplet{}}
	total, err := api.All(ctx, s.API.Droplets.List, func(droplet godo.Droplet) error {
		if _, twice := inventory.byID[droplet.ID]; !twice {
			name := strings.ToLower(droplet.Name)
			inventory.byName[name] = append(inventory.byName[name], &droplet)
		}
		inventory.byID[droplet.ID] = &droplet
		return nil
	})
	if err != nil {
		return nil, api.Explain(ctx, listDroplet, readScope, err)
	}
	s.total.Store(int64(total))
	return inventory, nil
}

// lookup answers about one Node, from listed where that has it.
func (s *Instances) lookup(ctx context.Context, node *v1.Node, inventory *inventory) (provider.Lookup, error) {
	if node.ProviderId == "" {
		return s.lookupName(ctx, node.Name, inventory)
	}
	if !strings.HasPrefix(node.ProviderId, ProviderIDPrefix) {
		return provider.NotManaged("its provider ID is another cloud's"), nil
	}
	id, err := DropletID(node.ProviderId)
	if err != nil {
		return provider.Lookup{}, err
	}
	if inventory != nil && inventory.byID[id] != nil {
		return provider.Found(s.instance(inventory.byID[id])), nil
	}
	droplet, _, err := s.API.Droplets.Get(ctx, id)
	switch {
	case api.IsNotFound(err):
		return provider.Absent(), nil
	case err != nil:
		return provider.Lookup{}, api.Explain(ctx, fmt.Sprintf("get droplet %d", id), readScope, err)
	case droplet == nil || droplet.ID != id:
		return provider.Lookup{}, provider.Errorf(provider.CloudError,
			"cannot get droplet %d: the API answered with another one", id)
	}
	return provider.Found(s.instance(droplet)), nil
}

// lookupName finds the droplet of a Node that has no provider ID yet. Names of droplets are not unique
// and may have capitals, which names of Nodes have not.
func (s *Instances) lookupName(ctx context.Context, name string, inventory *inventory) (provider.Lookup, error) {
	named := map[int]*godo.Droplet{}
	if inventory == nil {
		if err := s.listNamed(ctx, name, named); err != nil {
			return provider.Lookup{}, err
		}
		if len(named) == 0 {
			var err error
			if inventory, err = s.list(ctx); err != nil {
				return provider.Lookup{}, err
			}
		}
	} else if len(inventory.byName[name]) == 0 {
		if err := s.listNamed(ctx, name, named); err != nil {
			return provider.Lookup{}, err
		}
	}
	if inventory != nil {
		for _, droplet := range inventory.byName[name] {
			named[droplet.ID] = droplet
		}
	}
	if len(named) > 1 {
		return provider.Lookup{}, provider.Errorf(provider.ConflictingResource,
			"%d droplets are named %q: rename all but the Node's", len(named), name)
	}
	for _, droplet := range named {
		return provider.Found(s.instance(droplet)), nil
	}
	return provider.Absent(), nil
}

func (s *Instances) listNamed(ctx context.Context, name string, named map[int]*godo.Droplet) error {
	_, err := api.All(ctx, func(ctx context.Context, page *godo.ListOptions) ([]godo.Droplet, *godo.Response, error) {
		return s.API.Droplets.ListByName(ctx, name, page)
	}, func(droplet godo.Droplet) error {
		if strings.EqualFold(droplet.Name, name) {
			named[droplet.ID] = &droplet
		}
		return nil
	})
	return api.Explain(ctx, listDroplet, readScope, err)
}
