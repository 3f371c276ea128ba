package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

const patience = 10 * time.Second

// cloud is one that a test scripts: what is nil is not supported.
type cloud struct {
	machines   cloudprovider.InstancesV2
	old        cloudprovider.Instances
	zones      cloudprovider.Zones
	balancers  cloudprovider.LoadBalancer
	table      cloudprovider.Routes
	labels     func(*corev1.PersistentVolume) (map[string]string, error)
	initialize func(cloudprovider.ControllerClientBuilder, <-chan struct{})
	informers  func(informers.SharedInformerFactory)
}

func (c *cloud) Initialize(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	if c.initialize != nil {
		c.initialize(builder, stop)
	}
}

func (c *cloud) SetInformers(factory informers.SharedInformerFactory) {
	if c.informers != nil {
		c.informers(factory)
	}
}
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.balancers, c.balancers != nil
}
func (c *cloud) Instances() (cloudprovider.Instances, bool)     { return c.old, c.old != nil }
func (c *cloud) Zones() (cloudprovider.Zones, bool)             { return c.zones, c.zones != nil }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)       { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)           { return c.table, c.table != nil }
func (c *cloud) ProviderName() string                           { return "test" }
func (c *cloud) HasClusterID() bool                             { return true }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.machines, c.machines != nil }
func (c *cloud) GetLabelsForVolume(_ context.Context, volume *corev1.PersistentVolume) (map[string]string, error) {
	return c.labels(volume)
}

// machine answers about any node.
type machine struct {
	exists, shutdown              bool
	existsErr, shutdownErr, mdErr error
	metadata                      *cloudprovider.InstanceMetadata
	asked                         *corev1.Node
}

func (m *machine) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	m.asked = node
	return m.exists, m.existsErr
}
func (m *machine) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return m.shutdown, m.shutdownErr
}
func (m *machine) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m.asked = node
	return m.metadata, m.mdErr
}

// balancers are load balancers that a test scripts.
type balancers struct {
	get    func() (*corev1.LoadBalancerStatus, bool, error)
	ensure func(context.Context, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error)
	update func() error
	remove func() error
}

func (b *balancers) GetLoadBalancer(context.Context, string, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return b.get()
}
func (b *balancers) GetLoadBalancerName(context.Context, string, *corev1.Service) string { return "" }
func (b *balancers) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return b.ensure(ctx, service, nodes)
}
func (b *balancers) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return b.update()
}
func (b *balancers) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return b.remove()
}

