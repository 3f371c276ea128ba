// This test sends objects through the contract to the Go adapter, which hands them to a cloud as upstream's loops would.

package contract

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/fake"

	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/adapters/go/serve"
)

// recorder is a cloud that keeps the last Service and targets, and whose machine is off or missing by its name.
type recorder struct {
	*fake.Cloud
	service *corev1.Service
	nodes   []*corev1.Node
	refused error
}

func (r *recorder) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return r, true }

func (r *recorder) EnsureLoadBalancer(_ context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	r.service, r.nodes = service, nodes
	return &corev1.LoadBalancerStatus{Ingress: service.Status.LoadBalancer.Ingress}, r.refused
}

func (r *recorder) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return r.refused
}

type clients struct {
	cloudprovider.ControllerClientBuilder
}

func (clients) ClientOrDie(string) kubernetes.Interface {
	return kubefake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster-1"}})
}

// connected is a cloud whose provider is the adapter around another one.
func connected(t *testing.T, far cloudprovider.Interface) *Cloud {
	t.Helper()
	served, err := serve.Wrap(t.Context(), serve.Options{WithoutClient: true, ProviderIDPrefixes: []string{"fake://"}}, far, "")
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := provider.ParseEndpoint("unix://" + filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- served.ServeUntil(ctx, endpoint) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, err := provider.Probe(endpoint, false, time.Second); err != nil; _, err = provider.Probe(endpoint, false, time.Second) {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	near, err := Connect(endpoint.String())
	if err != nil {
		t.Fatal(err)
	}
	near.Initialize(clients{}, nil)
	return near
}

func TestServiceAndTargetsArriveWhole(t *testing.T) {
	far := &recorder{Cloud: &fake.Cloud{Provider: "fake", EnableInstancesV2: true}}
	near := connected(t, far)
	policy, mode, seconds := corev1.IPFamilyPolicyPreferDualStack, corev1.LoadBalancerIPModeVIP, int32(90)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-1"},
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeLoadBalancer,
			Ports:                    []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080, TargetPort: intstr.FromInt32(8080)}},
			LoadBalancerSourceRanges: []string{"192.0.2.0/24"}, LoadBalancerIP: "192.0.2.9", HealthCheckNodePort: 30081,
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, SessionAffinity: corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}},
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, IPFamilyPolicy: &policy,
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
			Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.9", IPMode: &mode}},
		}},
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "worker-1-1"},
		Spec:       corev1.NodeSpec{ProviderID: "fake://worker-1", PodCIDRs: []string{"10.0.1.0/24"}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
	}
	status, err := near.EnsureLoadBalancer(t.Context(), "", service, []*corev1.Node{node})
	if err != nil || !reflect.DeepEqual(status, &service.Status.LoadBalancer) {
		t.Error(status, err)
	}
	if !reflect.DeepEqual(far.service.Spec, service.Spec) || far.service.UID != service.UID {
		t.Errorf("%+v arrived of %+v", far.service.Spec, service.Spec)
	}
	if len(far.nodes) != 1 || far.nodes[0].Spec.ProviderID != node.Spec.ProviderID || !reflect.DeepEqual(far.nodes[0].Status.Addresses, node.Status.Addresses) {
		t.Error("targets:", far.nodes)
	}
	far.refused = errors.New("no quota")
	if _, err := near.EnsureLoadBalancer(t.Context(), "", service, nil); err == nil {
		t.Error("the provider's error is lost")
	}
}

func TestWorkInProgressIsNotTheEndOfIt(t *testing.T) {
	far := &recorder{Cloud: &fake.Cloud{Provider: "fake", EnableInstancesV2: true}, refused: api.NewRetryError("soon", 7*time.Second)}
	near := connected(t, far)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-1"}}
	_, ensured := near.EnsureLoadBalancer(t.Context(), "", service, nil)
	for name, err := range map[string]error{"ensure": ensured, "delete": near.EnsureLoadBalancerDeleted(t.Context(), "", service)} {
		var retry *api.RetryError
		if !errors.As(err, &retry) || retry.RetryAfter() != 7*time.Second {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMachineThatIsGoneIsNoErrorAndAnErrorIsNoAbsence(t *testing.T) {
	far := &fake.Cloud{Provider: "fake", EnableInstancesV2: true, ExistsByProviderID: true, NodeShutdown: true}
	near := connected(t, far)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: types.UID("1")}, Spec: corev1.NodeSpec{ProviderID: "fake://worker-1"}}
	exists, err := near.InstanceExists(t.Context(), node)
	isOff, offErr := near.InstanceShutdown(t.Context(), node)
	if !exists || !isOff || err != nil || offErr != nil {
		t.Error("a machine that is off:", exists, isOff, err, offErr)
	}
	far.ExistsByProviderID = false
	if exists, err := near.InstanceExists(t.Context(), node); exists || err != nil {
		t.Error("a machine that is gone:", exists, err)
	}
	if _, err := near.InstanceMetadata(t.Context(), node); !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Error("metadata of a machine that is gone:", err)
	}
	far.ErrByProviderID = errors.New("the cloud is down")
	if exists, err := near.InstanceExists(t.Context(), node); exists || err == nil {
		t.Error("a cloud that is down:", exists, err)
	}
}
