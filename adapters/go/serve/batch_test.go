// These tests look up Nodes in batches, and change load balancers of several Services at the same time.

package serve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// fleet is a cloud that answers about many Nodes with one call, and that nothing asks about a single one.
type fleet struct {
	cloudprovider.InstancesV2
	answer func(names []string) (map[string]InstanceResult, error)
	calls  [][]string
}

func (f *fleet) InstancesByNode(_ context.Context, nodes []*corev1.Node) (map[string]InstanceResult, error) {
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	f.calls = append(f.calls, names)
	return f.answer(names)
}

func named(names ...string) []*v1.Node {
	var nodes []*v1.Node
	for _, name := range names {
		nodes = append(nodes, &v1.Node{Name: name, ProviderId: "test://" + name})
	}
	return nodes
}

func TestABatchIsOneCallOfTheCloud(t *testing.T) {
	metadata := func(id string) *cloudprovider.InstanceMetadata {
		return &cloudprovider.InstanceMetadata{ProviderID: id, Zone: "z"}
	}
	results := map[string]InstanceResult{
		"running":           {Metadata: metadata("test://running")},
		"shut-down":         {Metadata: metadata(""), Shutdown: true},
		"absent":            {Absent: true},
		"absent-and-found":  {Absent: true, Metadata: metadata("test://absent-and-found")},
		"absent-and-failed": {Absent: true, Err: errors.New("no")},
		"not-visible":       {Err: cloudprovider.InstanceNotFound},
		"failed":            {Err: &refusal{403}},
		"foreign":           {Metadata: metadata("other://1")},
		"nothing":           {},
	}
	cloudOf := &fleet{answer: func([]string) (map[string]InstanceResult, error) { return results, nil }}
	client, offered := serving(t, Options{}, &cloud{machines: cloudOf})
	capability := offered.Capabilities.Instances
	if capability.LookupPreference != v1.LookupPreference_LOOKUP_PREFERENCE_BATCH || capability.MaxBatchSize != maxBatch {
		t.Error(capability)
	}
	confirmed, invisible := v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED, v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET
	power := func(state v1.PowerState) func(*v1.InstanceResult) bool {
		return func(r *v1.InstanceResult) bool {
			return r.GetFound().GetZone() == "z" && r.GetFound().PowerState == state && r.GetFound().ProviderId == "test://"+r.Key
		}
	}
	is := map[string]func(*v1.InstanceResult) bool{
		"running":          power(v1.PowerState_POWER_STATE_RUNNING),
		"shut-down":        power(v1.PowerState_POWER_STATE_SHUTDOWN),
		"absent":           func(r *v1.InstanceResult) bool { return r.GetAbsent().GetCertainty() == confirmed },
		"absent-and-found": power(v1.PowerState_POWER_STATE_RUNNING),
		"not-visible":      func(r *v1.InstanceResult) bool { return r.GetAbsent().GetCertainty() == invisible },
		"failed":           func(r *v1.InstanceResult) bool { return reasonIn(t, r.GetError()) == "PERMISSION_MISSING" },
		"absent-and-failed": func(r *v1.InstanceResult) bool {
			return reasonIn(t, r.GetError()) == "CLOUD_ERROR"
		},
		"foreign": func(r *v1.InstanceResult) bool {
			return strings.Contains(r.GetError().GetMessage(), "ProviderIDPrefixes")
		},
		"nothing":  func(r *v1.InstanceResult) bool { return r.GetError() != nil },
		"left-out": func(r *v1.InstanceResult) bool { return r.Outcome == nil },
		"others":   func(r *v1.InstanceResult) bool { return r.GetNotManaged() != nil },
	}
	nodes := []*v1.Node{{Name: "others", ProviderId: "other://1"}}
	for name := range is {
		if name != "others" {
			nodes = append(nodes, named(name)...)
		}
	}
	request := &v1.BatchGetInstancesRequest{Context: attempt(), Items: nodes, View: v1.InstanceView_INSTANCE_VIEW_FULL}
	response, err := v1.NewInstancesServiceClient(client).BatchGetInstances(t.Context(), request)
	if err != nil || len(response.Results) != len(is) {
		t.Fatal(response, err)
	}
	for _, result := range response.Results {
		if !is[result.Key](result) {
			t.Errorf("%s: %v", result.Key, result)
		}
	}
	if len(cloudOf.calls) != 1 || slices.Contains(cloudOf.calls[0], "others") {
		t.Error(cloudOf.calls)
	}
	// The cloud's code may have answered from a cache, which this caller allows.
	request.Items, request.MaxStaleness = named("absent"), durationpb.New(time.Minute)
	response, err = v1.NewInstancesServiceClient(client).BatchGetInstances(t.Context(), request)
	if err != nil || response.Results[0].GetAbsent().GetCertainty() != invisible {
		t.Error(response, err)
	}
}

