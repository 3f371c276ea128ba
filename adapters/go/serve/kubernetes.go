package serve

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"outrigger.dev/adapters/go/provider"
)

// forgetAfter is when a Node or Service that no call was about leaves the cluster in memory. The
// controller asks about each Node every few minutes.
const forgetAfter = time.Hour

// cluster has the Nodes and Services that the controller's calls brought: the client and the informers
// of a cloud that asks for them, without any right in Kubernetes.
type cluster struct {
	client   *fake.Clientset
	nodes    *kind
	services *kind
}

// kind has the objects of one kind.
type kind struct {
	resource string
	list     func([]runtime.Object) runtime.Object
	events   *watch.Broadcaster

	mu      sync.Mutex
	version int
	objects map[string]*seenObject
	swept   time.Time
}

type seenObject struct {
	object runtime.Object
	at     time.Time
}

func newCluster() *cluster {
	client := fake.NewSimpleClientset() // a zero one has no discovery, and a cloud that asks for the version dies
	client.ReactionChain, client.WatchReactionChain = nil, nil
	c := &cluster{
		client: client,
		nodes: newKind("nodes", func(objects []runtime.Object) runtime.Object {
			list := &corev1.NodeList{}
			for _, object := range objects {
				list.Items = append(list.Items, *object.(*corev1.Node))
			}
			return list
		}),
		services: newKind("services", func(objects []runtime.Object) runtime.Object {
			list := &corev1.ServiceList{}
			for _, object := range objects {
				list.Items = append(list.Items, *object.(*corev1.Service))
			}
			return list
		}),
	}
	c.nodes.serve(c.client)
	c.services.serve(c.client)
	c.client.AddReactor("create", "events", c.logEvent)
	c.client.AddReactor("*", "*", refuse)
	c.client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		_, _, err := refuse(action)
		return true, nil, err
	})
	return c
}

func (c *cluster) sawNode(node *corev1.Node) { c.nodes.saw(node.Name, node); c.client.ClearActions() }

func (c *cluster) sawService(service *corev1.Service) {
	c.services.saw(service.Namespace+"/"+service.Name, service)
	c.client.ClearActions() // the fake keeps them all
}

// logEvent takes events, which providers record beside their work, for log lines.
func (c *cluster) logEvent(action clienttesting.Action) (bool, runtime.Object, error) {
	object := action.(clienttesting.CreateAction).GetObject()
	if event, ok := object.(*corev1.Event); ok {
		provider.CallOf(context.Background()).Log.Info("event of the cloud's code, which the controller does not write",
			"object", event.InvolvedObject.Kind+" "+event.InvolvedObject.Namespace+"/"+event.InvolvedObject.Name,
			"type", event.Type, "reason", event.Reason, "message", event.Message)
	}
	return true, object, nil
}

// refuse says why and what to do, for the cloud's author and the operator.
func refuse(action clienttesting.Action) (bool, runtime.Object, error) {
	return true, nil, fmt.Errorf("cannot %s %s: this client has only the Nodes and Services of the controller's calls, "+
		"and changes nothing; give the provider rights of its own and name them with --kubeconfig",
		action.GetVerb(), action.GetResource().Resource)
}

func newKind(resource string, list func([]runtime.Object) runtime.Object) *kind {
	return &kind{
		resource: resource, list: list, objects: map[string]*seenObject{},
		events: watch.NewBroadcaster(1000, watch.WaitIfChannelFull),
	}
}

func (k *kind) serve(client *fake.Clientset) {
	client.AddReactor("get", k.resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.GetAction).GetName()
		if namespace := action.GetNamespace(); namespace != "" {
			name = namespace + "/" + name
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if seen := k.objects[name]; seen != nil {
			return true, seen.object.DeepCopyObject(), nil
		}
		return true, nil, apierrors.NewNotFound(action.GetResource().GroupResource(), name)
	})
	client.AddReactor("list", k.resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		list := k.list(k.copies(action.GetNamespace()))
		if accessor, err := meta.ListAccessor(list); err == nil {
			accessor.SetResourceVersion(strconv.Itoa(k.version))
		}
		return true, list, nil
	})
	client.AddWatchReactor(k.resource, func(action clienttesting.Action) (bool, watch.Interface, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		// Begins with all that is there: nothing is lost between a list and its watch.
		var events []watch.Event
		for _, object := range k.copies(action.GetNamespace()) {
			events = append(events, watch.Event{Type: watch.Added, Object: object})
		}
		watcher, err := k.events.WatchWithPrefix(events)
		return true, watcher, err
	})
}

