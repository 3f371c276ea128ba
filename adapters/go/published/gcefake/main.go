// Google's published cloud provider over the fake of its own tests, whose machines GCE_MACHINES names, separated by
// commas. It needs rights in Kubernetes (--kubeconfig): the ConfigMap kube-system/ingress-uid has the cluster's ID.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud"
	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud/meta"
	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud/mock"
	"google.golang.org/api/compute/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider-gcp/providers/gce"

	"outrigger.dev/adapters/go/serve"
)

func main() { serve.Main(newCloud) }

// faked is the cloud without its handlers of Nodes: they write into a map that only the true constructor makes.
type faked struct{ *gce.Cloud }

func (faked) SetInformers(informers.SharedInformerFactory) {}

func newCloud() (cloudprovider.Interface, error) {
	values := gce.DefaultTestClusterValues()
	values.NetworkURL = "projects/" + values.ProjectID + "/global/networks/default"
	google := gce.NewFakeGCECloud(values)
	google.AlphaFeatureGate = gce.NewAlphaFeatureGate(nil)
	api, isMock := google.Compute().(*cloud.MockGCE)
	if !isMock {
		return nil, fmt.Errorf("the fake's API is a %T", google.Compute())
	}
	api.MockAddresses.X = mock.AddressAttributes{IPCounter: 1}
	api.MockAddresses.InsertHook = mock.InsertAddressHook
	api.MockFirewalls.PatchHook = mock.UpdateFirewallHook
	api.MockForwardingRules.InsertHook = mock.InsertFwdRuleHook
	api.MockTargetPools.AddInstanceHook = mock.AddInstanceHook
	api.MockTargetPools.RemoveInstanceHook = mock.RemoveInstanceHook
	for index, name := range strings.Split(os.Getenv("GCE_MACHINES"), ",") {
		machine := &compute.Instance{
			Name: name, Zone: values.ZoneName, MachineType: "zones/" + values.ZoneName + "/machineTypes/e2-standard-2",
			Tags:              &compute.Tags{Items: []string{name}},
			NetworkInterfaces: []*compute.NetworkInterface{{NetworkIP: fmt.Sprintf("10.128.0.%d", index+2)}},
		}
		if err := api.Instances().Insert(context.Background(), meta.ZonalKey(name, values.ZoneName), machine); err != nil {
			return nil, err
		}
	}
	return faked{google}, nil
}
