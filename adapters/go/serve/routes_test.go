// These tests create and delete routes of a cloud.

package serve

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/status"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// table is a route table.
type table struct{ routes []*cloudprovider.Route }

func (r *table) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	return r.routes, nil
}

func (r *table) CreateRoute(_ context.Context, cluster, hint string, route *cloudprovider.Route) error {
	made := *route
	made.Name = cluster + "-" + hint
	r.routes = append(r.routes, &made)
	return nil
}

func (r *table) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	for index, table := range r.routes {
		if table.Name == route.Name {
			r.routes = append(r.routes[:index], r.routes[index+1:]...)
			return nil
		}
	}
	return fmt.Errorf("no route %q", route.Name)
}

func TestRoutesAreMadeAndDeletedAsTheyAreListed(t *testing.T) {
	table := &table{}
	client, _ := serving(t, Options{}, &cloud{table: table})
	routing := v1.NewRoutesServiceClient(client)
	route := &v1.Route{DestinationCidr: "10.0.1.0/24", NodeName: "a", NodeUid: "uid"}
	create := func(route *v1.Route) (*v1.Route, error) {
		made, err := routing.CreateRoute(t.Context(), &v1.CreateRouteRequest{Context: attempt(), Route: route})
		return made.GetFound(), err
	}
	if made, err := create(route); made == nil || err != nil || table.routes[0].Name != "c-uid" {
		t.Fatal(made, err)
	}
	listed := listed(t, routing)
	if listed[0].NodeName != "a" || listed[0].Name != "c-uid" {
		t.Fatal(listed)
	}
	if again, err := create(route); err != nil || again.GetName() != "c-uid" || len(table.routes) != 1 {
		t.Fatal(again, err)
	}
	other, err := create(&v1.Route{DestinationCidr: "10.0.1.0/24", NodeName: "b"})
	if reasonIn(t, status.Convert(err).Proto()) != "CONFLICTING_RESOURCE" || len(table.routes) != 1 {
		t.Fatal(other, err)
	}
	for range 2 { // without a name, and again when it is gone
		gone, err := routing.DeleteRoute(t.Context(), &v1.DeleteRouteRequest{Context: attempt(), Route: route})
		if err != nil || gone.Absent == nil || len(table.routes) != 0 {
			t.Fatal(gone, err)
		}
	}
}

func listed(t *testing.T, routing v1.RoutesServiceClient) []*v1.Route {
	t.Helper()
	stream, err := routing.ListRoutes(t.Context(), &v1.ListRoutesRequest{Context: attempt()})
	if err != nil {
		t.Fatal(err)
	}
	page, err := stream.Recv()
	if err != nil || !page.Complete || len(page.Items) == 0 {
		t.Fatal(page, err)
	}
	return page.Items
}

func TestATargetThatIsAProviderIDIsSentAsOne(t *testing.T) {
	table := &table{routes: []*cloudprovider.Route{{Name: "r", DestinationCIDR: "10.0.1.0/24", TargetNode: "test://a"}}}
	client, _ := serving(t, Options{}, &cloud{table: table})
	routing := v1.NewRoutesServiceClient(client)
	create := func(id string) (*v1.CreateRouteResponse, error) {
		return routing.CreateRoute(t.Context(), &v1.CreateRouteRequest{
			Context: attempt(), Route: &v1.Route{DestinationCidr: "10.0.1.0/24", NodeName: "a", ProviderId: id},
		})
	}
	if made, err := create("test://a"); err != nil || made.GetFound().GetProviderId() != "test://a" || len(table.routes) != 1 {
		t.Fatal(made, err)
	}
	if made, err := create("test://b"); reasonIn(t, status.Convert(err).Proto()) != "CONFLICTING_RESOURCE" {
		t.Fatal(made, err)
	}
	route := listed(t, routing)[0]
	if route.ProviderId != "test://a" || route.NodeName != "" {
		t.Fatal(route)
	}
	gone, err := routing.DeleteRoute(t.Context(), &v1.DeleteRouteRequest{Context: attempt(), Route: route})
	if err != nil || gone.Absent == nil || len(table.routes) != 0 {
		t.Fatal(gone, err)
	}
}

// slowTable takes a minute for its list, and makes no route before it is let.
type slowTable struct {
	table
	finish chan struct{}
	begun  atomic.Int32
}

func (s *slowTable) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	time.Sleep(time.Minute)
	return nil, nil
}

func (s *slowTable) CreateRoute(context.Context, string, string, *cloudprovider.Route) error {
	s.begun.Add(1)
	<-s.finish
	return nil
}

func TestASlowTableIsWaitedForAndADestinationChangedByOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, outcomes := &slowTable{finish: make(chan struct{})}, newOutcomes(nil)
		defer close(table.finish)
		routes, _ := newRoutes(Options{RouteConcurrency: 2}, &cloud{table: table}, newMemory(), outcomes, func(most int) *bridge {
			return newBridge(t.Context(), 45*time.Second, time.Hour, most, outcomes)
		})
		for _, destination := range []string{"fd00::/64", "fd00:0::/64"} {
			_, err := routes.CreateRoute(t.Context(), &v1.Route{DestinationCidr: destination, NodeName: "a"})
			if named, ok := errors.AsType[*provider.Error](err); !ok || named.Reason != provider.OperationInProgress || table.begun.Load() != 1 {
				t.Error(destination, err)
			}
		}
	})
}

func TestARouteThatLeadsNowhereIsDeletedByItsDestination(t *testing.T) {
	nowhere := &cloudprovider.Route{Name: "r", DestinationCIDR: "10.0.1.0/24", Blackhole: true}
	route := &v1.Route{DestinationCidr: "10.0.1.0/24", NodeName: "a"}
	for name, deletion := range map[string]*v1.Route{
		"as it was sent":   route,
		"as it was listed": {Name: "r", DestinationCidr: "10.0.1.0/24", Blackhole: true},
	} {
		table := &table{routes: []*cloudprovider.Route{nowhere}}
		client, _ := serving(t, Options{}, &cloud{table: table})
		routing := v1.NewRoutesServiceClient(client)
		made, err := routing.CreateRoute(t.Context(), &v1.CreateRouteRequest{Context: attempt(), Route: route})
		if reasonIn(t, status.Convert(err).Proto()) != "CONFLICTING_RESOURCE" || len(table.routes) != 1 {
			t.Fatal(name, made, err)
		}
		gone, err := routing.DeleteRoute(t.Context(), &v1.DeleteRouteRequest{Context: attempt(), Route: deletion})
		if err != nil || gone.Absent == nil || len(table.routes) != 0 {
			t.Fatal(name, gone, err)
		}
	}
	// A route that leads to another Node is not the one that is named, blackhole or not.
	other := &table{routes: []*cloudprovider.Route{{Name: "r", DestinationCIDR: "10.0.1.0/24", TargetNode: "b", Blackhole: true}}}
	client, _ := serving(t, Options{}, &cloud{table: other})
	_, err := v1.NewRoutesServiceClient(client).DeleteRoute(t.Context(), &v1.DeleteRouteRequest{Context: attempt(), Route: route})
	if err != nil || len(other.routes) != 1 {
		t.Fatal(other.routes, err)
	}
}
