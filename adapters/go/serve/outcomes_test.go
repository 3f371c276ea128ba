// These tests hold the status after calls that worked and that failed.

package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// refusal has the shape of an error of a cloud's client.
type refusal struct{ StatusCode int }

func (r *refusal) Error() string { return http.StatusText(r.StatusCode) }

func TestTheStatusIsWhatTheLastCallsHaveShown(t *testing.T) {
	steps := []struct {
		name             string
		err              error
		api, credentials string
	}{
		{"refused credentials", &refusal{http.StatusUnauthorized}, "", "Unauthorized"},
		{"an error of one Service", errors.New("no room"), "", "Unauthorized"},
		{"success", nil, "", ""},
		{"a rate limit", &refusal{http.StatusTooManyRequests}, "the cloud's API limits the rate of calls: Too Many Requests", ""},
		{"refused credentials by an API that answers", &refusal{http.StatusUnauthorized}, "", "Unauthorized"},
		{"success again", nil, "", ""},
	}
	client, _ := serving(t, Options{}, &cloud{balancers: &balancers{
		ensure: func(_ context.Context, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
			for _, step := range steps {
				if step.name == service.Name {
					return &corev1.LoadBalancerStatus{}, step.err
				}
			}
			return nil, nil
		},
	}})
	expect := func(name, api, credentials string) {
		status, err := v1.NewProviderServiceClient(client).GetStatus(t.Context(), &v1.GetStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		readiness := v1.Readiness_READINESS_READY
		if api+credentials != "" {
			readiness = v1.Readiness_READINESS_DEGRADED
		}
		parts := status.Dependencies
		if status.Readiness != readiness || len(parts) != 3 || parts[0].Message != api || parts[1].Message != credentials {
			t.Errorf("%s: %v", name, status)
		}
	}
	expect("before any call", "", "")
	for _, step := range steps {
		service := service()
		service.Name, service.Uid = step.name, step.name
		_, err := v1.NewLoadBalancersServiceClient(client).EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
			Context: attempt(), Service: service, Targets: inline(&v1.Node{Name: "a"}),
		})
		if (err == nil) != (step.err == nil) {
			t.Errorf("%s: %v", step.name, err)
		}
		expect(step.name, step.api, step.credentials)
	}
}

// fails is a cloud whose calls fail with err; routes are listed until one was to be made.
type fails struct {
	cloudprovider.Routes
	made bool
	err  error
}

func (f *fails) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	if f.made {
		return nil, f.err
	}
	return nil, nil
}

func (f *fails) CreateRoute(context.Context, string, string, *cloudprovider.Route) error {
	f.made = true
	return f.err
}

