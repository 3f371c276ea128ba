// These tests classify errors with the shapes of several clouds' clients.

package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"outrigger.dev/adapters/go/provider"
)

// The shapes of the errors of clouds' clients.
type (
	smithyError struct{ code string }
	googleError struct{ Code int }
	hcloudCode  string
	hcloudError struct{ Code hcloudCode }
	azureError  struct {
		ErrorCode  string
		StatusCode int
	}
	godoError        struct{ Response *http.Response }
	gophercloudError struct{ Actual int }
)

func (e *smithyError) Error() string          { return e.code }
func (e *smithyError) ErrorCode() string      { return e.code }
func (e *googleError) Error() string          { return "google" }
func (e hcloudError) Error() string           { return "hcloud" }
func (e *azureError) Error() string           { return "azure" }
func (e *godoError) Error() string            { return "godo" }
func (e gophercloudError) Error() string      { return "gophercloud" }
func (e gophercloudError) GetStatusCode() int { return e.Actual }

// flattened is an error of AWS's client as AWS's provider wraps it.
func flattened(answer string) error {
	return fmt.Errorf("error creating load balancer: %q",
		"operation error Elastic Load Balancing: CreateLoadBalancer, https response error StatusCode: "+answer)
}

func TestErrorsOfKnownClientsHaveAReason(t *testing.T) {
	answered := func(status int, after string) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}}
	}
	for _, test := range []struct {
		err    error
		reason provider.Reason
		after  time.Duration
	}{
		{errors.New("no"), provider.CloudError, 0},
		{&smithyError{"Throttling"}, provider.RateLimited, rateLimitPause},
		{&smithyError{"RequestLimitExceeded"}, provider.RateLimited, rateLimitPause},
		{&smithyError{"UnauthorizedOperation"}, provider.PermissionMissing, 0},
		{&smithyError{"AuthFailure"}, provider.CredentialsInvalid, 0},
		{&smithyError{"AddressLimitExceeded"}, provider.QuotaExceeded, 0},
		{&smithyError{"InvalidParameter"}, provider.CloudError, 0},
		{flattened("400, RequestID: 7, api error Throttling: Rate exceeded"), provider.RateLimited, rateLimitPause},
		{flattened("403, RequestID: , api error UnauthorizedOperation: no"), provider.PermissionMissing, 0},
		{flattened("400, RequestID: 7, TooManyLoadBalancers: no"), provider.QuotaExceeded, 0},
		{flattened("400, RequestID: 7, DuplicateListener: no"), provider.CloudError, 0},
		{errors.New("no load balancer: Throttling: off"), provider.CloudError, 0},
		{&googleError{429}, provider.RateLimited, rateLimitPause},
		{&googleError{500}, provider.CloudError, 0},
		{hcloudError{"rate_limit_exceeded"}, provider.RateLimited, rateLimitPause},
		{hcloudError{"unauthorized"}, provider.CredentialsInvalid, 0},
		{&azureError{"TooManyRequests", 429}, provider.RateLimited, rateLimitPause},
		{&azureError{"Conflict", 403}, provider.PermissionMissing, 0},
		{&godoError{answered(429, "7")}, provider.RateLimited, 7 * time.Second},
		{&godoError{answered(401, "")}, provider.CredentialsInvalid, 0},
		{&godoError{}, provider.CloudError, 0},
		{gophercloudError{403}, provider.PermissionMissing, 0},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, provider.CloudUnavailable, 0},
		{&net.DNSError{Err: "no such host"}, provider.CloudUnavailable, 0},
		{cloudprovider.NotImplemented, provider.CloudError, 0},
		{api.NewRetryError("soon", 3*time.Second), provider.OperationInProgress, 3 * time.Second},
	} {
		for _, err := range []error{test.err, fmt.Errorf("wrapped: %w", test.err)} {
			var named *provider.Error
			if !errors.As(classifier(nil).asError(err), &named) || named.Reason != test.reason || named.RetryAfter != test.after {
				t.Errorf("%T %v: %v after %v", err, err, named.Reason, named.RetryAfter)
			}
		}
	}
	if err := classifier(nil).asError(context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := classifier(nil).asError(nil); err != nil {
		t.Error(err)
	}
}
