// These tests look up droplets.

package main

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/fakecloud"
)

func TestDropletIsFoundByIDAndByName(t *testing.T) {
	r := newRig(t, func(s *settings) { s.families, s.zoneIsRegion = "ipv6,ipv4", true })
	id := r.cloud.AddDroplet("Node-1")
	want := &v1.Instance{
		ProviderId: fmt.Sprintf("digitalocean://%d", id), NodeName: "node-1", InstanceType: "s-2vcpu-4gb",
		Region: "nyc3", Zone: "nyc3", PowerState: v1.PowerState_POWER_STATE_RUNNING,
		Addresses: []*v1.NodeAddress{
			{Type: "Hostname", Address: "node-1"}, {Type: "InternalIP", Address: "10.110.4.3"},
			{Type: "ExternalIP", Address: "2001:db8::3e9"}, {Type: "ExternalIP", Address: "203.0.113.3"},
		},
	}
	for _, node := range []*v1.Node{node("node-1", id), node("node-1", 0)} {
		if got := r.mustLookup(node)["node-1"].GetFound(); !proto.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestBatchIsOneListAndAbsenceIsAskedForByItself(t *testing.T) {
	r := newRig(t)
	r.cloud.MaxPage = 3
	var nodes []*v1.Node
	for index := range 8 {
		name := fmt.Sprintf("node-%d", index)
		nodes = append(nodes, node(name, r.cloud.AddDroplet(name)))
	}
	gone := r.cloud.AddDroplet("gone")
	r.cloud.RemoveDroplet(gone)
	nodes = append(nodes, node("gone", gone))
	got := r.mustLookup(nodes...)
	if len(got) != 9 || !isAbsent(got["gone"]) {
		t.Fatalf("%d results, the one that is gone: %v", len(got), got["gone"])
	}
	want := []string{"GET droplets", "GET droplets", "GET droplets", fmt.Sprintf("GET droplets/%d", gone)}
	if calls := r.cloud.TakeCalls(); !slices.Equal(calls, want) {
		t.Errorf("requests %q, want %q", calls, want)
	}
}

func TestAbsenceNeedsACertainAnswer(t *testing.T) {
	for _, status := range []int{401, 403, 429, 500, 503} {
		r := newRig(t)
		id := r.cloud.AddDroplet("node-1")
		r.cloud.Break(fakecloud.Fault{Path: "droplets", Times: 9, Status: status})
		if err := r.lookupError(node("node-1", id)); err == nil {
			t.Errorf("the answer %d is no error", status)
		}
	}
}

func TestOtherNodesAreLeftAlone(t *testing.T) {
	r := newRig(t)
	first, second := r.cloud.AddDroplet("twin"), r.cloud.AddDroplet("twin")
	foreign := &v1.Node{Name: "foreign", ProviderId: "aws:///i-1"}
	got := r.mustLookup(foreign, &v1.Node{Name: "wrong", ProviderId: "digitalocean://01"}, node("twin", 0),
		node("absent", 0), node("second", second))
	if !isAbsent(got["absent"]) || got["foreign"].GetNotManaged() == nil || got["second"].GetFound() == nil {
		t.Errorf("absent %v, foreign %v, second %v of %d", got["absent"], got["foreign"], got["second"], first)
	}
	r.wantReason(status.FromProto(got["wrong"].GetError()).Err(), provider.MalformedProviderID)
	r.wantReason(status.FromProto(got["twin"].GetError()).Err(), provider.ConflictingResource)
}

func TestPowerStates(t *testing.T) {
	r := newRig(t)
	id := r.cloud.AddDroplet("node-1")
	for state, want := range map[string]v1.PowerState{
		"new": v1.PowerState_POWER_STATE_PENDING, "active": v1.PowerState_POWER_STATE_RUNNING,
		"off": v1.PowerState_POWER_STATE_SHUTDOWN, "archive": v1.PowerState_POWER_STATE_SHUTDOWN,
		"resting": v1.PowerState_POWER_STATE_UNSPECIFIED,
	} {
		r.cloud.ChangeDroplet(id, func(droplet *fakecloud.Droplet) { droplet.Status = state })
		stream, err := r.instances.ListInstances(r.ctx, &v1.ListInstancesRequest{Context: r.call})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := stream.Recv()
		if err != nil || !listed.Complete || len(listed.Items) != 1 || listed.Items[0].PowerState != want {
			t.Errorf("%s: %v, %v", state, listed, err)
		}
	}
}

func TestTokenIsRotatedWithoutARestart(t *testing.T) {
	r := newRig(t)
	id := r.cloud.AddDroplet("node-1")
	r.cloud.Change(func(c *fakecloud.Cloud) { c.Tokens = []string{"second"} })
	r.wantReason(r.lookupError(node("node-1", id)), provider.CredentialsInvalid)
	if status := r.provider.Status(); status.Readiness != v1.Readiness_READINESS_DEGRADED {
		t.Errorf("with a refused token the status is %v", status)
	}
	r.writeToken("second")
	if err := r.lookupError(node("node-1", id)); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	if status := r.provider.Status(); status.Readiness != v1.Readiness_READINESS_READY {
		t.Errorf("with the new token the status is %v", status)
	}
	r.writeToken("") // as while a file is being written: the last token stays
	if err := r.lookupError(node("node-1", id)); err != nil {
		t.Errorf("with an empty file: %v", err)
	}
}

func TestRateLimitNamesItsPause(t *testing.T) {
	r := newRig(t)
	id := r.cloud.AddDroplet("node-1")
	r.cloud.Break(fakecloud.Fault{Times: 1, Status: 429, RetryAfter: 17})
	if pause := r.wantReason(r.lookupError(node("node-1", id)), provider.RateLimited); pause.Seconds() != 17 {
		t.Errorf("the pause is %v, want Retry-After's 17 s", pause)
	}
	r.cloud.RequestsPerHour = 1 // spent by the first look
	pause := r.wantReason(r.lookupError(node("node-1", id)), provider.RateLimited)
	if pause.Seconds() < 60 || pause.Seconds() > 91 {
		t.Errorf("the pause is %v, want the time until RateLimit-Reset", pause)
	}
	quotas := r.provider.Status().Quotas
	if len(quotas) != 1 || quotas[0].Limit != 1 || quotas[0].Remaining != 0 {
		t.Errorf("the budget is %v", quotas)
	}
}