// serving is a cloud behind a socket, and a client that has shaken hands.
func serving(t *testing.T, options Options, c *cloud) (*grpc.ClientConn, *v1.HandshakeResponse) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	made, err := New(ctx, options, func() (cloudprovider.Interface, error) { return c, nil })
	if err != nil {
		t.Fatal(err)
	}
	directory, err := os.MkdirTemp("", "outrigger")
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := provider.ParseEndpoint("unix://" + filepath.Join(directory, "p.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- made.ServeUntil(ctx, endpoint) }()
	client, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", endpoint.Path())
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server did not end")
		}
		_ = os.RemoveAll(directory)
	})
	until(t, "the socket", func() bool { _, err := os.Stat(endpoint.Path()); return err == nil })
	told, err := v1.NewProviderServiceClient(client).Handshake(t.Context(), &v1.HandshakeRequest{
		MinMinor: 1, MaxMinor: 1, Cluster: &v1.ClusterInfo{Name: "c", Uid: "u"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client, told
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func attempt() *v1.CallContext { return &v1.CallContext{RequestId: "r", ClusterName: "c"} }

func reasonIn(t *testing.T, told *rpcstatus.Status) string {
	t.Helper()
	for _, detail := range told.GetDetails() {
		info := &errdetails.ErrorInfo{}
		if detail.MessageIs(info) {
			if err := detail.UnmarshalTo(info); err != nil {
				t.Fatal(err)
			}
			return info.Reason
		}
	}
	return ""
}

func TestCapabilitiesAreThoseOfTheCloud(t *testing.T) {
	_, told := serving(t, Options{}, &cloud{})
	if offered := told.Capabilities; offered.Instances != nil || offered.LoadBalancers != nil || offered.Routes != nil ||
		offered.Volumes != nil {
		t.Error(offered)
	}
	_, told = serving(t, Options{Volumes: &v1.VolumesCapability{CsiDrivers: []string{"csi.test"}}}, &cloud{
		machines: &machine{}, balancers: &balancers{}, table: &table{},
	})
	offered := told.Capabilities
	if offered.GetInstances().GetProviderIdPrefixes()[0] != "test://" || offered.GetLoadBalancers().GetMaxInFlight() != 1 ||
		offered.GetLoadBalancers().GetConfigurationRevision() == "" || offered.GetRoutes() == nil ||
		offered.GetNodeSets() == nil || offered.GetVolumes().GetCsiDrivers()[0] != "csi.test" ||
		told.NodeAnnotationPrefixes[0] != "*" || told.ProviderName != "test" {
		t.Error(told)
	}
}

func TestAFactoryThatFailsSaysWhy(t *testing.T) {
	for why, factory := range map[string]Factory{
		"no region":                             func() (cloudprovider.Interface, error) { return nil, errors.New("no region") },
		"neither":                               func() (cloudprovider.Interface, error) { return nil, nil },
		"panicked":                              func() (cloudprovider.Interface, error) { panic("oh") },
		"no cloud provider \"x\" is registered": Registered("x"),
	} {
		if _, err := New(t.Context(), Options{}, factory); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
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
			found := r.GetFound()
			return found.GetProviderId() == "test://1" && found.InstanceType == "big" && found.Zone == "z" && found.Region == "r" &&
				found.Addresses[0].Address == "10.0.0.1" && found.AdditionalLabels["a"] == "b"
		}},
		"no metadata": {machine{}, all, 0, func(r *v1.InstanceResult) bool {
			return reasonIn(t, r.GetError()) == "CLOUD_ERROR"
		}},
		"metadata not found": {machine{mdErr: fmt.Errorf("a: %w", cloudprovider.InstanceNotFound)}, all, 0, func(r *v1.InstanceResult) bool {
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
			return reasonIn(t, r.GetError()) == "UNSUPPORTED_FEATURE"
		}},
	} {
		client, _ := serving(t, Options{}, &cloud{machines: &test.machine})
		request := &v1.BatchGetInstancesRequest{
			Context: attempt(), View: test.view, Nodes: []*v1.Node{{Name: "node", ProviderId: "test://node", SystemUuid: "s"}},
		}
		if test.staleness > 0 {
			request.MaxStaleness = durationpb.New(test.staleness)
		}
		response, err := v1.NewInstancesServiceClient(client).BatchGetInstances(t.Context(), request)
		if err != nil || len(response.Results) != 1 || !test.is(response.Results[0]) {
			t.Errorf("%s: %v %v", name, response, err)
		}
		if asked := test.machine.asked; asked == nil || asked.Status.NodeInfo.SystemUUID != "s" || asked.Spec.ProviderID != "test://node" {
			t.Errorf("%s: asked about %v", name, asked)
		}
	}
}

// oldCloud has Instances and Zones v1: it knows one machine by name, and by ID only its type.
type oldCloud struct{ cloudprovider.Zones }

func (oldCloud) NodeAddresses(context.Context, types.NodeName) ([]corev1.NodeAddress, error) {
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}, nil
}
func (oldCloud) NodeAddressesByProviderID(context.Context, string) ([]corev1.NodeAddress, error) {
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
func (oldCloud) AddSSHKeyToAllInstances(context.Context, string, []byte) error    { return nil }
func (oldCloud) CurrentNodeName(context.Context, string) (types.NodeName, error)  { return "", nil }
func (oldCloud) InstanceExistsByProviderID(context.Context, string) (bool, error) { return true, nil }
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
			Context: attempt(), View: view, Nodes: []*v1.Node{{Name: "known"}, {Name: "gone"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		results := map[string]*v1.InstanceResult{}
		for _, result := range response.Results {
			results[result.NodeName] = result
		}
		return results
	}
	results := ask(v1.InstanceView_INSTANCE_VIEW_METADATA)
	found := results["known"].GetFound()
	if found.GetProviderId() != "test://i-1" || found.InstanceType != "test://i-1" || found.Zone != "z" || found.Region != "r" ||
		len(found.Addresses) != 1 {
		t.Error(results["known"])
	}
	if results["gone"].GetAbsent().GetCertainty() != v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET {
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

func service() *v1.Service {
	return &v1.Service{Namespace: "n", Name: "s", Uid: "1", Type: "LoadBalancer", Ports: []*v1.ServicePort{{
		Port: 80, NodePort: 30080, Protocol: "TCP", TargetPort: "http",
	}}}
}

func inline(nodes ...*v1.Node) *v1.NodeTargets {
	return &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{Nodes: nodes}}}
}

func TestEnsureAnswersWhatTheCloudSays(t *testing.T) {
	ready := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}
	for name, test := range map[string]struct {
		status *corev1.LoadBalancerStatus
		err    error
		is     v1.LoadBalancerDisposition
		reason string
	}{
		"ready":           {status: ready, is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY},
		"nothing":         {reason: "CLOUD_ERROR"},
		"elsewhere":       {err: cloudprovider.ImplementedElsewhere, is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED},
		"wrapped":         {err: fmt.Errorf("a: %w", cloudprovider.ImplementedElsewhere), is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED},
		"retry":           {err: fmt.Errorf("a: %w", api.NewRetryError("soon", 7*time.Second)), is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS},
		"not implemented": {err: cloudprovider.NotImplemented, reason: "UNSUPPORTED_FEATURE"},
		"an error":        {err: errors.New("no address left"), reason: "CLOUD_ERROR"},
		"own class":       {err: errors.New("quota"), reason: "QUOTA_EXCEEDED"},
	} {
		classify := func(err error) *provider.Error {
			if err.Error() == "quota" {
				return provider.Errorf(provider.QuotaExceeded, "%w", err)
			}
			return nil
		}
		var got *corev1.Service
		client, _ := serving(t, Options{Classify: classify}, &cloud{balancers: &balancers{
			ensure: func(_ context.Context, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
				got = service
				return test.status, test.err
			},
		}})
		response, err := v1.NewLoadBalancersServiceClient(client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service(), Targets: inline(&v1.Node{Name: "a"}),
		})
		if reason := reasonIn(t, status.Convert(err).Proto()); reason != test.reason || response.GetAnswer().GetDisposition() != test.is {
			t.Errorf("%s: %v %v", name, response, err)
		}
		if name == "retry" && (response.Answer.RetryAfter.AsDuration() != 7*time.Second || response.Answer.Message != "a: soon") {
			t.Error(response)
		}
		if got.Spec.Ports[0].TargetPort.StrVal != "http" || got.UID != "1" || got.Spec.Type != corev1.ServiceTypeLoadBalancer {
			t.Error(got)
		}
	}
}

