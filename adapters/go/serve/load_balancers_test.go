// These tests change load balancers of a cloud that is slow, busy or wrong, and hold that the Nodes of a revision are built once.

package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// balancers are load balancers that a test scripts.
type balancers struct {
	get    func() (*corev1.LoadBalancerStatus, bool, error)
	ensure func(context.Context, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error)
	update func() error
	remove func() error
}

func (b *balancers) GetLoadBalancer(context.Context, string, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return b.get()
}

func (b *balancers) GetLoadBalancerName(context.Context, string, *corev1.Service) string { return "" }

func (b *balancers) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return b.ensure(ctx, service, nodes)
}

func (b *balancers) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return b.update()
}

func (b *balancers) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return b.remove()
}

func service() *v1.Service {
	return &v1.Service{Namespace: "n", Name: "s", Uid: "1", Type: "LoadBalancer", Ports: []*v1.ServicePort{{
		Port: 80, NodePort: 30080, Protocol: "TCP", TargetPort: "http",
	}}}
}

func inline(nodes ...*v1.Node) *v1.NodeTargets {
	return &v1.NodeTargets{Targets: &v1.NodeTargets_Inline{Inline: &v1.InlineNodes{Nodes: nodes}}}
}

func TestEnsureAnswersWhatTheCloudSays(t *testing.T) {
	ready := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "ELB-Web.Example.com."}}}
	for name, test := range map[string]struct {
		status *corev1.LoadBalancerStatus
		err    error
		is     v1.LoadBalancerDisposition
		reason string
		text   string
	}{
		"ready":           {status: ready, is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY},
		"an empty status": {status: &corev1.LoadBalancerStatus{}, is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY},
		"nothing":         {reason: "CLOUD_ERROR", text: "service status returned by EnsureLoadBalancer is nil"}, // upstream's words
		"elsewhere":       {err: cloudprovider.ImplementedElsewhere, is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED},
		"wrapped":         {err: fmt.Errorf("a: %w", cloudprovider.ImplementedElsewhere), is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_NOT_MANAGED},
		"retry":           {err: fmt.Errorf("a: %w", api.NewRetryError("soon", 7*time.Second)), is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS},
		"not implemented": {err: cloudprovider.NotImplemented, reason: "CLOUD_ERROR", text: "unimplemented"}, // tried again, as by upstream
		"an error":        {err: errors.New("no address left"), reason: "CLOUD_ERROR", text: "no address left"},
		"own class":       {err: errors.New("quota"), reason: "QUOTA_EXCEEDED"},
	} {
		classify := func(err error) *provider.Error {
			if err.Error() == "quota" {
				return provider.Errorf(provider.QuotaExceeded, "%w", err)
			}
			return nil
		}
		var got *corev1.Service
		client, _ := serving(t, Options{Classify: classify}, &cloud{balancers: &balancers{
			ensure: func(_ context.Context, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
				got = service
				return test.status, test.err
			},
		}})
		response, err := v1.NewLoadBalancersServiceClient(client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service(), Targets: inline(&v1.Node{Name: "a"}),
		})
		if reason := reasonIn(t, status.Convert(err).Proto()); reason != test.reason || response.GetAnswer().GetDisposition() != test.is {
			t.Errorf("%s: %v %v", name, response, err)
		}
		if text := status.Convert(err).Message(); test.text != "" && text != test.text {
			t.Errorf("%s: %q", name, text)
		}
		if name == "retry" && (response.Answer.RetryAfter.AsDuration() != 7*time.Second || response.Answer.Message != "a: soon") {
			t.Error(response)
		}
		if name == "ready" && response.Answer.Status.Ingress[0].Hostname != "elb-web.example.com" {
			t.Error(response)
		}
		if elsewhere := response.GetAnswer().GetAddressElsewhere(); elsewhere != (name == "an empty status") {
			t.Errorf("%s: %v", name, response)
		}
		if got.Spec.Ports[0].TargetPort.StrVal != "http" || got.UID != "1" || got.Spec.Type != corev1.ServiceTypeLoadBalancer {
			t.Error(got)
		}
	}
}

