package main

import (
	"context"
	"regexp"
	"strings"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

const scheme = "my-cloud://"

type machine struct {
	address string
	running bool
}

// cloud is three machines. Replace it by a client of yours.
type cloud map[string]machine

var machines = cloud{
	"node-1": {"10.0.0.1", true},
	"node-2": {"10.0.0.2", true},
	"node-3": {"10.0.0.3", false},
}

var legalID = regexp.MustCompile(`^[a-z0-9-]+$`)

// GetInstances answers a batch. An error of the whole is that of each node, and changes none.
func (c cloud) GetInstances(ctx context.Context, nodes []*v1.Node, _ provider.Query) (provider.Lookups, error) {
	return provider.Each(ctx, 8, nodes, c.lookup)
}

func (c cloud) lookup(_ context.Context, node *v1.Node) (provider.Lookup, error) {
	name := node.Name
	if node.ProviderId != "" {
		id, ours := strings.CutPrefix(node.ProviderId, scheme)
		switch {
		case !ours:
			return provider.NotManaged(node.ProviderId + " is another cloud's"), nil
		case !legalID.MatchString(id):
			return provider.Lookup{}, provider.Errorf(provider.MalformedProviderID, "%s is no ID of this cloud", node.ProviderId)
		}
		name = id
	}
	machine, exists := c[name]
	if !exists {
		// The controller may delete the Node: the cloud was asked during this call, and showed everything.
		return provider.Absent(), nil
	}
	power := v1.PowerState_POWER_STATE_SHUTDOWN
	if machine.running {
		power = v1.PowerState_POWER_STATE_RUNNING
	}
	return provider.Found(&v1.Instance{
		ProviderId: scheme + name,
		PowerState: power,
		Addresses:  []*v1.NodeAddress{{Type: "InternalIP", Address: machine.address}},
	}), nil
}