// copies are the objects of a namespace; empty: all.
func (k *kind) copies(namespace string) []runtime.Object {
	var found []runtime.Object
	for _, seen := range k.objects {
		if accessor, err := meta.Accessor(seen.object); err == nil && (namespace == "" || accessor.GetNamespace() == namespace) {
			found = append(found, seen.object.DeepCopyObject())
		}
	}
	return found
}

// saw stores an object that a call brought, and tells watchers where it is new or another.
func (k *kind) saw(key string, object runtime.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweep()
	known := k.objects[key]
	if known != nil && sameBut(known.object, object) {
		known.at = time.Now()
		return
	}
	object = object.DeepCopyObject()
	k.version++
	setVersion(object, strconv.Itoa(k.version))
	k.objects[key] = &seenObject{object, time.Now()}
	event := watch.Added
	if known != nil {
		event = watch.Modified
	}
	_ = k.events.Action(event, object.DeepCopyObject())
}

// sweep forgets what no call was about for long, at most once a minute.
func (k *kind) sweep() {
	if time.Since(k.swept) < time.Minute {
		return
	}
	k.swept = time.Now()
	for key, seen := range k.objects {
		if time.Since(seen.at) > forgetAfter {
			delete(k.objects, key)
			_ = k.events.Action(watch.Deleted, seen.object)
		}
	}
}

// gone removes an object that the cloud has nothing of any more.
func (k *kind) gone(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seen := k.objects[key]; seen != nil {
		delete(k.objects, key)
		_ = k.events.Action(watch.Deleted, seen.object)
	}
}

// sameBut compares all but the version, which is this package's own.
func sameBut(stored, fresh runtime.Object) bool {
	accessor, err := meta.Accessor(stored)
	if err != nil {
		return false
	}
	fresh = fresh.DeepCopyObject()
	setVersion(fresh, accessor.GetResourceVersion())
	return equality.Semantic.DeepEqual(stored, fresh)
}

func setVersion(object runtime.Object, version string) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetResourceVersion(version)
	}
}

// clientBuilder is the cloudprovider.ControllerClientBuilder that Initialize gets.
type clientBuilder struct {
	// config is that of --kubeconfig; nil: client is the one in memory.
	config *rest.Config
	client kubernetes.Interface
}

func newClientBuilder(kubeconfig string, memory *cluster) (*clientBuilder, error) {
	if kubeconfig == "" {
		return &clientBuilder{client: memory.client}, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot use --kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot use --kubeconfig: %w", err)
	}
	return &clientBuilder{config, client}, nil
}

func (b *clientBuilder) Config(name string) (*rest.Config, error) {
	if b.config == nil {
		return nil, fmt.Errorf("the cloud's code wants an API server for %s, but the provider has no rights in "+
			"Kubernetes; name those of its own with --kubeconfig", name)
	}
	return rest.AddUserAgent(rest.CopyConfig(b.config), name), nil
}

func (b *clientBuilder) ConfigOrDie(name string) *rest.Config {
	config, err := b.Config(name)
	if err != nil {
		die(err)
	}
	return config
}

func (b *clientBuilder) Client(name string) (kubernetes.Interface, error) {
	if b.config == nil {
		return b.client, nil
	}
	config, err := b.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (b *clientBuilder) ClientOrDie(name string) kubernetes.Interface {
	client, err := b.Client(name)
	if err != nil {
		die(err)
	}
	return client
}

// die ends the process: the interface has no way to say that there is no client.
func die(err error) {
	provider.CallOf(context.Background()).Log.Error("provider ended", "error", err.Error())
	os.Exit(1)
}