// The interface promises only the bool: a status without an address says nothing.
func TestALoadBalancerThatExistsWithoutAStatusIsAsItWas(t *testing.T) {
	for name, test := range map[string]struct {
		status *corev1.LoadBalancerStatus
		ips    int
	}{
		"nil":     {nil, -1},
		"empty":   {&corev1.LoadBalancerStatus{}, -1},
		"address": {&corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}, 1},
	} {
		client, _ := serving(t, Options{}, &cloud{balancers: &balancers{
			get: func() (*corev1.LoadBalancerStatus, bool, error) { return test.status, true, nil },
		}})
		response, err := v1.NewLoadBalancersServiceClient(client).GetLoadBalancer(t.Context(), &v1.GetLoadBalancerRequest{
			Context: attempt(), Service: service(), Targets: inline(),
		})
		answer := response.GetAnswer()
		ips := -1
		if answer.GetStatus() != nil {
			ips = len(answer.Status.Ingress)
		}
		if err != nil || answer.Disposition != v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY || ips != test.ips {
			t.Errorf("%s: %v %v", name, response, err)
		}
	}
}

// Upstream takes ImplementedElsewhere as success.
func TestAFailedUpdateAsksWhetherThereIsAnything(t *testing.T) {
	failed := errors.New("not updated")
	for name, test := range map[string]struct {
		err    error
		exists bool
		getErr error
		is     v1.LoadBalancerDisposition
	}{
		"gone":      {err: failed, is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT},
		"there":     {err: failed, exists: true},
		"unknown":   {err: failed, getErr: errors.New("no")},
		"elsewhere": {err: cloudprovider.ImplementedElsewhere, is: v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY},
	} {
		client, _ := serving(t, Options{}, &cloud{balancers: &balancers{
			update: func() error { return test.err },
			get:    func() (*corev1.LoadBalancerStatus, bool, error) { return nil, test.exists, test.getErr },
		}})
		response, err := v1.NewLoadBalancersServiceClient(client).UpdateLoadBalancerNodes(t.Context(), &v1.UpdateLoadBalancerNodesRequest{
			Context: attempt(), Service: service(), Targets: inline(),
		})
		if response.GetAnswer().GetDisposition() != test.is || (err != nil && status.Convert(err).Message() != "not updated") {
			t.Errorf("%s: %v %v", name, response, err)
		}
	}
}

func TestACallThatTakesLongGoesOnAndIsHandedOver(t *testing.T) {
	var running, calls, most atomic.Int32
	finish := make(chan struct{})
	client, _ := serving(t, Options{AnswerWithin: 20 * time.Millisecond}, &cloud{balancers: &balancers{
		ensure: func(ctx context.Context, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			calls.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-finish
			return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}, ctx.Err()
		},
		remove: func() error { return nil },
	}})
	balancing := v1.NewLoadBalancersServiceClient(client)
	ensure := func(uid string) *v1.LoadBalancerAnswer {
		want := service()
		want.Uid = uid
		response, err := balancing.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: want, Targets: inline(&v1.Node{Name: "a"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return response.Answer
	}
	inProgress := v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS
	for range 2 {
		if answer := ensure("1"); answer.Disposition != inProgress || !strings.Contains(answer.Message, "has not returned yet") {
			t.Fatal(answer)
		}
	}
	if answer := ensure("2"); answer.Disposition != inProgress || !strings.Contains(answer.Message, "waits for another call") {
		t.Fatal(answer)
	}
	gone, err := balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: service()})
	if err != nil || gone.Answer.Disposition != inProgress {
		t.Fatal(gone, err)
	}
	if calls.Load() != 1 {
		t.Fatalf("%d calls were begun", calls.Load())
	}
	finish <- struct{}{}
	until(t, "the result of the first call", func() bool {
		return ensure("1").Disposition == v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY
	})
	if calls.Load() != 1 {
		t.Fatal("the call was made again, though its result was there")
	}
	close(finish)
	until(t, "the result of the second call", func() bool {
		return ensure("2").Disposition == v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY
	})
	until(t, "the result of the deletion", func() bool {
		gone, err = balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: service()})
		return err == nil && gone.Answer.Disposition == v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_ABSENT
	})
	if most.Load() != 1 {
		t.Fatal("two load balancers were changed at one time")
	}
}

