// These tests look up instances of both of upstream's interfaces.

package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// machine answers about any node.
type machine struct {
	exists, shutdown              bool
	existsErr, shutdownErr, mdErr error
	metadata                      *cloudprovider.InstanceMetadata
	node                          *corev1.Node
}

func (m *machine) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	m.node = node
	return m.exists, m.existsErr
}

func (m *machine) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return m.shutdown, m.shutdownErr
}

func (m *machine) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m.node = node
	return m.metadata, m.mdErr
}

func TestLookupsOfInstancesV2(t *testing.T) {
	metadata := &cloudprovider.InstanceMetadata{
		ProviderID: "test://1", InstanceType: "big", Zone: "z", Region: "r", AdditionalLabels: map[string]string{"a": "b"},
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}
	state, all := v1.InstanceView_INSTANCE_VIEW_STATE, v1.InstanceView_INSTANCE_VIEW_METADATA
	for name, test := range map[string]struct {
		machine   machine
		view      v1.InstanceView
		staleness time.Duration
		is        func(*v1.InstanceResult) bool
	}{
		"metadata": {machine{metadata: metadata}, all, 0, func(r *v1.InstanceResult) bool {
			got := r.GetFound()
			return got.GetProviderId() == "test://1" && got.InstanceType == "big" && got.Zone == "z" && got.Region == "r" &&
				got.Addresses[0].Address == "10.0.0.1" && got.AdditionalLabels["a"] == "b"
		}},
		"no metadata": {machine{}, all, 0, func(r *v1.InstanceResult) bool {
			return reasonIn(t, r.GetError()) == "CLOUD_ERROR"
		}},
		"neither found nor there": {machine{mdErr: cloudprovider.InstanceNotFound}, all, 0, func(r *v1.InstanceResult) bool {
			return r.GetAbsent().GetCertainty() == v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED
		}},
		"there, but not found": {machine{exists: true, mdErr: fmt.Errorf("a: %w", cloudprovider.InstanceNotFound)}, all, 0, func(r *v1.InstanceResult) bool {
			return r.GetAbsent().GetCertainty() == v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET
		}},
		"not found, then refused": {machine{mdErr: cloudprovider.InstanceNotFound, existsErr: &refusal{401}}, all, 0,
			func(r *v1.InstanceResult) bool { return reasonIn(t, r.GetError()) == "CREDENTIALS_INVALID" }},
		"not found twice": {machine{mdErr: cloudprovider.InstanceNotFound, existsErr: cloudprovider.InstanceNotFound}, all, 0,
			func(r *v1.InstanceResult) bool {
				return r.GetAbsent().GetCertainty() == v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET
			}},
		"foreign id": {machine{metadata: &cloudprovider.InstanceMetadata{ProviderID: "other://1"}}, all, 0, func(r *v1.InstanceResult) bool {
			return strings.Contains(r.GetError().GetMessage(), "ProviderIDPrefixes")
		}},
		"running": {machine{exists: true}, state, 0, func(r *v1.InstanceResult) bool {
			return r.GetFound().GetPowerState() == v1.PowerState_POWER_STATE_RUNNING && r.GetFound().ProviderId == "test://node"
		}},
		"shut down": {machine{exists: true, shutdown: true}, state, 0, func(r *v1.InstanceResult) bool {
			return r.GetFound().GetPowerState() == v1.PowerState_POWER_STATE_SHUTDOWN
		}},
		"no power state": {machine{exists: true, shutdownErr: fmt.Errorf("a: %w", cloudprovider.NotImplemented)}, state, 0, func(r *v1.InstanceResult) bool {
			return r.GetFound() != nil && r.GetFound().PowerState == v1.PowerState_POWER_STATE_UNSPECIFIED
		}},
		"gone": {machine{}, state, 0, func(r *v1.InstanceResult) bool {
			return r.GetAbsent().GetCertainty() == v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED
		}},
		"gone, but perhaps in a cache": {machine{}, state, time.Minute, func(r *v1.InstanceResult) bool {
			return r.GetAbsent().GetCertainty() == v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET
		}},
		"not found is no answer": {machine{existsErr: cloudprovider.InstanceNotFound}, state, 0, func(r *v1.InstanceResult) bool {
			return reasonIn(t, r.GetError()) == "CLOUD_ERROR"
		}},
		"not implemented": {machine{existsErr: cloudprovider.NotImplemented}, state, 0, func(r *v1.InstanceResult) bool {
			return reasonIn(t, r.GetError()) == "CLOUD_ERROR" // tried again, as by upstream
		}},
	} {
		client, _ := serving(t, Options{}, &cloud{machines: &test.machine})
		request := &v1.BatchGetInstancesRequest{
			Context: attempt(), View: test.view, Items: []*v1.Node{{Name: "node", ProviderId: "test://node", SystemUuid: "s"}},
		}
		if test.staleness > 0 {
			request.MaxStaleness = durationpb.New(test.staleness)
		}
		response, err := v1.NewInstancesServiceClient(client).BatchGetInstances(t.Context(), request)
		if err != nil || len(response.Results) != 1 || !test.is(response.Results[0]) {
			t.Errorf("%s: %v %v", name, response, err)
		}
		if node := test.machine.node; node == nil || node.Status.NodeInfo.SystemUUID != "s" || node.Spec.ProviderID != "test://node" {
			t.Errorf("%s: asked about %v", name, node)
		}
	}
}

