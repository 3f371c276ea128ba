// These tests change load balancers through a real socket.

package provider_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

func TestAServiceIsChangedOnceAtATimeBeyondItsCaller(t *testing.T) {
	entered := make(chan context.Context)
	leave := map[string]chan struct{}{"1": make(chan struct{}), "2": make(chan struct{})}
	s := serve(t, &provider.Provider{LoadBalancers: &cloud{
		ensure: func(ctx context.Context, service *v1.Service, _ *provider.Targets) (*v1.LoadBalancerAnswer, error) {
			entered <- ctx
			<-leave[service.Uid]
			return provider.LoadBalancerReady(), nil
		},
	}})
	s.handshake()
	client := v1.NewLoadBalancersServiceClient(s.client)
	ensure := func(ctx context.Context, uid string) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := client.EnsureLoadBalancer(ctx, &v1.EnsureLoadBalancerRequest{
				Context: attempt(), Service: &v1.Service{Namespace: "n", Name: "s", Uid: uid},
				Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{}}},
			})
			ended <- err
		}()
		return ended
	}
	ctx, abandon := context.WithCancel(t.Context())
	first := ensure(ctx, "1")
	handler := <-entered
	abandon()
	if err := <-first; status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
	until(t, "Check to say that the caller is gone", func() bool { return provider.Check(handler) != nil })
	if handler.Err() != nil {
		t.Fatal("a cloud request in flight would have been cut off")
	}
	again := ensure(t.Context(), "1")
	other := ensure(t.Context(), "2")
	<-entered // the other Service is not held up; the same one would block here and fail below
	leave["2"] <- struct{}{}
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	select {
	case <-entered:
		t.Fatal("two changes of one Service overlapped")
	case err := <-again:
		t.Fatal("the second change did not wait for the first", err)
	case leave["1"] <- struct{}{}:
	}
	<-entered
	leave["1"] <- struct{}{}
	if err := <-again; err != nil {
		t.Fatal(err)
	}
}

func TestAPanicIsAnErrorOfItsService(t *testing.T) {
	s := serve(t, &provider.Provider{LoadBalancers: &cloud{
		update: func(_ context.Context, service *v1.Service, _ *provider.Targets) (*v1.LoadBalancerAnswer, error) {
			if service.Name == "panics" {
				panic("oh")
			}
			return provider.LoadBalancerUpdated(), nil
		},
	}})
	s.handshake()
	for name, code := range map[string]codes.Code{"s": codes.OK, "panics": codes.Internal} {
		response, err := v1.NewLoadBalancersServiceClient(s.client).UpdateLoadBalancerNodes(t.Context(), &v1.UpdateLoadBalancerNodesRequest{
			Context: attempt(), Service: &v1.Service{Namespace: "n", Name: name, Uid: name},
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{}}},
		})
		if status.Code(err) != code || (err == nil) != (response.GetAnswer() != nil) {
			t.Error(name, response, err)
		}
	}
}

func TestTheIdentityOfTheLastAnswerReachesTheHandler(t *testing.T) {
	hints := make(chan string, 1)
	hinted := func(ctx context.Context, _ *v1.Service, _ *provider.Targets) (*v1.LoadBalancerAnswer, error) {
		hints <- provider.CallOf(ctx).Identity.GetId()
		return provider.LoadBalancerUpdated(), nil
	}
	s := serve(t, &provider.Provider{LoadBalancers: &cloud{ensure: hinted, update: hinted}})
	s.handshake()
	client := v1.NewLoadBalancersServiceClient(s.client)
	none := &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{}}}
	_, err := client.UpdateLoadBalancerNodes(t.Context(), &v1.UpdateLoadBalancerNodesRequest{
		Context: attempt(), Service: &v1.Service{Uid: "1"}, Targets: none, Identity: &v1.LoadBalancerIdentity{Id: "lb-1"},
	})
	if hint := <-hints; err != nil || hint != "lb-1" {
		t.Error(hint, err)
	}
	_, err = client.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{Context: attempt(), Service: &v1.Service{Uid: "1"}, Targets: none})
	if hint := <-hints; err != nil || hint != "" {
		t.Error(hint, err)
	}
}
