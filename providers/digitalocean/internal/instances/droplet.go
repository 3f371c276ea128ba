// This file translates a droplet into an instance.

package instances

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/digitalocean/godo"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// ProviderIDPrefix is what the provider IDs of droplets start with.
const ProviderIDPrefix = "digitalocean://"

// DropletID is the droplet that a provider ID names.
func DropletID(providerID string) (int, error) {
	text, ours := strings.CutPrefix(providerID, ProviderIDPrefix)
	id, err := strconv.Atoi(text)
	if !ours || err != nil || id <= 0 || strconv.Itoa(id) != text {
		return 0, provider.Errorf(provider.MalformedProviderID,
			"%q is no provider ID of a droplet: it should read %s123456", providerID, ProviderIDPrefix)
	}
	return id, nil
}

// instance is a droplet in the contract's words.
func (s *Instances) instance(droplet *godo.Droplet) *v1.Instance {
	instance := &v1.Instance{
		ProviderId:   ProviderIDPrefix + strconv.Itoa(droplet.ID),
		NodeName:     strings.ToLower(droplet.Name),
		InstanceType: droplet.SizeSlug,
		Addresses:    s.addresses(droplet),
		PowerState:   powerState(droplet.Status),
	}
	if droplet.Region != nil {
		instance.Region = droplet.Region.Slug
		if s.Options.ZoneIsRegion {
			instance.Zone = droplet.Region.Slug
		}
	}
	return instance
}

func powerState(status string) v1.PowerState {
	switch status {
	case "new":
		return v1.PowerState_POWER_STATE_PENDING
	case "active":
		return v1.PowerState_POWER_STATE_RUNNING
	case "off", "archive":
		return v1.PowerState_POWER_STATE_SHUTDOWN
	default:
		return v1.PowerState_POWER_STATE_UNSPECIFIED
	}
}

// addresses of a droplet: its name, then private and public ones of each family that is asked for, in the
// order of the families. A droplet without networks yet has none at all, which leaves the Node's alone.
func (s *Instances) addresses(droplet *godo.Droplet) []*v1.NodeAddress {
	if droplet.Networks == nil {
		return nil
	}
	var private, public []*v1.NodeAddress
	note := func(network, address string) {
		ip, err := netip.ParseAddr(address)
		if err != nil {
			return
		}
		switch network {
		case "private":
			private = append(private, &v1.NodeAddress{Type: "InternalIP", Address: ip.String()})
		case "public":
			public = append(public, &v1.NodeAddress{Type: "ExternalIP", Address: ip.String()})
		}
	}
	for _, family := range s.Options.Families {
		switch family {
		case IPv4:
			for _, network := range droplet.Networks.V4 {
				note(network.Type, network.IPAddress)
			}
		case IPv6:
			for _, network := range droplet.Networks.V6 {
				note(network.Type, network.IPAddress)
			}
		}
	}
	if len(private)+len(public) == 0 {
		return nil
	}
	addresses := []*v1.NodeAddress{{Type: "Hostname", Address: strings.ToLower(droplet.Name)}}
	return append(append(addresses, private...), public...)
}