// Upstream writes any text as an address. The API server and the controller take addresses.
func TestInvalidAddressesAreLeftOut(t *testing.T) {
	lines := logged(t)
	client, _ := serving(t, Options{}, &cloud{machines: &machine{exists: true, metadata: &cloudprovider.InstanceMetadata{
		ProviderID: "test://1",
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: ""},
			{Type: corev1.NodeExternalIP, Address: "a.example.com"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"},
			{Type: corev1.NodeHostName, Address: "My Server"}, {Type: corev1.NodeHostName, Address: "My_Server-1"},
			{Type: corev1.NodeHostName, Address: "10.0.0.1"}, {Type: corev1.NodeInternalDNS, Address: "a.example.com."},
			{Type: corev1.NodeInternalIP, Address: "fe80::1%eth0"}, {Type: corev1.NodeExternalDNS, Address: "-a"},
			{Type: "Other", Address: "x:/y"}, {Type: "Other", Address: "x y"}, {Type: "", Address: "10.0.0.1"},
		},
	}}})
	instances := v1.NewInstancesServiceClient(client)
	for range 2 {
		got := lookUp(t, instances, &v1.Node{Name: "node"}).Results[0].GetFound()
		var sent []string
		for _, address := range got.GetAddresses() {
			sent = append(sent, address.Type+" "+address.Address)
		}
		want := []string{
			"InternalIP 10.0.0.1", "InternalIP fd00::1", "Hostname My_Server-1", "Hostname 10.0.0.1", "InternalDNS a.example.com.",
			"Other x:/y",
		}
		if !slices.Equal(sent, want) {
			t.Error(sent)
		}
	}
	// One line, not one for each lookup.
	if text := lines(); strings.Count(text, "My Server") != 1 || !strings.Contains(text, `"node":"node"`) {
		t.Error(text)
	}
}

// stuck never answers about one node, whatever its context says.
type stuck struct {
	about string
	free  chan struct{}
	begun atomic.Int32
}

func (*stuck) InstanceExists(context.Context, *corev1.Node) (bool, error) { return true, nil }

func (*stuck) InstanceShutdown(context.Context, *corev1.Node) (bool, error) { return false, nil }

func (s *stuck) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if node.Name == s.about {
		s.begun.Add(1)
		<-s.free
	}
	return &cloudprovider.InstanceMetadata{ProviderID: "test://" + node.Name}, nil
}

// A client without a timeout may never return. Its Node is asked about again and again; that must not fill the
// room of the others.
func TestALookupThatHangsTakesNoRoomFromOthers(t *testing.T) {
	cloudOf := &stuck{about: "hangs", free: make(chan struct{})}
	defer close(cloudOf.free)
	client, _ := serving(t, Options{InstanceConcurrency: 2}, &cloud{machines: cloudOf})
	instances := v1.NewInstancesServiceClient(client)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		response, err := instances.BatchGetInstances(ctx, &v1.BatchGetInstancesRequest{
			Context: attempt(), Items: []*v1.Node{{Name: "hangs"}, {Name: "other"}},
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range response.Results {
			if (result.GetFound() != nil) != (result.Key == "other") {
				t.Error(result)
			}
		}
	}
	if begun := cloudOf.begun.Load(); begun != 1 {
		t.Errorf("%d lookups of one node hang", begun)
	}
}

func instancesOver(memory *memory, machines cloudprovider.InstancesV2) *instances {
	made, _ := newInstances(Options{InstanceConcurrency: 1, WithoutProviderID: true}, &cloud{machines: machines}, memory, newOutcomes(nil))
	return made
}

// A sweep asks about a Node while the loop of its lifecycle does. Only a lookup that outlives its caller hangs.
func TestALookupWaitsForAnEarlierOneOfItsNodeUnlessThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookups := instancesOver(newMemory(), &machine{})
		first, gone := context.WithCancel(t.Context())
		end, err := lookups.enter(first, "a")
		if err != nil {
			t.Fatal(err)
		}
		waits := true
		go func() {
			leave, err := lookups.enter(t.Context(), "a")
			if waits || err != nil {
				t.Error("it has not waited", err)
				return
			}
			leave()
		}()
		synctest.Wait()
		waits = false
		end()
		synctest.Wait()
		if end, err = lookups.enter(first, "a"); err != nil {
			t.Fatal(err)
		}
		gone()
		if _, err := lookups.enter(t.Context(), "a"); err != errNotReturned {
			t.Error(err)
		}
		end()
	})
}

