// These tests hold that an object outside of the memory is not taken for a deleted one.

package serve

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// Some clouds delete a load balancer once their informer says that its Service was deleted.
func TestNoInformerTakesSilenceForADeletion(t *testing.T) {
	memory := newMemory()
	now := time.Now()
	memory.now = func() time.Time { return now }
	client := clientOf(t, memory)
	factory := informers.NewSharedInformerFactory(client, 0)
	var mu sync.Mutex
	var called []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		called = append(called, text)
	}
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"service": factory.Core().V1().Services().Informer(), "node": factory.Core().V1().Nodes().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { note(kind + " added") }, DeleteFunc: func(any) { note(kind + " deleted") },
		}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	memory.sawService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "quiet"}})
	get := func() error {
		return second(client.CoreV1().Services("n").Get(t.Context(), "quiet", metav1.GetOptions{}))
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(24 * time.Hour)
	memory.sawService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "other"}})
	if err := get(); err == nil || apierrors.IsNotFound(err) {
		t.Error(err)
	}
	for kind, synced := range factory.WaitForCacheSync(closed()) {
		if synced {
			t.Errorf("an informer of %v has synced with a part", kind)
		}
	}
	stop()
	factory.Shutdown()
	if len(called) > 0 {
		t.Error("handlers were called:", called)
	}
}

func clientOf(t *testing.T, memory *memory) kubernetes.Interface {
	t.Helper()
	return newClientBuilder(nil, memory, &v1.EffectsCapability{}).ClientOrDie("test")
}

func closed() <-chan struct{} {
	channel := make(chan struct{})
	close(channel)
	return channel
}

func TestATargetIsKnownAsLongAsACallMayNameIt(t *testing.T) {
	memory := newMemory()
	now := time.Now()
	memory.now = func() time.Time { return now }
	client := clientOf(t, memory)
	knows := func(name string) bool {
		_, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	}
	made := newWithoutRights()
	made.balancers.(*balancers).ensure = func(context.Context, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
		return &corev1.LoadBalancerStatus{}, nil
	}
	connection, _ := servingMade(t, func(ctx context.Context) (*provider.Provider, error) {
		return wrapped(ctx, Options{}, &made.cloud, memory, ""), nil
	})
	use := func(revision, target string) {
		t.Helper()
		if target != "" {
			sendTargets(t, connection, revision, target)
		}
		if _, err := v1.NewLoadBalancersServiceClient(connection).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service(),
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{Revision: revision}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	use("1", "target")
	now = now.Add(24 * time.Hour)
	use("1", "")
	if !knows("target") {
		t.Error("a Node is not known that is a target")
	}
	use("2", "second") // a call in flight may still name the set before the latest
	use("3", "third")
	if knows("target") || !knows("third") {
		t.Error("a Node is known that is no target any more")
	}
}
