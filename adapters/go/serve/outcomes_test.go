// These tests hold the status after calls that worked and that failed.

package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
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