func TestEffectsOfALookupThatEndsAfterItsAnswerGoWithTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, finish := newMemory(), make(chan struct{})
		end := sync.OnceFunc(func() { close(finish) })
		lookups := instancesOver(memory, &lookingMachine{machine{metadata: &cloudprovider.InstanceMetadata{}}, sync.OnceFunc(func() {
			<-finish
			patch := []byte(`{"metadata":{"annotations":{"node.vendor.example/rack":"7"}}}`)
			if err := memory.change(nodePath("a"), nil, write{patch: types.MergePatchType, body: patch}, declared); err != nil {
				t.Error(err)
			}
		})})
		for _, isWritten := range []bool{false, true, false} {
			ctx, leave := context.WithTimeout(t.Context(), time.Minute)
			got, err := lookups.GetInstances(ctx, []*v1.Node{{Name: "a"}}, provider.Query{View: v1.InstanceView_INSTANCE_VIEW_METADATA})
			leave()
			if err != nil || (got["a"].Effects != nil) != isWritten {
				t.Error(got, err)
			}
			end()
			synctest.Wait()
		}
	})
}

// gone is the ID of a machine in whose place another one has its name.
const gone = "test://gone"

// oldCloud has Instances and Zones v1: it knows one machine by name, and by ID only its type.
type oldCloud struct{ cloudprovider.Zones }

func (oldCloud) NodeAddresses(context.Context, types.NodeName) ([]corev1.NodeAddress, error) {
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}, nil
}

func (oldCloud) NodeAddressesByProviderID(_ context.Context, id string) ([]corev1.NodeAddress, error) {
	if id == gone {
		return nil, cloudprovider.InstanceNotFound
	}
	return nil, cloudprovider.NotImplemented
}

func (oldCloud) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	if name != "known" {
		return "", cloudprovider.InstanceNotFound
	}
	return "i-1", nil
}

func (oldCloud) InstanceType(context.Context, types.NodeName) (string, error) {
	return "", errors.New("not asked")
}

func (oldCloud) InstanceTypeByProviderID(_ context.Context, id string) (string, error) {
	return id, nil
}

func (oldCloud) AddSSHKeyToAllInstances(context.Context, string, []byte) error { return nil }

func (oldCloud) CurrentNodeName(context.Context, string) (types.NodeName, error) { return "", nil }

func (oldCloud) InstanceExistsByProviderID(_ context.Context, id string) (bool, error) {
	return id != gone, nil
}

func (oldCloud) InstanceShutdownByProviderID(context.Context, string) (bool, error) {
	return false, nil
}

func (oldCloud) GetZoneByProviderID(context.Context, string) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, errors.New("no zones by id")
}

func (oldCloud) GetZoneByNodeName(context.Context, types.NodeName) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{FailureDomain: "z", Region: "r"}, nil
}

func TestInstancesAndZonesAreFoldedIn(t *testing.T) {
	client, _ := serving(t, Options{}, &cloud{old: oldCloud{}, zones: oldCloud{}})
	ask := func(view v1.InstanceView) map[string]*v1.InstanceResult {
		response, err := v1.NewInstancesServiceClient(client).BatchGetInstances(t.Context(), &v1.BatchGetInstancesRequest{
			Context: attempt(), View: view, Items: []*v1.Node{{Name: "known"}, {Name: "gone"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		results := map[string]*v1.InstanceResult{}
		for _, result := range response.Results {
			results[result.Key] = result
		}
		return results
	}
	instances := v1.NewInstancesServiceClient(client)
	if foreign := lookUp(t, instances, &v1.Node{Name: "known", ProviderId: "other://1"}); foreign.Results[0].GetNotManaged() == nil {
		t.Error(foreign)
	}
	replaced, err := instances.BatchGetInstances(t.Context(), &v1.BatchGetInstancesRequest{
		Context: attempt(), View: v1.InstanceView_INSTANCE_VIEW_METADATA, Items: []*v1.Node{{Name: "known", ProviderId: gone}},
	})
	if err != nil || replaced.Results[0].GetAbsent() == nil {
		t.Error(replaced, err)
	}
	results := ask(v1.InstanceView_INSTANCE_VIEW_METADATA)
	got := results["known"].GetFound()
	if got.GetProviderId() != "test://i-1" || got.InstanceType != "test://i-1" || got.Zone != "z" || got.Region != "r" ||
		len(got.Addresses) != 1 {
		t.Error(results["known"])
	}
	if results["gone"].GetAbsent().GetCertainty() != v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED {
		t.Error(results["gone"])
	}
	results = ask(v1.InstanceView_INSTANCE_VIEW_STATE)
	if results["known"].GetFound().GetPowerState() != v1.PowerState_POWER_STATE_RUNNING {
		t.Error(results["known"])
	}
	if results["gone"].GetAbsent().GetCertainty() != v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED {
		t.Error(results["gone"])
	}
}
