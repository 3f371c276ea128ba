// These tests create and delete routes of a cloud.

package serve

import (
	"context"
	"fmt"
	"testing"

	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
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
	made, err := routing.BatchCreateRoutes(t.Context(), &v1.BatchCreateRoutesRequest{Context: attempt(), Items: []*v1.Route{route}})
	if err != nil || made.Results[0].GetFound() == nil || table.routes[0].Name != "c-uid" {
		t.Fatal(made, err)
	}
	stream, err := routing.ListRoutes(t.Context(), &v1.ListRoutesRequest{Context: attempt()})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := stream.Recv()
	if err != nil || !listed.Complete || listed.Items[0].NodeName != "a" || listed.Items[0].Name != "c-uid" {
		t.Fatal(listed, err)
	}
	again, err := routing.BatchCreateRoutes(t.Context(), &v1.BatchCreateRoutesRequest{Context: attempt(), Items: []*v1.Route{route}})
	if err != nil || again.Results[0].GetFound() == nil || again.Results[0].GetFound().Name != "c-uid" || len(table.routes) != 1 {
		t.Fatal(again, err)
	}
	other, err := routing.BatchCreateRoutes(t.Context(), &v1.BatchCreateRoutesRequest{
		Context: attempt(), Items: []*v1.Route{{DestinationCidr: "10.0.1.0/24", NodeName: "b"}},
	})
	if err != nil || reasonIn(t, other.Results[0].GetError()) != "CONFLICTING_RESOURCE" || len(table.routes) != 1 {
		t.Fatal(other, err)
	}
	for range 2 { // without a name, and again when it is gone
		gone, err := routing.BatchDeleteRoutes(t.Context(), &v1.BatchDeleteRoutesRequest{Context: attempt(), Items: []*v1.Route{route}})
		if err != nil || gone.Results[0].GetAbsent() == nil || len(table.routes) != 0 {
			t.Fatal(gone, err)
		}
	}
}

func TestATargetThatIsAProviderIDIsSentAsOne(t *testing.T) {
	table := &table{routes: []*cloudprovider.Route{{Name: "r", DestinationCIDR: "10.0.1.0/24", TargetNode: "test://a"}}}
	client, _ := serving(t, Options{}, &cloud{table: table})
	routing := v1.NewRoutesServiceClient(client)
	create := func(id string) *v1.RouteResult {
		t.Helper()
		made, err := routing.BatchCreateRoutes(t.Context(), &v1.BatchCreateRoutesRequest{
			Context: attempt(), Items: []*v1.Route{{DestinationCidr: "10.0.1.0/24", NodeName: "a", ProviderId: id}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return made.Results[0]
	}
	if made := create("test://a"); made.GetFound() == nil || made.GetFound().ProviderId != "test://a" || len(table.routes) != 1 {
		t.Fatal(made)
	}
	if made := create("test://b"); reasonIn(t, made.GetError()) != "CONFLICTING_RESOURCE" {
		t.Fatal(made)
	}
	stream, err := routing.ListRoutes(t.Context(), &v1.ListRoutesRequest{Context: attempt()})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := stream.Recv()
	if err != nil || listed.Items[0].ProviderId != "test://a" || listed.Items[0].NodeName != "" {
		t.Fatal(listed, err)
	}
	gone, err := routing.BatchDeleteRoutes(t.Context(), &v1.BatchDeleteRoutesRequest{Context: attempt(), Items: listed.Items})
	if err != nil || gone.Results[0].GetAbsent() == nil || len(table.routes) != 0 {
		t.Fatal(gone, err)
	}
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
		made, err := routing.BatchCreateRoutes(t.Context(), &v1.BatchCreateRoutesRequest{Context: attempt(), Items: []*v1.Route{route}})
		if err != nil || reasonIn(t, made.Results[0].GetError()) != "CONFLICTING_RESOURCE" || len(table.routes) != 1 {
			t.Fatal(name, made, err)
		}
		gone, err := routing.BatchDeleteRoutes(t.Context(), &v1.BatchDeleteRoutesRequest{Context: attempt(), Items: []*v1.Route{deletion}})
		if err != nil || gone.Results[0].GetAbsent() == nil || len(table.routes) != 0 {
			t.Fatal(name, gone, err)
		}
	}
	// A route that leads to another Node is not the one that is named, blackhole or not.
	other := &table{routes: []*cloudprovider.Route{{Name: "r", DestinationCIDR: "10.0.1.0/24", TargetNode: "b", Blackhole: true}}}
	client, _ := serving(t, Options{}, &cloud{table: other})
	_, err := v1.NewRoutesServiceClient(client).BatchDeleteRoutes(t.Context(),
		&v1.BatchDeleteRoutesRequest{Context: attempt(), Items: []*v1.Route{route}})
	if err != nil || len(other.routes) != 1 {
		t.Fatal(other.routes, err)
	}
}