func TestACallThatOutlivesItsLimitKeepsNoOtherServiceWaiting(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	options := Options{AnswerWithin: 20 * time.Millisecond, CallLimit: 40 * time.Millisecond}
	client, _ := serving(t, options, &cloud{balancers: &balancers{
		ensure: func(_ context.Context, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			if service.UID == "hangs" {
				<-release // whatever its context says
			}
			return &corev1.LoadBalancerStatus{}, nil
		},
	}})
	ensure := func(uid string) v1.LoadBalancerDisposition {
		want := service()
		want.Uid = uid
		response, err := v1.NewLoadBalancersServiceClient(client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: want, Targets: inline(&v1.Node{Name: "a"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return response.Answer.Disposition
	}
	inProgress, ready := v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_IN_PROGRESS, v1.LoadBalancerDisposition_LOAD_BALANCER_DISPOSITION_READY
	if got := ensure("hangs"); got != inProgress {
		t.Fatal(got)
	}
	until(t, "the other Service", func() bool { return ensure("other") == ready })
	if got := ensure("hangs"); got != inProgress {
		t.Error("the call that hangs was begun again", got)
	}
}

func TestAPanicIsAnErrorOfItsService(t *testing.T) {
	client, _ := serving(t, Options{}, &cloud{balancers: &balancers{remove: func() error { panic("secret") }}})
	_, err := v1.NewLoadBalancersServiceClient(client).DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{
		Context: attempt(), Service: service(),
	})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "panicked") {
		t.Fatal(err)
	}
}

func TestAPanicOfClassifyIsAnErrorOfItsService(t *testing.T) {
	classify := func(error) *provider.Error { panic("secret") }
	client, _ := serving(t, Options{Classify: classify}, &cloud{balancers: &balancers{
		remove: func() error { return errors.New("no") },
	}})
	for range 2 { // the process is there after the first
		_, err := v1.NewLoadBalancersServiceClient(client).DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{
			Context: attempt(), Service: service(),
		})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "panicked") {
			t.Fatal(err)
		}
	}
}

// sendTargets sends a set of Nodes.
func sendTargets(t *testing.T, connection *grpc.ClientConn, revision string, names ...string) {
	t.Helper()
	var nodes []*v1.Node
	for _, name := range names {
		nodes = append(nodes, &v1.Node{Name: name, PodCidrs: []string{"10.0.0.0/24"}, Ready: "True"})
	}
	stream, err := v1.NewNodeSetsServiceClient(connection).SyncNodeSet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&v1.SyncNodeSetRequest{
		Context: attempt(), Nodes: nodes, Complete: true, Revision: revision, NodeCount: uint32(len(nodes)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
}

func TestNodesAreBuiltOncePerRevision(t *testing.T) {
	var calls [][]*corev1.Node
	connection, _ := serving(t, Options{}, &cloud{balancers: &balancers{
		ensure: func(_ context.Context, _ *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			calls = append(calls, nodes)
			return &corev1.LoadBalancerStatus{}, nil
		},
	}})
	sendTargets(t, connection, "1", "a")
	for range 2 {
		_, err := v1.NewLoadBalancersServiceClient(connection).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service(),
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{Revision: "1"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(calls) != 2 || calls[0][0] != calls[1][0] || calls[0][0].Spec.PodCIDR != "10.0.0.0/24" ||
		calls[0][0].Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Fatal(calls)
	}
}

// Upstream makes a slice for each call, so clouds leave Nodes out of it in place.
func TestACloudThatFiltersItsNodesInPlaceChangesThemForNoOtherService(t *testing.T) {
	var last []string
	connection, _ := serving(t, Options{}, &cloud{balancers: &balancers{
		ensure: func(_ context.Context, _ *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			last = nil
			for _, node := range nodes {
				last = append(last, node.Name)
			}
			_ = append(nodes[:0], nodes[1:]...)
			return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}, nil
		},
	}})
	sendTargets(t, connection, "1", "a", "b", "c")
	for range 3 {
		_, err := v1.NewLoadBalancersServiceClient(connection).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service(),
			Targets: &v1.NodeTargets{Targets: &v1.NodeTargets_Ref{Ref: &v1.NodeSetRef{Revision: "1"}}},
		})
		if err != nil || !slices.Equal(last, []string{"a", "b", "c"}) {
			t.Fatal(last, err)
		}
	}
}
