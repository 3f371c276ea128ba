package serve

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

func TestACloudSeesTheNodesAndServicesOfTheCalls(t *testing.T) {
	var client kubernetes.Interface
	var nodes corelisters.NodeLister
	connection, _ := serving(t, Options{}, &cloud{
		machines: &machine{exists: true, metadata: &cloudprovider.InstanceMetadata{ProviderID: "test://a"}},
		balancers: &balancers{
			ensure: func(context.Context, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
				return &corev1.LoadBalancerStatus{}, nil
			},
			remove: func() error { return nil },
		},
		initialize: func(builder cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
			client = builder.ClientOrDie("test")
			if _, err := builder.Config("test"); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
				t.Error(err)
			}
		},
		informers: func(factory informers.SharedInformerFactory) { nodes = factory.Core().V1().Nodes().Lister() },
	})
	lookup := func(name string, zone string) {
		_, err := v1.NewInstancesServiceClient(connection).BatchGetInstances(t.Context(), &v1.BatchGetInstancesRequest{
			Context: attempt(), Nodes: []*v1.Node{{Name: name, Labels: map[string]string{"zone": zone}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	lookup("a", "1")
	until(t, "the informer to have the Node", func() bool { node, err := nodes.Get("a"); return err == nil && node.Labels["zone"] == "1" })
	lookup("a", "2")
	lookup("b", "2")
	until(t, "the informer to have the changes", func() bool {
		listed, err := nodes.List(labels.SelectorFromSet(labels.Set{"zone": "2"}))
		return err == nil && len(listed) == 2
	})
	listed, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "zone=2"})
	if err != nil || len(listed.Items) != 2 {
		t.Fatal(listed, err)
	}

	balancing := v1.NewLoadBalancersServiceClient(connection)
	if _, err := balancing.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
		Context: attempt(), Service: service(), Targets: inline(&v1.Node{Name: "c"}),
	}); err != nil {
		t.Fatal(err)
	}
	if found, err := client.CoreV1().Services("n").Get(t.Context(), "s", metav1.GetOptions{}); err != nil || found.UID != "1" {
		t.Fatal(found, err)
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "c", metav1.GetOptions{}); err != nil {
		t.Fatal("targets are Nodes of the cluster too", err)
	}
	if _, err := balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: service()}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services("n").Get(t.Context(), "s", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func TestAClientWithoutRightsSaysSo(t *testing.T) {
	memory := newCluster()
	memory.sawNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	core := memory.client.CoreV1()
	for what, err := range map[string]error{
		"patch nodes":     second(core.Nodes().Patch(t.Context(), "a", "", nil, metav1.PatchOptions{})),
		"update nodes":    second(core.Nodes().Update(t.Context(), &corev1.Node{}, metav1.UpdateOptions{})),
		"get configmaps":  second(core.ConfigMaps("n").Get(t.Context(), "x", metav1.GetOptions{})),
		"list secrets":    second(core.Secrets("").List(t.Context(), metav1.ListOptions{})),
		"watch endpoints": second(core.Endpoints("").Watch(t.Context(), metav1.ListOptions{})),
		"get version":     second(memory.client.Discovery().ServerVersion()),
	} {
		if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "--kubeconfig") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Events are recorded beside a provider's work, and must not fail it.
	if _, err := core.Events("n").Create(t.Context(), &corev1.Event{}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// Clouds find the Node of an instance by its provider ID, which the controller writes only after the answer.
func TestANodeHasTheProviderIDThatItsLookupFound(t *testing.T) {
	var nodes corelisters.NodeLister
	connection, _ := serving(t, Options{}, &cloud{
		machines:  &machine{exists: true, metadata: &cloudprovider.InstanceMetadata{ProviderID: "test://a"}},
		informers: func(factory informers.SharedInformerFactory) { nodes = factory.Core().V1().Nodes().Lister() },
	})
	if _, err := v1.NewInstancesServiceClient(connection).BatchGetInstances(t.Context(), &v1.BatchGetInstancesRequest{
		Context: attempt(), Nodes: []*v1.Node{{Name: "a"}},
	}); err != nil {
		t.Fatal(err)
	}
	until(t, "the provider ID", func() bool {
		node, err := nodes.Get("a")
		return err == nil && node.Spec.ProviderID == "test://a"
	})
}

func TestNodesThatNoCallIsAboutAreForgotten(t *testing.T) {
	memory := newCluster()
	memory.sawNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
	memory.nodes.objects["old"].at = time.Now().Add(-2 * forgetAfter)
	memory.nodes.swept = time.Time{}
	memory.sawNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	listed, err := memory.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(listed.Items) != 1 || listed.Items[0].Name != "new" {
		t.Fatal(listed, err)
	}
}

func TestNodesAreBuiltOncePerRevision(t *testing.T) {
	var seen [][]*corev1.Node
	connection, _ := serving(t, Options{}, &cloud{balancers: &balancers{
		ensure: func(_ context.Context, _ *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			seen = append(seen, nodes)
			return &corev1.LoadBalancerStatus{}, nil
		},
	}})
	stream, err := v1.NewNodeSetsServiceClient(connection).SyncNodeSet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []*v1.SyncNodeSetRequest{
		{Part: &v1.SyncNodeSetRequest_Begin{Begin: &v1.NodeSetBegin{Context: attempt(), SetId: "s", Revision: "1", NodeCount: 1}}},
		{Part: &v1.SyncNodeSetRequest_Chunk{Chunk: &v1.NodeSetChunk{Upserts: []*v1.Node{{
			Name: "a", PodCidrs: []string{"10.0.0.0/24"}, Ready: "True",
		}}}}},
		{Part: &v1.SyncNodeSetRequest_Commit{Commit: &v1.NodeSetCommit{ChangeCount: 1}}},
	} {
		if err := stream.Send(part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := v1.NewLoadBalancersServiceClient(connection).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service(),
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{SetId: "s", Revision: "1"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 2 || seen[0][0] != seen[1][0] || seen[0][0].Spec.PodCIDR != "10.0.0.0/24" ||
		seen[0][0].Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Fatal(seen)
	}
}
