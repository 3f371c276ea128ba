// This test fails when upstream's interfaces grow.

package serve

import (
	"reflect"
	"slices"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
)

// Upstream's interfaces grow. A method or field that is not listed here is one that nothing calls or
// carries: add it to the adapter, or to the list of what is lost in README.md.
func TestUpstreamHasNoMethodThatTheAdapterDoesNotKnow(t *testing.T) {
	for _, test := range []struct {
		kind  reflect.Type
		names []string
	}{
		{reflect.TypeFor[cloudprovider.Interface](), []string{
			"Clusters", "HasClusterID", "Initialize", "Instances", "InstancesV2", "LoadBalancer", "ProviderName",
			"Routes", "Zones",
		}},
		{reflect.TypeFor[cloudprovider.InformerUser](), []string{"SetInformers"}},
		{reflect.TypeFor[cloudprovider.ControllerClientBuilder](), []string{
			"Client", "ClientOrDie", "Config", "ConfigOrDie",
		}},
		{reflect.TypeFor[cloudprovider.LoadBalancer](), []string{
			"EnsureLoadBalancer", "EnsureLoadBalancerDeleted", "GetLoadBalancer", "GetLoadBalancerName",
			"UpdateLoadBalancer",
		}},
		{reflect.TypeFor[cloudprovider.InstancesV2](), []string{
			"InstanceExists", "InstanceMetadata", "InstanceShutdown",
		}},
		{reflect.TypeFor[cloudprovider.Instances](), []string{
			"AddSSHKeyToAllInstances", "CurrentNodeName", "InstanceExistsByProviderID", "InstanceID",
			"InstanceShutdownByProviderID", "InstanceType", "InstanceTypeByProviderID", "NodeAddresses",
			"NodeAddressesByProviderID",
		}},
		{reflect.TypeFor[cloudprovider.Zones](), []string{"GetZone", "GetZoneByNodeName", "GetZoneByProviderID"}},
		{reflect.TypeFor[cloudprovider.Routes](), []string{"CreateRoute", "DeleteRoute", "ListRoutes"}},
		{reflect.TypeFor[cloudprovider.PVLabeler](), []string{"GetLabelsForVolume"}},
		{reflect.TypeFor[cloudprovider.InstanceMetadata](), []string{
			"AdditionalLabels", "InstanceType", "NodeAddresses", "ProviderID", "Region", "Zone",
		}},
		{reflect.TypeFor[cloudprovider.Route](), []string{
			"Blackhole", "DestinationCIDR", "EnableNodeAddresses", "Name", "TargetNode", "TargetNodeAddresses",
		}},
		{reflect.TypeFor[cloudprovider.Zone](), []string{"FailureDomain", "Region"}},
	} {
		var names []string
		if test.kind.Kind() == reflect.Interface {
			for method := range test.kind.Methods() {
				names = append(names, method.Name)
			}
		} else {
			for field := range test.kind.Fields() {
				names = append(names, field.Name)
			}
		}
		for _, name := range names {
			if !slices.Contains(test.names, name) { // the oldest upstream that the adapter works with has fewer
				t.Errorf("%v has %s, which the adapter does not know", test.kind, name)
			}
		}
	}
}