// A user or kubelet that could write a status into an error would stop the calls about all others.
func TestNoCallReadsItsObjectAsAnAnswerOfTheCloud(t *testing.T) {
	for _, text := range []string{"HTTP 401", "HTTP 429", "HTTP 503", `x is forbidden: User "a" cannot y`} {
		made := &fails{err: fmt.Errorf("Invalid instance name (%s)", text)}
		change := func() error { return made.err }
		client, _ := serving(t, Options{Volumes: &v1.VolumesCapability{CsiDrivers: []string{"csi.test"}}}, &cloud{
			machines: &machine{existsErr: made.err}, table: made,
			labels: func(*corev1.PersistentVolume) (map[string]string, error) { return nil, made.err },
			balancers: &balancers{
				get: func() (*corev1.LoadBalancerStatus, bool, error) { return nil, true, made.err }, update: change, remove: change,
				ensure: func(context.Context, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
					return nil, made.err
				},
			},
		})
		batches, _ := serving(t, Options{}, &cloud{machines: &fleet{answer: func(names []string) (map[string]InstanceResult, error) {
			if len(names) == 1 {
				return nil, made.err
			}
			return map[string]InstanceResult{names[0]: {Err: made.err}}, nil
		}}})
		lookUp := func(client *grpc.ClientConn, nodes ...*v1.Node) error {
			request := &v1.BatchGetInstancesRequest{Context: attempt(), Items: nodes, View: v1.InstanceView_INSTANCE_VIEW_FULL}
			response, err := v1.NewInstancesServiceClient(client).BatchGetInstances(t.Context(), request)
			if err != nil {
				return err
			}
			return status.ErrorProto(response.Results[0].GetError())
		}
		node, other, quoted, targets := &v1.Node{Name: "a", ProviderId: "test://" + text}, &v1.Node{Name: "b"}, service(), inline()
		quoted.Annotations = map[string]string{"a": text}
		balancing, routing := v1.NewLoadBalancersServiceClient(client), v1.NewRoutesServiceClient(client)
		ensure := func(service *v1.Service, targets *v1.NodeTargets) error {
			return second(balancing.EnsureLoadBalancer(t.Context(), &v1.EnsureLoadBalancerRequest{
				Context: attempt(), Service: service, Targets: targets,
			}))
		}
		update := func(service *v1.Service, targets *v1.NodeTargets) error {
			return second(balancing.UpdateLoadBalancerNodes(t.Context(), &v1.UpdateLoadBalancerNodesRequest{
				Context: attempt(), Service: service, Targets: targets,
			}))
		}
		list := func() error {
			stream, err := routing.ListRoutes(t.Context(), &v1.ListRoutesRequest{Context: attempt()})
			if err != nil {
				return err
			}
			return second(stream.Recv())
		}
		csi := &v1.VolumeSource{Source: &v1.VolumeSource_Csi{Csi: &v1.CsiVolumeSource{Driver: "csi.test", VolumeHandle: text}}}
		for call, err := range []error{
			lookUp(client, node), lookUp(batches, node), lookUp(batches, node, other),
			second(balancing.GetLoadBalancer(t.Context(), &v1.GetLoadBalancerRequest{Context: attempt(), Service: quoted})),
			second(balancing.DeleteLoadBalancer(t.Context(), &v1.DeleteLoadBalancerRequest{Context: attempt(), Service: quoted})),
			ensure(quoted, targets), update(quoted, targets), ensure(service(), inline(other, node)), update(service(), inline(other, node)),
			second(routing.CreateRoute(t.Context(), &v1.CreateRouteRequest{
				Context: attempt(), Route: &v1.Route{DestinationCidr: "10.0.1.0/24", NodeName: text},
			})), list(),
			second(v1.NewVolumesServiceClient(client).GetVolume(t.Context(), &v1.GetVolumeRequest{
				Context: attempt(), Volume: &v1.Volume{Source: csi},
			})),
		} {
			if reasonIn(t, status.Convert(err).Proto()) != "CLOUD_ERROR" {
				t.Errorf("%s, call %d: %v", text, call, err)
			}
		}
		for _, client := range []*grpc.ClientConn{client, batches} {
			is, err := v1.NewProviderServiceClient(client).GetStatus(t.Context(), &v1.GetStatusRequest{})
			if err != nil || is.Readiness != v1.Readiness_READINESS_READY {
				t.Errorf("%s: %v %v", text, is, err)
			}
		}
	}
}

func TestClassifyGetsTheErrorOfTheCloudAndItsWordsDegradeNothing(t *testing.T) {
	failure := errors.New(`x is forbidden: User "a" cannot y`)
	outcomes := newOutcomes(func(err error) *provider.Error {
		if err != failure {
			return nil
		}
		return provider.Errorf(provider.InvalidAnnotation, "%w", err)
	})
	var named *provider.Error
	err := outcomes.saw(about(failure, &v1.Service{Name: failure.Error()}))
	if !errors.As(err, &named) || named.Reason != provider.InvalidAnnotation {
		t.Error(err)
	}
	if is := outcomes.status(); is.Readiness != v1.Readiness_READINESS_READY {
		t.Error(is)
	}
}

// The calls about other objects succeed, so only time shows that Kubernetes refuses nothing any more.
func TestARefusalOfKubernetesIsShownUntilItDoesNotComeAgain(t *testing.T) {
	now := time.Now()
	outcomes := newOutcomes(nil)
	outcomes.now = func() time.Time { return now }
	for step, test := range []struct {
		after time.Duration
		err   error
		want  v1.Readiness
	}{
		{0, nil, v1.Readiness_READINESS_READY},
		{0, errors.New("cannot patch services " + lacksRights), v1.Readiness_READINESS_DEGRADED},
		{time.Minute, nil, v1.Readiness_READINESS_DEGRADED},
		{6 * time.Minute, errors.New(`services "s" is forbidden: User "vendor" cannot patch it`), v1.Readiness_READINESS_DEGRADED},
		{6 * time.Minute, nil, v1.Readiness_READINESS_DEGRADED},
		{5 * time.Minute, nil, v1.Readiness_READINESS_READY},
	} {
		now = now.Add(test.after)
		_ = outcomes.saw(test.err)
		if is := outcomes.status().Readiness; is != test.want {
			t.Errorf("step %d: %v", step, is)
		}
	}
}

func TestNewsAreForgottenAfterManyOthers(t *testing.T) {
	var lines news
	for i := range 3 * maxNews {
		if text := fmt.Sprint(i); !lines.is(text) || lines.is(text) || len(lines.said) > maxNews {
			t.Fatal(text, len(lines.said))
		}
	}
}