func TestWhatTheCloudWritesToNodesOfABatchGoesWithTheAnswers(t *testing.T) {
	var nodes kubernetes.Interface
	cloudOf := &fleet{answer: func(names []string) (map[string]InstanceResult, error) {
		patch := []byte(`{"metadata":{"annotations":{"cloud.example.com/rack":"r1"}}}`)
		_, err := nodes.CoreV1().Nodes().Patch(t.Context(), "b", types.MergePatchType, patch, metav1.PatchOptions{})
		return map[string]InstanceResult{"a": {Absent: true}, "b": {Err: errors.New("no")}}, err
	}}
	effects := &v1.EffectsCapability{NodeAnnotationPrefixes: []string{"cloud.example.com/"}}
	client, _ := serving(t, Options{Effects: effects}, &cloud{
		machines: cloudOf,
		initialize: func(builder cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
			nodes = builder.ClientOrDie("cloud")
		},
	})
	for _, result := range lookUp(t, v1.NewInstancesServiceClient(client), named("a", "b")...).Results {
		if written := result.GetEffects().GetSetAnnotations()["cloud.example.com/rack"]; (written == "r1") != (result.Key == "b") {
			t.Error(result)
		}
	}
}

// Effects that are taken while a Node is held stay, and would be written again by the next answer.
func TestACallHasReleasedItsNodesBeforeItsAnswerIsRead(t *testing.T) {
	memory := newMemory()
	cloudOf := &fleet{answer: func([]string) (map[string]InstanceResult, error) {
		memory.mu.Lock() // so that no Node can be released yet
		time.AfterFunc(20*time.Millisecond, memory.mu.Unlock)
		return nil, nil
	}}
	batch := &batchInstances{instancesOver(memory, cloudOf), cloudOf}
	if _, err := batch.ask(t.Context(), nil, []*corev1.Node{{}}); err != nil || !memory.mu.TryLock() {
		t.Error("an answer is read while its Node is held", err)
	}
}

func TestNodesOfOtherProvidersMakeNoCall(t *testing.T) {
	cloudOf := &fleet{}
	client, _ := serving(t, Options{}, &cloud{machines: cloudOf})
	response := lookUp(t, v1.NewInstancesServiceClient(client), &v1.Node{Name: "a", ProviderId: "other://1"})
	if response.Results[0].GetNotManaged() == nil || cloudOf.calls != nil {
		t.Error(response, cloudOf.calls)
	}
}