func TestAFailedUpdateAsksWhetherThereIsAnything(t *testing.T) {
	for name, test := range map[string]struct {
		exists bool
		getErr error
		is     v1.LoadBalancerDisposition
	}{
		"gone":    {is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT},
		"there":   {exists: true},
		"unknown": {getErr: errors.New("no")},
	} {
		client, _ := serving(t, Options{}, &cloud{balancers: &balancers{
			update: func() error { return errors.New("not updated") },
			get:    func() (*corev1.LoadBalancerStatus, bool, error) { return nil, test.exists, test.getErr },
		}})
		stream, err := v1.NewLoadBalancersServiceClient(client).UpdateLoadBalancerNodes(t.Context(), &v1.UpdateLoadBalancerNodesRequest{
			Context: attempt(), Services: []*v1.Service{service()}, Targets: inline(),
		})
		if err != nil {
			t.Fatal(err)
		}
		result, err := stream.Recv()
		if err != nil || result.GetAnswer().GetDisposition() != test.is ||
			(result.GetError() != nil && result.GetError().Message != "not updated") {
			t.Errorf("%s: %v %v", name, result, err)
		}
	}
}

func TestACallThatTakesLongGoesOnAndIsHandedOver(t *testing.T) {
	var running, calls, most atomic.Int32
	finish := make(chan struct{})
	client, _ := serving(t, Options{AnswerWithin: 20 * time.Millisecond}, &cloud{balancers: &balancers{
		ensure: func(ctx context.Context, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			calls.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-finish
			return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}, ctx.Err()
		},
		remove: func() error { return nil },
	}})
	balancing := v1.NewLoadBalancersServiceClient(client)
	ensure := func(uid string) *v1.LoadBalancerAnswer {
		wanted := service()
		wanted.Uid = uid
		response, err := balancing.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: wanted, Targets: inline(&v1.Node{Name: "a"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return response.Answer
	}
	inProgress := v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS
	for range 2 {
		if answer := ensure("1"); answer.Disposition != inProgress || !strings.Contains(answer.Message, "has not returned yet") {
			t.Fatal(answer)
		}
	}
	if answer := ensure("2"); answer.Disposition != inProgress || !strings.Contains(answer.Message, "waits for another call") {
		t.Fatal(answer)
	}
	gone, err := balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: service()})
	if err != nil || gone.Answer.Disposition != inProgress {
		t.Fatal(gone, err)
	}
	if calls.Load() != 1 {
		t.Fatalf("%d calls were begun", calls.Load())
	}
	finish <- struct{}{}
	until(t, "the result of the first call", func() bool {
		return ensure("1").Disposition == v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY
	})
	if calls.Load() != 1 {
		t.Fatal("the call was made again, though its result was there")
	}
	close(finish)
	if answer := ensure("2"); answer.Disposition != v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY {
		t.Fatal(answer)
	}
	gone, err = balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: service()})
	if err != nil || gone.Answer.Disposition != v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT {
		t.Fatal(gone, err)
	}
	if most.Load() != 1 {
		t.Fatal("two load balancers were changed at one time")
	}
}

