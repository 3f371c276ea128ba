// This file has a vendor that does to Kubernetes what published clouds do, and holds what becomes of it. The numbers
// are those of the findings about these clouds.

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/controller-manager/pkg/clientbuilder"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// idAnnotation is where the vendor keeps the ID of a load balancer.
const idAnnotation = "vendor.example/load-balancer-id"

var idEffects = &v1.EffectsCapability{ServiceAnnotationPrefixes: []string{idAnnotation}}

// vendor is a cloud with load balancers.
type vendor struct {
	cloud
	client kubernetes.Interface
	// note writes the ID of a load balancer to its Service.
	note func(*vendor, *corev1.Service) error

	mu        sync.Mutex
	balancers map[string]bool
}

func newVendor(note func(*vendor, *corev1.Service) error) *vendor {
	made := &vendor{note: note, balancers: map[string]bool{}}
	made.cloud = cloud{
		machines:  &machine{exists: true, metadata: &cloudprovider.InstanceMetadata{ProviderID: "test://a"}},
		balancers: vendorBalancers{made},
		initialize: func(builder cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
			made.client = builder.ClientOrDie("vendor")
		},
	}
	return made
}

// newVendorThatReads gets the Service again after its note.
func newVendorThatReads(note func(*vendor, *corev1.Service) error) (made *vendor, got *corev1.Service) {
	got = &corev1.Service{}
	return newVendor(func(v *vendor, service *corev1.Service) error {
		if err := note(v, service); err != nil {
			return err
		}
		read, err := v.client.CoreV1().Services("n").Get(context.Background(), "s", metav1.GetOptions{})
		if err == nil {
			*got = *read
		}
		return err
	}), got
}

type vendorBalancers struct{ *vendor }

func (v vendorBalancers) GetLoadBalancerName(context.Context, string, *corev1.Service) string {
	return ""
}

func (v vendorBalancers) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return nil, v.balancers[service.Name], nil
}

func (v vendorBalancers) EnsureLoadBalancer(_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	v.mu.Lock()
	v.balancers[service.Name] = true
	v.mu.Unlock()
	if v.note != nil {
		if err := v.note(v.vendor, service); err != nil {
			return nil, fmt.Errorf("failed to note the load balancer's ID: %v", err) // text alone, as vendors do
		}
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}, nil
}

func (v vendorBalancers) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

func (v vendorBalancers) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *corev1.Service) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.balancers, service.Name)
	return nil
}

// The ways in which vendors write an annotation. They do not pass the context of the call on.

func patchesTheService(v *vendor, service *corev1.Service) error {
	updated := service.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, idAnnotation, "lb-1")
	_, err := servicehelpers.PatchService(v.client.CoreV1(), service, updated)
	return err
}

func updatesTheServiceOfTheCall(v *vendor, service *corev1.Service) error {
	metav1.SetMetaDataAnnotation(&service.ObjectMeta, idAnnotation, "lb-1")
	_, err := v.client.CoreV1().Services(service.Namespace).Update(context.Background(), service, metav1.UpdateOptions{})
	return err
}