// An error of the whole changes no Node. Without a reason the controller asks again by halves.
func TestAnErrorOfABatchIsThatOfEachNode(t *testing.T) {
	var failure error
	cloudOf := &fleet{answer: func(names []string) (map[string]InstanceResult, error) {
		return map[string]InstanceResult{names[0]: {Absent: true}}, failure
	}}
	client, _ := serving(t, Options{}, &cloud{machines: cloudOf})
	for _, test := range []struct {
		failure error
		nodes   []*v1.Node
		code    codes.Code
		reason  string
	}{
		{errors.New("one ID is not valid"), named("a", "b"), codes.Internal, ""},
		{errors.New("the ID is not valid"), named("a"), codes.Internal, "CLOUD_ERROR"},
		{&refusal{429}, named("a", "b"), codes.ResourceExhausted, "RATE_LIMITED"},
		{&refusal{401}, named("a", "b"), codes.Unauthenticated, "CREDENTIALS_INVALID"},
	} {
		failure = test.failure
		_, err := v1.NewInstancesServiceClient(client).BatchGetInstances(t.Context(), &v1.BatchGetInstancesRequest{
			Context: attempt(), Items: test.nodes,
		})
		if status.Code(err) != test.code || reasonIn(t, status.Convert(err).Proto()) != test.reason {
			t.Errorf("%v: %v", test.failure, err)
		}
	}
}

// stuckFleet is a fleet whose call does not return while it is about one of the Nodes, whatever its context says.
type stuckFleet struct {
	cloudprovider.InstancesV2
	node    string
	release chan struct{}
}

func (f *stuckFleet) InstancesByNode(_ context.Context, nodes []*corev1.Node) (map[string]InstanceResult, error) {
	results := map[string]InstanceResult{}
	for _, node := range nodes {
		if node.Name == f.node {
			<-f.release
		}
		results[node.Name] = InstanceResult{Absent: true}
	}
	return results, nil
}

func TestANodeWhoseCallNeverReturnsTakesNoPlaceFromOthers(t *testing.T) {
	cloudOf := &stuckFleet{node: "stuck", release: make(chan struct{})}
	client, _ := serving(t, Options{InstanceConcurrency: 1}, &cloud{machines: cloudOf})
	ask := func(ctx context.Context, names ...string) (*v1.BatchGetInstancesResponse, error) {
		return v1.NewInstancesServiceClient(client).BatchGetInstances(ctx, &v1.BatchGetInstancesRequest{
			Context: attempt(), Items: named(names...), View: v1.InstanceView_INSTANCE_VIEW_FULL,
		})
	}
	gone, leave := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, leave)
	for _, names := range [][]string{{"stuck", "a", "b"}, {"stuck", "a"}, {"stuck"}} {
		if _, err := ask(gone, names...); err == nil {
			t.Fatal(names, "the call has returned")
		}
		gone, leave = context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer leave()
	}
	// The provider may learn a moment later than its client that the caller is gone.
	deadline := time.Now().Add(patience)
	for {
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		response, err := ask(ctx, "stuck", "a", "b")
		leave()
		if err != nil && time.Now().Before(deadline) { // this call has been about it, too
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		answers := map[string]*v1.InstanceResult{}
		for _, result := range response.Results {
			answers[result.Key] = result
		}
		if answers["a"].GetAbsent() == nil || answers["b"].GetAbsent() == nil {
			t.Fatal(response)
		}
		if failed := answers["stuck"].GetError(); strings.Contains(failed.GetMessage(), "has not returned") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(response)
		}
	}
	close(cloudOf.release)
	for {
		response, err := ask(t.Context(), "stuck")
		if err == nil && response.Results[0].GetAbsent() != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(response, err)
		}
	}
}

func TestLoadBalancersChangeAtOneTimeWhereTheOptionSaysSo(t *testing.T) {
	// Neither returns before the other has begun.
	begun := make(chan struct{})
	both := func(ctx context.Context, _ *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
		select {
		case begun <- struct{}{}:
		case <-begun:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &corev1.LoadBalancerStatus{}, nil
	}
	client, _ := serving(t, Options{LoadBalancersInFlight: 2}, &cloud{balancers: &balancers{ensure: both}})
	ended := make(chan error)
	for _, uid := range []string{"one", "two"} {
		service := service()
		service.Name, service.Uid = uid, uid
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := v1.NewLoadBalancersServiceClient(client).EnsureLoadBalancer(ctx, &v1.EnsureLoadBalancerRequest{
				Context: attempt(), Service: service, Targets: inline(&v1.Node{Name: "a"}),
			})
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
