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
		routes: func(_ context.Context, route *v1.Route) (provider.RouteChange, error) {
			if route.DestinationCidr == "10.0.0.0/24" {
				entered <- struct{}{}
				<-leave
			}
			return provider.Found(route), nil
		},
	}})
	s.handshake()
	client := v1.NewRoutesServiceClient(s.client)
	create := func(cidrs ...string) ([]*v1.RouteResult, error) {
		request := &v1.BatchCreateRoutesRequest{Context: attempt()}
		for _, cidr := range cidrs {
			request.Items = append(request.Items, &v1.Route{DestinationCidr: cidr, NodeName: "a"})
		}
		response, err := client.BatchCreateRoutes(t.Context(), request)
		return response.GetResults(), err
	}
	ended := make(chan error, 1)
	go func() { _, err := create("10.0.0.0/24"); ended <- err }()
	<-entered
	results, err := create("10.0.0.0/24", "10.0.1.0/24")
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for _, result := range results {
		isBusy := reasonIn(t, result.GetError()) == "OPERATION_IN_PROGRESS"
		if isBusy != (result.Key == "10.0.0.0/24") || isBusy == (result.GetFound() != nil) {
			t.Error(result)
		}
	}
	removed, err := client.BatchDeleteRoutes(t.Context(), &v1.BatchDeleteRoutesRequest{
		Context: attempt(), Items: []*v1.Route{{DestinationCidr: "10.0.1.0/24"}},
	})
	if err != nil || len(removed.Results) != 1 || removed.Results[0].GetAbsent() == nil {
		t.Error(removed, err)
	}
	leave <- struct{}{}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
