// This test changes one route from two calls.

package provider_test

import (
	"context"
	"testing"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

func TestARouteIsChangedOnceAtATime(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, &provider.Provider{Routes: &cloud{
		routes: func(_ context.Context, route *v1.Route) (*v1.CreateRouteResponse, error) {
			if route.DestinationCidr != "10.0.1.0/24" {
				entered <- struct{}{}
				<-leave
			}
			return &v1.CreateRouteResponse{Found: route}, nil
		},
	}})
	s.handshake()
	client := v1.NewRoutesServiceClient(s.client)
	create := func(cidr string) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := client.CreateRoute(t.Context(), &v1.CreateRouteRequest{
				Context: attempt(), Route: &v1.Route{DestinationCidr: cidr, NodeName: "a"},
			})
			ended <- err
		}()
		return ended
	}
	first := create("10.0.0.0/24")
	<-entered
	again := create("10.0.0.7/24") // the same in another spelling
	if err := <-create("10.0.1.0/24"); err != nil {
		t.Error("the other one is held up:", err)
	}
	select {
	case <-entered:
		t.Fatal("two changes of one route overlapped")
	case err := <-again:
		t.Fatal("the second change did not wait for the first", err)
	case leave <- struct{}{}:
	}
	<-entered
	leave <- struct{}{}
	for _, ended := range []<-chan error{first, again} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	removed, err := client.DeleteRoute(t.Context(), &v1.DeleteRouteRequest{
		Context: attempt(), Route: &v1.Route{DestinationCidr: "10.0.1.0/24"},
	})
	if err != nil || removed.Absent == nil {
		t.Error(removed, err)
	}
}