func getsAndUpdatesTheService(v *vendor, service *corev1.Service) error {
	current, err := v.client.CoreV1().Services(service.Namespace).Get(context.Background(), service.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return updatesTheServiceOfTheCall(v, current)
}

func labelsTheService(v *vendor, service *corev1.Service) error {
	service.Labels = map[string]string{"vendor.example/served": "true"}
	return updatesTheServiceOfTheCall(v, service)
}

func ensureOf(connection *grpc.ClientConn) (*v1.LoadBalancerAnswer, error) {
	response, err := v1.NewLoadBalancersServiceClient(connection).EnsureLoadBalancer(context.Background(), &v1.EnsureLoadBalancerRequest{
		Context: attempt(), Service: service(), Targets: inline(&v1.Node{Name: "a"}),
	})
	return response.GetAnswer(), err
}

func TestFinding5TheIDInAnAnnotationIsAnEffect(t *testing.T) {
	for name, note := range map[string]func(*vendor, *corev1.Service) error{
		"patch": patchesTheService, "update": updatesTheServiceOfTheCall, "get and update": getsAndUpdatesTheService,
	} {
		made, got := newVendorThatReads(note)
		connection, handshake := serving(t, Options{Effects: idEffects, ServiceAnnotationPrefixes: []string{"vendor.example/size"}}, &made.cloud)
		answer, err := ensureOf(connection)
		if err != nil || answer.GetEffects().GetSetAnnotations()[idAnnotation] != "lb-1" || len(answer.GetStatus().GetIngress()) != 1 {
			t.Errorf("%s: %v %v", name, answer, err)
		}
		if got.GetAnnotations()[idAnnotation] != "lb-1" {
			t.Errorf("%s: a later get does not have the change: %v", name, got)
		}
		if handshake.Capabilities.Effects.ServiceAnnotationPrefixes[0] != idAnnotation || handshake.ServiceAnnotationPrefixes[1] != idAnnotation {
			t.Error(handshake)
		}
		if answer, err = ensureOf(connection); err != nil || answer.GetEffects().GetSetAnnotations()[idAnnotation] != "lb-1" {
			t.Errorf("%s: the next call brought the Service without it, but: %v %v", name, answer, err)
		}
	}
}

func TestFinding5AWriteThatNoEffectDoesIsRefusedWithTheWayOut(t *testing.T) {
	for why, test := range map[string]struct {
		options Options
		note    func(*vendor, *corev1.Service) error
	}{
		"is under none of the prefixes of serve.Options.Effects": {Options{}, patchesTheService},
		"it changes metadata.labels":                             {Options{Effects: idEffects}, labelsTheService},
		"no call of the controller about the object is running": {Options{Effects: idEffects}, func(v *vendor, _ *corev1.Service) error {
			_, err := v.client.CoreV1().Nodes().Patch(context.Background(), "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			return err
		}},
		"cannot get secrets": {Options{Effects: idEffects}, func(v *vendor, _ *corev1.Service) error {
			return second(v.client.CoreV1().Secrets("n").Get(context.Background(), "x", metav1.GetOptions{}))
		}},
	} {
		made := newVendor(test.note)
		connection, _ := serving(t, test.options, &made.cloud)
		answer, err := ensureOf(connection)
		text, reason := status.Convert(err).Message(), reasonIn(t, status.Convert(err).Proto())
		if !strings.Contains(text, why) || !strings.Contains(text, "--kubeconfig") || reason != "PERMISSION_MISSING" {
			t.Errorf("%s: %v %v", why, answer, err)
		}
		got, err := v1.NewProviderServiceClient(connection).GetStatus(t.Context(), &v1.GetStatusRequest{})
		if err != nil || got.Readiness != v1.Readiness_READINESS_DEGRADED {
			t.Fatal(got, err)
		}
		for _, dependency := range got.Dependencies {
			if isDegraded := dependency.Readiness == v1.Readiness_READINESS_DEGRADED; isDegraded != (dependency.Name == "kubernetes") ||
				isDegraded && !strings.Contains(dependency.Message, why) {
				t.Error(dependency)
			}
		}
	}
}

// With rights that are not enough, too: it is not the cloud that refuses.
func TestFinding5ARefusalOfTheAPIServerIsAMissingPermission(t *testing.T) {
	made := newVendor(patchesTheService)
	connection := servingWithRights(t, &apiServer{}, Options{}, &made.cloud)
	_, err := ensureOf(connection)
	if reason := reasonIn(t, status.Convert(err).Proto()); reason != "PERMISSION_MISSING" || !strings.Contains(err.Error(), "is forbidden") {
		t.Error(reason, err)
	}
}

// apiServer has the Service n/s as it really is, and keeps the writes that reach it.
type apiServer struct {
	mayWrite bool
	mu       sync.Mutex
	writes   []string
}

func (a *apiServer) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer.Header().Set("Content-Type", "application/json")
	isService := strings.HasPrefix(request.URL.Path, servicePath("n", "s"))
	real := `{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"n","name":"s","uid":"1","resourceVersion":"77",
		"finalizers":["service.kubernetes.io/load-balancer-cleanup"]},"spec":{"selector":{"app":"web"},"type":"LoadBalancer"}}`
	switch {
	case isService && request.Method == http.MethodGet:
		_, _ = io.WriteString(answer, real)
	case isService && a.mayWrite:
		body, _ := io.ReadAll(request.Body)
		a.writes = append(a.writes, request.Method+" "+request.Header.Get("Content-Type")+" "+string(body))
		_, _ = io.WriteString(answer, real)
	default:
		answer.WriteHeader(http.StatusForbidden)
		text, _ := json.Marshal(failure(metav1.StatusReasonForbidden, http.StatusForbidden, `services "s" is forbidden: User "vendor" cannot do that`))
		_, _ = answer.Write(text)
	}
}

// servingWithRights serves a cloud that has a kubeconfig of the API server.
func servingWithRights(t *testing.T, api http.Handler, options Options, c *cloud) *grpc.ClientConn {
	t.Helper()
	pointToAPI(t, api)
	connection, _ := serving(t, options, c)
	return connection
}

// pointToAPI lets --kubeconfig name an API server for one test.
func pointToAPI(t *testing.T, api http.Handler) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	set.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	t.Cleanup(func() { set.kubeconfig = "" })
	text := `{clusters: [{name: c, cluster: {server: "` + server.URL + `"}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}`
	if err := os.WriteFile(set.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A provider that may only read works with effects: the controller writes them.
func TestFinding5RightsToReadAreEnoughForEffects(t *testing.T) {
	for name, note := range map[string]func(*vendor, *corev1.Service) error{
		"patch": patchesTheService, "update": updatesTheServiceOfTheCall, "get and update": getsAndUpdatesTheService,
	} {
		made, got := newVendorThatReads(note)
		connection := servingWithRights(t, &apiServer{}, Options{Effects: idEffects}, &made.cloud)
		answer, err := ensureOf(connection)
		if err != nil || answer.GetEffects().GetSetAnnotations()[idAnnotation] != "lb-1" {
			t.Errorf("%s: %v %v", name, answer, err)
		}
		if got.GetAnnotations()[idAnnotation] != "lb-1" || got.Spec.Selector["app"] != "web" {
			t.Errorf("%s: a later get has not the real object with the change: %v", name, got)
		}
	}
}

// The Service of a call is a part of the real one: stored as it is, it would lose its selector and its finalizers.
func TestAnUpdateOfTheServiceOfTheCallKeepsItsOtherFields(t *testing.T) {
	for name, test := range map[string]struct {
		note func(*vendor, *corev1.Service) error
		want string
	}{
		"annotation": {updatesTheServiceOfTheCall, `PATCH application/strategic-merge-patch+json {"metadata":{"annotations":{"` + idAnnotation + `":"lb-1"}}}`},
		"label": {labelsTheService, `PATCH application/strategic-merge-patch+json {"metadata":{"annotations":{"` + idAnnotation +
			`":"lb-1"},"labels":{"vendor.example/served":"true"}}}`},
	} {
		api := &apiServer{mayWrite: true}
		made := newVendor(test.note)
		connection := servingWithRights(t, api, Options{}, &made.cloud)
		if answer, err := ensureOf(connection); err != nil || answer.GetEffects() != nil {
			t.Errorf("%s: %v %v", name, answer, err)
		}
		if len(api.writes) != 1 || strings.TrimSpace(api.writes[0]) != test.want {
			t.Errorf("%s: %q", name, api.writes)
		}
	}
	api := &apiServer{mayWrite: true}
	made := newVendor(getsAndUpdatesTheService)
	if _, err := ensureOf(servingWithRights(t, api, Options{}, &made.cloud)); err != nil {
		t.Error(err)
	}
	if len(api.writes) != 1 || !strings.HasPrefix(api.writes[0], "PUT") || !strings.Contains(api.writes[0], "web") {
		t.Errorf("an update of the real object: %q", api.writes)
	}
}

// upstreamBuilder is the builder of a program that makes its own clients.
type upstreamBuilder struct {
	cloudprovider.ControllerClientBuilder
}

func TestAClientBuilderOfAnotherProgramWritesEffectsToo(t *testing.T) {
	server := httptest.NewServer(&apiServer{})
	t.Cleanup(server.Close)
	simple := clientbuilder.SimpleControllerClientBuilder{ClientConfig: &rest.Config{Host: server.URL}}
	for _, builder := range []cloudprovider.ControllerClientBuilder{simple, upstreamBuilder{simple}} {
		made := newVendor(patchesTheService)
		connection, _ := servingMade(t, func(ctx context.Context) (*provider.Provider, error) {
			options := Options{Effects: idEffects}
			made.Initialize(options.ClientBuilder(builder), ctx.Done())
			return Wrap(ctx, options, &made.cloud, "")
		})
		answer, err := ensureOf(connection)
		if err != nil || answer.GetEffects().GetSetAnnotations()[idAnnotation] != "lb-1" {
			t.Errorf("%T: %v %v", builder, answer, err)
		}
	}
}

// listerRoutes look up the Node of a route with a lister that the constructor was to get.
type listerRoutes struct {
	table
	nodes corelisters.NodeLister
}

func (r *listerRoutes) CreateRoute(context.Context, string, string, *cloudprovider.Route) error {
	_, err := r.nodes.Get("a")
	return err
}

// The constructor has clients and informers as from upstream's app, and the provider is served once they have synced.
func TestFinding7AConstructorGetsAListerWithRights(t *testing.T) {
	pointToAPI(t, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		switch query := request.URL.Query(); {
		case query.Has("sendInitialEvents"): // as an older API server
			answer.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = fmt.Fprintln(answer, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case query.Get("watch") != "":
			_ = http.NewResponseController(answer).Flush()
			<-request.Context().Done()
		default:
			_, _ = fmt.Fprintln(answer, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","uid":"1"}}]}`)
		}
	}))
	routes := &listerRoutes{}
	connection, _ := servingMade(t, func(ctx context.Context) (*provider.Provider, error) {
		return newProvider(ctx, Options{}, withClients(func(clients Clients) (cloudprovider.Interface, error) {
			routes.nodes = clients.Informers.Core().V1().Nodes().Lister()
			return &cloud{table: routes}, nil
		}))
	})
	got, err := v1.NewRoutesServiceClient(connection).CreateRoute(t.Context(), &v1.CreateRouteRequest{
		Context: attempt(), Route: &v1.Route{DestinationCidr: "10.0.0.0/24", NodeName: "a"},
	})
	if err != nil || got.Found == nil {
		t.Error(got, err)
	}
}

// Without rights a lister would show less than the whole.
func TestFinding7AConstructorThatTakesClientsNeedsRights(t *testing.T) {
	_, err := newProvider(t.Context(), Options{}, withClients(func(Clients) (cloudprovider.Interface, error) { return &cloud{}, nil }))
	if err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Error(err)
	}
}

// takenEvents tells of each event that the client has taken.
type takenEvents struct {
	typedcorev1.EventSinkImpl
	taken chan string
}

func (e *takenEvents) Create(event *corev1.Event) (*corev1.Event, error) {
	created, err := e.EventSinkImpl.Create(event)
	e.taken <- event.Reason
	return created, err
}

// Recorders send a repeated event as a patch, and as a new one where there is none to patch.
func TestFinding11EventsAboutTheServiceOfACallAreEffects(t *testing.T) {
	lines := logged(t)
	made := newVendor(func(v *vendor, service *corev1.Service) error {
		events := &takenEvents{typedcorev1.EventSinkImpl{Interface: v.client.CoreV1().Events("")}, make(chan string, 3)}
		broadcaster := record.NewBroadcaster()
		defer broadcaster.Shutdown()
		broadcaster.StartRecordingToSink(events)
		recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "vendor"})
		for range 2 {
			recorder.Event(service, corev1.EventTypeWarning, "Slow", "the cloud is slow")
			<-events.taken
		}
		recorder.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, corev1.EventTypeNormal, "OfANode", "of no call")
		<-events.taken
		return errors.New("no room") // an error carries effects, too
	})
	connection, _ := serving(t, Options{}, &made.cloud)
	_, err := ensureOf(connection)
	effects := &v1.KubernetesEffects{}
	for _, detail := range status.Convert(err).Proto().Details {
		if detail.MessageIs(effects) {
			if err := detail.UnmarshalTo(effects); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := &v1.KubernetesEffects{Events: []*v1.KubernetesEvent{{Type: "Warning", Reason: "Slow", Message: "the cloud is slow"}}}
	if !proto.Equal(effects, want) {
		t.Error(effects, err)
	}
	if text := lines(); !strings.Contains(text, `"reason":"OfANode"`) || strings.Contains(text, "Unable to write event") {
		t.Error(text)
	}
}

// A call that outlives its caller hands its changes on, early and with its result.
func TestTheChangesOfACallThatTakesLongAreNotLost(t *testing.T) {
	finish := make(chan struct{})
	made := newVendor(func(v *vendor, service *corev1.Service) error {
		err := patchesTheService(v, service)
		<-finish
		return err
	})
	connection, _ := serving(t, Options{Effects: idEffects, AnswerWithin: 20 * time.Millisecond}, &made.cloud)
	noted := func() (bool, v1.LoadBalancerDisposition) {
		answer, err := ensureOf(connection)
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetEffects().GetSetAnnotations()[idAnnotation] == "lb-1", answer.Disposition
	}
	until(t, "the early change", func() bool { isNoted, _ := noted(); return isNoted })
	close(finish)
	until(t, "the result", func() bool {
		isNoted, disposition := noted()
		if !isNoted {
			t.Error("an answer has lost the change", disposition)
		}
		return disposition == v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY
	})
}

func TestAWriteToTheNodeOfALookupIsItsEffect(t *testing.T) {
	made := newVendor(nil)
	looks := 0
	made.machines = &lookingMachine{machine{exists: true, metadata: &cloudprovider.InstanceMetadata{ProviderID: "test://a"}}, func() {
		looks++
		patch := []byte(`{"metadata":{"annotations":{"vendor.example/rack":"7"}},"status":{"conditions":[{"type":"vendor.example/Powered","status":"True","reason":"On"}]}}`)
		if _, err := made.client.CoreV1().Nodes().Patch(context.Background(), "a", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Error(err)
		}
	}}
	connection, _ := serving(t, Options{Effects: &v1.EffectsCapability{
		NodeAnnotationPrefixes: []string{"vendor.example/"}, ConditionTypePrefixes: []string{"vendor.example/"},
	}}, &made.cloud)
	response := lookUp(t, v1.NewInstancesServiceClient(connection), &v1.Node{Name: "a", Ready: "True"})
	want := &v1.KubernetesEffects{
		SetAnnotations: map[string]string{"vendor.example/rack": "7"},
		Conditions:     []*v1.Condition{{Type: "vendor.example/Powered", Status: "True", Reason: "On"}},
	}
	if got := response.Results[0]; got.GetFound() == nil || !proto.Equal(got.Effects, want) || looks == 0 {
		t.Error(got)
	}
}

// lookingMachine does something in each look at its metadata.
type lookingMachine struct {
	machine
	look func()
}

func (m *lookingMachine) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m.look()
	return m.machine.InstanceMetadata(ctx, node)
}
