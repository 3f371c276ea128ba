// These tests run clouds that use Kubernetes, with rights of their own and without.

package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/controller-manager/pkg/clientbuilder"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// withoutRights is a cloud that keeps the client and the informers it gets, and does what a test names.
type withoutRights struct {
	cloud
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
}

func newWithoutRights() *withoutRights {
	made := &withoutRights{cloud: cloud{
		machines: &machine{exists: true, metadata: &cloudprovider.InstanceMetadata{ProviderID: "test://a"}},
		balancers: &balancers{
			ensure: func(context.Context, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
				return &corev1.LoadBalancerStatus{}, nil
			},
			remove: func() error { return nil },
		},
	}}
	made.initialize = func(builder cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
		made.client = builder.ClientOrDie("test")
	}
	made.cloud.informers = func(factory informers.SharedInformerFactory) { made.informers = factory }
	return made
}

func lookUp(t *testing.T, client v1.InstancesServiceClient, nodes ...*v1.Node) *v1.BatchGetInstancesResponse {
	t.Helper()
	response, err := client.BatchGetInstances(t.Context(), &v1.BatchGetInstancesRequest{Context: attempt(), Items: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func TestACloudWithoutRightsSeesTheObjectsOfTheCallsByName(t *testing.T) {
	made := newWithoutRights()
	connection, _ := serving(t, Options{}, &made.cloud)
	core := made.client.CoreV1()
	node := func(name string) (*corev1.Node, error) {
		return core.Nodes().Get(t.Context(), name, metav1.GetOptions{})
	}
	theService := func() (*corev1.Service, error) { return core.Services("n").Get(t.Context(), "s", metav1.GetOptions{}) }

	for _, zone := range []string{"1", "2"} {
		lookUp(t, v1.NewInstancesServiceClient(connection), &v1.Node{Name: "a", Labels: map[string]string{"zone": zone}})
		// Clouds find the Node of an instance by its provider ID, which the controller writes only after the answer.
		if got, err := node("a"); err != nil || got.Labels["zone"] != zone || got.Spec.ProviderID != "test://a" {
			t.Fatal(got, err)
		}
	}
	balancing := v1.NewLoadBalancersServiceClient(connection)
	if _, err := balancing.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
		Context: attempt(), Service: service(), Targets: inline(&v1.Node{Name: "c"}),
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := theService(); err != nil || got.UID != "1" || got.Spec.Ports[0].TargetPort.StrVal != "http" {
		t.Fatal(got, err)
	}
	if _, err := node("c"); err != nil {
		t.Fatal("targets are Nodes of the cluster too", err)
	}
	if _, err := balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: service()}); err != nil {
		t.Fatal(err)
	}
	// A Service of another type may be left, and Nodes that no call was about: "not found" would be a lie.
	for why, err := range map[string]error{"get services": second(theService()), "get nodes": second(node("unknown"))} {
		if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "--kubeconfig") {
			t.Error(why, err)
		}
	}
}

// An answer that is a part of the cluster is taken for the whole: clouds delete what it does not show.
func TestListsAndWatchesAreRefused(t *testing.T) {
	made := newWithoutRights()
	connection, _ := serving(t, Options{}, &made.cloud)
	core := made.client.CoreV1()
	all := metav1.ListOptions{}
	lists := map[string]func() error{
		"list nodes":     func() error { return second(core.Nodes().List(t.Context(), all)) },
		"list services":  func() error { return second(core.Services("").List(t.Context(), all)) },
		"watch nodes":    func() error { return second(core.Nodes().Watch(t.Context(), all)) },
		"watch services": func() error { return second(core.Services("n").Watch(t.Context(), all)) },
		// Upstream's fake has a REST client that is nil: clouds that make a ListWatch of it died at their start.
		"list endpoints": func() error {
			return second(cache.NewListWatchFromClient(core.RESTClient(), "endpoints", "", fields.Everything()).List(all))
		},
	}
	for _, when := range []string{"at the start", "after a call"} {
		for what, list := range lists {
			if err := list(); !saysSo(err, what) {
				t.Errorf("%s, %s: %v", when, what, err)
			}
		}
		lookUp(t, v1.NewInstancesServiceClient(connection), &v1.Node{Name: "a"})
	}
}

// Upstream's builder makes clients of other kinds, too, from v0.38 on.
func TestAClientOfAnotherKindIsRefusedAlike(t *testing.T) {
	type typed interface {
		MetadataClient(name string) (metadata.Interface, error)
	}
	if _, exists := any(clientbuilder.SimpleControllerClientBuilder{}).(typed); !exists {
		t.Skip("this version of upstream has none")
	}
	client, err := newClientBuilder(nil, newMemory(), nil).(typed).MetadataClient("test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(t.Context(), metav1.ListOptions{}); !saysSo(err, "list nodes") {
		t.Error(err)
	}
}

// saysSo tells whether a refusal names the request and the way out. client-go shows no text of a watch that is refused before v0.32.
func saysSo(err error, what string) bool {
	return apierrors.IsForbidden(err) &&
		(strings.Contains(err.Error(), what) && strings.Contains(err.Error(), "--kubeconfig") || strings.HasPrefix(err.Error(), "unknown (get "))
}

