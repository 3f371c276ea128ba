// This file gives a cloud its clients of Kubernetes, and waits for the informers that its answers may rest on.

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/klog/v2"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// lacksRights is in the text of each refusal, also where a cloud has made an error of its own of it.
const lacksRights = "without rights of the provider's own in Kubernetes (--kubeconfig, --in-cluster)"

// refused is the text of an API server that refuses a request, or of a refusal of the adapter's own.
var refused = regexp.MustCompile(` is (forbidden): User ".*" (cannot) |(` + regexp.QuoteMeta(lacksRights) + `)`)

// isKubernetesRefusal tells whether a call failed because its cloud may not do something in Kubernetes. Most clouds hand
// on the text alone.
func isKubernetesRefusal(err error) bool {
	match := refused.FindStringSubmatch(err.Error())
	return apierrors.IsForbidden(err) || match != nil && !mayQuote(err, match...)
}

// rights are those that --kubeconfig or --in-cluster names; nil: the provider has none.
func (f flags) rights() (*rest.Config, error) {
	switch {
	case f.kubeconfig != "" && f.inCluster:
		return nil, errors.New("--kubeconfig and --in-cluster name rights in Kubernetes twice: leave one out")
	case f.kubeconfig != "":
		config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("cannot use --kubeconfig: %w", err)
		}
		return config, nil
	case f.inCluster:
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("cannot use --in-cluster: %w", err)
		}
		return config, nil
	default:
		return nil, nil
	}
}

// newClientBuilder makes clients with rights; nil: without. Effects are those that writes to the object of a call
// become; nil: none. It is upstream's own builder, which has more methods than the interface: a cloud may ask for them.
func newClientBuilder(rights *rest.Config, m *memory, effects *v1.EffectsCapability) cloudprovider.ControllerClientBuilder {
	config := &rest.Config{
		Host: "http://provider-without-rights.invalid", Transport: &objectsAPI{memory: m, effects: effects}, QPS: -1,
	}
	if rights != nil {
		config = withEffects(rights, m, effects)
	}
	return clientbuilder.SimpleControllerClientBuilder{ClientConfig: config}
}

// withEffects is a configuration of clients with rights whose writes may become effects.
func withEffects(rights *rest.Config, m *memory, effects *v1.EffectsCapability) *rest.Config {
	config := rest.CopyConfig(rights)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &objectsAPI{memory: m, effects: effects, next: next}
	})
	return config
}

// ClientBuilder returns a builder of the clients that the cloud of Wrap is initialized with, from the builder of a program
// that makes its own. Writes of the cloud to the Service or Node of a call become effects, as far as Effects declares
// them. An update of the Service or Node that the cloud was handed, which is a part of the real object,
// becomes a patch of what the cloud has changed, which takes the right to patch. All other requests are as they were.
func (o *Options) ClientBuilder(builder cloudprovider.ControllerClientBuilder) cloudprovider.ControllerClientBuilder {
	o.afterFlags()
	o.memory = newMemory()
	if simple, ok := builder.(clientbuilder.SimpleControllerClientBuilder); ok {
		return newClientBuilder(simple.ClientConfig, o.memory, o.Effects)
	}
	return &namedRights{builder, o}
}

// namedRights is a builder whose clients have different rights, by their names.
type namedRights struct {
	cloudprovider.ControllerClientBuilder
	options *Options
}

func (n *namedRights) Config(name string) (*rest.Config, error) {
	rights, err := n.ControllerClientBuilder.Config(name)
	if err != nil {
		return nil, err
	}
	return withEffects(rights, n.options.memory, n.options.Effects), nil
}

func (n *namedRights) ConfigOrDie(name string) *rest.Config { return orDie(n.Config(name)) }

func (n *namedRights) Client(name string) (kubernetes.Interface, error) {
	config, err := n.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (n *namedRights) ClientOrDie(name string) kubernetes.Interface { return orDie(n.Client(name)) }

// orDie ends the process: the interface has no way to say that there is no client.
func orDie[T any](value T, err error) T {
	if err != nil {
		klog.Fatal(err)
	}
	return value
}

// slowInformers is when a warning names the informers that have not synced.
const slowInformers = 10 * time.Second

// AwaitInformers starts the informers that the cloud's constructor, Initialize and SetInformers asked for, and returns once
// they have synced: the cloud's answers may rest on them. The error says that ctx ended before.
func AwaitInformers(ctx context.Context, factory informers.SharedInformerFactory) error {
	slow := time.AfterFunc(slowInformers, func() {
		slog.Warn("the provider is not served before its informers have synced; have they the right to list and watch?",
			"informers", unsynced(factory))
	})
	defer slow.Stop()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("stopped before the informer of %v had synced", kind)
		}
	}
	return nil
}

// unsynced names the informers that run and have not synced.
func unsynced(factory informers.SharedInformerFactory) []string {
	over := make(chan struct{})
	close(over) // for the state of this moment
	var kinds []string
	for kind, synced := range factory.WaitForCacheSync(over) {
		if !synced {
			kinds = append(kinds, kind.String())
		}
	}
	slices.Sort(kinds)
	return kinds
}