func TestAPanicIsAnErrorOfItsService(t *testing.T) {
	client, _ := serving(t, Options{}, &cloud{balancers: &balancers{remove: func() error { panic("secret") }}})
	_, err := v1.NewLoadBalancersServiceClient(client).DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{
		Context: attempt(), Service: service(),
	})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "panicked") {
		t.Fatal(err)
	}
}

// table is a route table.
type table struct{ routes []*cloudprovider.Route }

func (r *table) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	return r.routes, nil
}
func (r *table) CreateRoute(_ context.Context, cluster, hint string, route *cloudprovider.Route) error {
	made := *route
	made.Name = cluster + "-" + hint
	r.routes = append(r.routes, &made)
	return nil
}
func (r *table) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	for index, known := range r.routes {
		if known.Name == route.Name {
			r.routes = append(r.routes[:index], r.routes[index+1:]...)
			return nil
		}
	}
	return fmt.Errorf("no route %q", route.Name)
}

func TestRoutesAreMadeAndDeletedAsTheyAreListed(t *testing.T) {
	known := &table{}
	client, _ := serving(t, Options{}, &cloud{table: known})
	routing := v1.NewRoutesServiceClient(client)
	route := &v1.Route{DestinationCidr: "10.0.1.0/24", NodeName: "a", NodeUid: "uid"}
	made, err := routing.BatchCreateRoutes(t.Context(), &v1.BatchCreateRoutesRequest{Context: attempt(), Routes: []*v1.Route{route}})
	if err != nil || made.Results[0].Status.Code != 0 || known.routes[0].Name != "c-uid" {
		t.Fatal(made, err)
	}
	stream, err := routing.ListRoutes(t.Context(), &v1.ListRoutesRequest{Context: attempt()})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := stream.Recv()
	if err != nil || !listed.Complete || listed.Routes[0].NodeName != "a" || listed.Routes[0].Name != "c-uid" {
		t.Fatal(listed, err)
	}
	again, err := routing.BatchCreateRoutes(t.Context(), &v1.BatchCreateRoutesRequest{Context: attempt(), Routes: []*v1.Route{route}})
	if err != nil || again.Results[0].Status.Code != 0 || again.Results[0].Route.Name != "c-uid" || len(known.routes) != 1 {
		t.Fatal(again, err)
	}
	other, err := routing.BatchCreateRoutes(t.Context(), &v1.BatchCreateRoutesRequest{
		Context: attempt(), Routes: []*v1.Route{{DestinationCidr: "10.0.1.0/24", NodeName: "b"}},
	})
	if err != nil || reasonIn(t, other.Results[0].Status) != "CONFLICTING_RESOURCE" || len(known.routes) != 1 {
		t.Fatal(other, err)
	}
	for range 2 { // without a name, and again when it is gone
		gone, err := routing.BatchDeleteRoutes(t.Context(), &v1.BatchDeleteRoutesRequest{Context: attempt(), Routes: []*v1.Route{route}})
		if err != nil || gone.Results[0].Status.Code != 0 || len(known.routes) != 0 {
			t.Fatal(gone, err)
		}
	}
}

func TestVolumesAreLabelledWithWhatAVolumeMayHave(t *testing.T) {
	client, _ := serving(t, Options{Volumes: &v1.VolumesCapability{CsiDrivers: []string{"csi.test"}}}, &cloud{
		labels: func(volume *corev1.PersistentVolume) (map[string]string, error) {
			switch volume.Spec.CSI.VolumeHandle {
			case "there":
				return map[string]string{corev1.LabelTopologyZone: "z", "node.kubernetes.io/x": "y", "a": "b"}, nil
			case "gone":
				return nil, fmt.Errorf("a: %w", cloudprovider.DiskNotFound)
			case "foreign":
				return nil, cloudprovider.NotImplemented
			default:
				return nil, errors.New("no")
			}
		},
	})
	request := &v1.BatchGetVolumesRequest{Context: attempt()}
	for _, handle := range []string{"there", "gone", "foreign", "broken"} {
		request.Volumes = append(request.Volumes, &v1.Volume{Key: handle, Source: &v1.VolumeSource{
			Source: &v1.VolumeSource_Csi{Csi: &v1.CsiVolumeSource{Driver: "csi.test", VolumeHandle: handle}},
		}})
	}
	response, err := v1.NewVolumesServiceClient(client).BatchGetVolumes(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	results := response.Results
	if labels := results[0].GetFound().GetLabels(); len(labels) != 2 || labels[corev1.LabelTopologyZone] != "z" || labels["a"] != "b" {
		t.Error(results[0])
	}
	if results[1].GetAbsent() == nil || results[2].GetNotManaged() == nil || reasonIn(t, results[3].GetError()) != "CLOUD_ERROR" {
		t.Error(results)
	}
}