func TestAClientWithoutRightsSaysSo(t *testing.T) {
	made := newWithoutRights()
	serving(t, Options{}, &made.cloud)
	core := made.client.CoreV1()
	for what, err := range map[string]error{
		"patch nodes":         second(core.Nodes().Patch(t.Context(), "a", "", nil, metav1.PatchOptions{})),
		"update nodes":        second(core.Nodes().Update(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.UpdateOptions{})),
		"patch services":      second(core.Services("n").Patch(t.Context(), "s", "", nil, metav1.PatchOptions{}, "status")),
		"get configmaps":      second(core.ConfigMaps("n").Get(t.Context(), "x", metav1.GetOptions{})),
		"get namespaces":      second(core.Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})),
		"list namespaces":     second(core.Namespaces().List(t.Context(), metav1.ListOptions{})),
		"list secrets":        second(core.Secrets("").List(t.Context(), metav1.ListOptions{})),
		"watch endpoints":     second(core.Endpoints("").Watch(t.Context(), metav1.ListOptions{})),
		"delete pods":         core.Pods("n").Delete(t.Context(), "p", metav1.DeleteOptions{}),
		"list endpointslices": second(made.client.DiscoveryV1().EndpointSlices("n").List(t.Context(), metav1.ListOptions{})),
	} {
		if !saysSo(err, what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := made.client.Discovery().ServerVersion(); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
}

// Events are recorded beside a provider's work, and must not fail it; repeated ones are patches.
func TestEventsOfTheCloudAreLogLines(t *testing.T) {
	made := newWithoutRights()
	serving(t, Options{}, &made.cloud)
	lines := logged(t)
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: made.client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "1"}}
	for range 2 {
		recorder.Event(service, corev1.EventTypeWarning, "Oh", "no")
	}
	until(t, "two lines", func() bool { return strings.Count(lines(), `"reason":"Oh"`) == 2 })
	if text := lines(); !strings.Contains(text, `"object":"Service n/s"`) || strings.Contains(text, "cannot") {
		t.Error(text)
	}
	recorder.Event(service, corev1.EventTypeNormal, "Last", "")
	until(t, "the last", func() bool { return strings.Contains(lines(), `"reason":"Last"`) })
	if strings.Contains(lines(), "Unable to write event") {
		t.Error(lines())
	}
}

func second[T any](_ T, err error) error { return err }

// A cloud with rights has the informers of upstream's library: a Node that is deleted, and one that is made again under
// its name, reach its handlers.
func TestFinding3ADeletionReachesTheHandlersOfACloudWithRights(t *testing.T) {
	events := make(chan string, 3)
	pointToAPI(t, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		if request.URL.Query().Has("sendInitialEvents") { // as an older API server
			answer.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = fmt.Fprintln(answer, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		if request.URL.Query().Get("watch") == "" {
			_, _ = fmt.Fprintln(answer, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","uid":"1","resourceVersion":"1"}}]}`)
			return
		}
		for {
			_ = http.NewResponseController(answer).Flush()
			select {
			case event := <-events:
				_, _ = fmt.Fprintln(answer, event)
			case <-request.Context().Done():
				return
			}
		}
	}))
	handled := make(chan string, 10)
	var nodes corelisters.NodeLister
	made := newWithoutRights()
	made.cloud.informers = func(factory informers.SharedInformerFactory) {
		nodes = factory.Core().V1().Nodes().Lister()
		_, _ = factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { handled <- "added " + string(object.(*corev1.Node).UID) },
			DeleteFunc: func(object any) { handled <- "deleted " + string(object.(*corev1.Node).UID) },
		})
	}
	serving(t, Options{}, &made.cloud)
	events <- `{"type":"DELETED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"1","resourceVersion":"2"}}}`
	events <- `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"2","resourceVersion":"3"}}}`
	for _, want := range []string{"added 1", "deleted 1", "added 2"} {
		select {
		case got := <-handled:
			if got != want {
				t.Fatalf("%q, not %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("waited in vain for %q", want)
		}
	}
	if node, err := nodes.Get("a"); err != nil || node.UID != "2" {
		t.Fatal(node, err)
	}
}

// Without rights the informers that a cloud gets stay empty, do not count as synced, and ask for nothing.
func TestTheInformersOfACloudWithoutRightsNeverSync(t *testing.T) {
	lines := logged(t)
	made := newWithoutRights()
	var informer cache.SharedIndexInformer
	made.cloud.informers = func(factory informers.SharedInformerFactory) { informer = factory.Core().V1().Nodes().Informer() }
	connection, _ := serving(t, Options{}, &made.cloud)
	lookUp(t, v1.NewInstancesServiceClient(connection), &v1.Node{Name: "a"})
	if informer.HasSynced() || len(informer.GetStore().List()) > 0 {
		t.Error(informer.GetStore().List())
	}
	if text := lines(); strings.Count(text, "informers") != 1 || !strings.Contains(text, "--kubeconfig") {
		t.Error(text)
	}
}

// A deleted Node is not shown any more, whichever call brought it.
func TestANodeThatIsGoneIsForgotten(t *testing.T) {
	made := newWithoutRights()
	answers := &machine{exists: true, metadata: &cloudprovider.InstanceMetadata{ProviderID: "test://a"}}
	made.machines = answers
	connection, _ := serving(t, Options{}, &made.cloud)
	instances := v1.NewInstancesServiceClient(connection)
	knows := func(name string) bool {
		_, err := made.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	}
	lookUp(t, instances, &v1.Node{Name: "looked-up"})
	if !knows("looked-up") {
		t.Fatal("a Node is not known after its lookup")
	}
	*answers = machine{mdErr: cloudprovider.InstanceNotFound}
	if response := lookUp(t, instances, &v1.Node{Name: "looked-up"}); response.Results[0].GetAbsent() == nil {
		t.Fatal(response)
	}
	if knows("looked-up") {
		t.Error("a Node is known after its instance was absent")
	}
}
