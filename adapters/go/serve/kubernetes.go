// This file gives a cloud its clients of Kubernetes.

package serve

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"outrigger.dev/adapters/go/provider"
)

// clientBuilder is the cloudprovider.ControllerClientBuilder that Initialize gets: of --kubeconfig, or of the
// memory.
type clientBuilder struct{ config *rest.Config }

func newClientBuilder(kubeconfig string, m *memory) (*clientBuilder, error) {
	if kubeconfig == "" {
		return &clientBuilder{(&memoryAPI{get: m.get}).config()}, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot use --kubeconfig: %w", err)
	}
	return &clientBuilder{config}, nil
}

func (b *clientBuilder) Config(name string) (*rest.Config, error) {
	return rest.AddUserAgent(rest.CopyConfig(b.config), name), nil
}

func (b *clientBuilder) ConfigOrDie(name string) *rest.Config {
	return orDie(b.Config(name))
}

func (b *clientBuilder) Client(name string) (kubernetes.Interface, error) {
	config, err := b.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (b *clientBuilder) ClientOrDie(name string) kubernetes.Interface {
	return orDie(b.Client(name))
}

// orDie ends the process: the interface has no way to say that there is no client.
func orDie[T any](value T, err error) T {
	if err != nil {
		provider.CallOf(context.Background()).Log.Error("provider ended", "error", err.Error())
		os.Exit(1)
	}
	return value
}
