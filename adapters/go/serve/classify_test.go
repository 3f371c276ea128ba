// These tests classify errors with the shapes of several clouds' clients.

package serve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// The shapes of the errors of clouds' clients: methods, names and types of fields, texts.
type (
	smithyError    struct{ code string }
	smithyResponse struct{ *http.Response }
	smithyHTTP     struct {
		Response *smithyResponse
		Err      error
	}

	googleItem  struct{ Reason, Message string }
	googleError struct {
		Code    int
		Message string
		Header  http.Header
		Errors  []googleItem
	}
	gaxError struct {
		err    error
		status *status.Status
	}

	hcloudCode     string
	hcloudResponse struct{ *http.Response }
	hcloudError    struct {
		Code     hcloudCode
		Message  string
		response *hcloudResponse
	}

	azureError struct {
		ErrorCode   string
		StatusCode  int
		RawResponse *http.Response
	}

	godoError struct {
		Response *http.Response
		Message  string
	}

	gophercloudBase  struct{ DefaultErrString, Info string }
	gophercloudError struct {
		gophercloudBase
		Actual         int
		ResponseHeader http.Header
	}
	gophercloud401        struct{ gophercloudError }
	gophercloudAfterLogin struct {
		gophercloudBase
		ErrOriginal error
	}
	gophercloudNoLogin struct {
		gophercloudBase
		ErrOriginal, ErrReauth error
	}

	linodeError struct {
		Response *http.Response
		Code     int
		Message  string
	}

	ociError struct {
		StatusCode    int
		Code, Message string
	}

	cloudstackError struct {
		ErrorCode, CSErrorCode int
		ErrorText              string
	}
)

func (e *smithyError) Error() string     { return "api error " + e.code + ": no" }
func (e *smithyError) ErrorCode() string { return e.code }
func (e *smithyHTTP) Error() string {
	return fmt.Sprintf("https response error StatusCode: %d, RequestID: 7, %v", e.HTTPStatusCode(), e.Err)
}
func (e *smithyHTTP) Unwrap() error                 { return e.Err }
func (e *smithyHTTP) HTTPStatusCode() int           { return e.Response.StatusCode }
func (e *smithyHTTP) HTTPResponse() *smithyResponse { return e.Response }

func (e *googleError) Error() string {
	text := fmt.Sprintf("googleapi: Error %d: %s", e.Code, e.Message)
	for _, item := range e.Errors {
		text += ", " + item.Reason
	}
	return text
}

func (e *gaxError) Error() string              { return e.err.Error() }
func (e *gaxError) Unwrap() error              { return e.err }
func (e *gaxError) GRPCStatus() *status.Status { return e.status }

func (e hcloudError) Error() string             { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }
func (e hcloudError) Response() *hcloudResponse { return e.response }

func (e *azureError) Error() string {
	return fmt.Sprintf("GET https://management.azure.com/subscriptions/1\n%s\nRESPONSE %d: %d %s\nERROR CODE: %s\n",
		strings.Repeat("-", 80), e.StatusCode, e.StatusCode, http.StatusText(e.StatusCode), e.ErrorCode)
}

func (e *godoError) Error() string {
	return fmt.Sprintf("GET https://api.digitalocean.com/v2/droplets/401: %d (request \"403\") %s", e.Response.StatusCode, e.Message)
}

func (e gophercloudBase) Error() string {
	return "An error occurred while executing a Gophercloud request."
}
func (e gophercloudError) Error() string {
	return fmt.Sprintf("Expected HTTP response code [200 204 300] when accessing [GET https://nova/v2.1/servers/1], but got %d instead: {}", e.Actual)
}
func (e gophercloudError) GetStatusCode() int { return e.Actual }
func (e gophercloud401) Error() string        { return "Authentication failed" }
func (e *gophercloudAfterLogin) Error() string {
	return fmt.Sprintf("Successfully re-authenticated, but got error executing request: %s", e.ErrOriginal)
}
func (e *gophercloudNoLogin) Error() string {
	return fmt.Sprintf("Unable to re-authenticate: %s: %s", e.ErrOriginal, e.ErrReauth)
}

func (e linodeError) Error() string { return fmt.Sprintf("[%03d] %s", e.Code, e.Message) }

func (e ociError) Error() string {
	return fmt.Sprintf("Error returned by Compute Service. Http Status Code: %d. Error Code: %s. Opc request id: 401. Message: %s",
		e.StatusCode, e.Code, e.Message)
}

func (e *cloudstackError) Error() string {
	return fmt.Sprintf("CloudStack API error %d (CSExceptionErrorCode: %d): %s", e.ErrorCode, e.CSErrorCode, e.ErrorText)
}

// egoscale's errors are values that wrap nothing, and their texts those of the statuses.
var egoscaleTooMany, egoscaleUnauthorized = errors.New("Too Many Requests"), errors.New("Unauthorized")

// flattened is an error of AWS's client as AWS's provider wraps it.
func flattened(answer string) error {
	return fmt.Errorf("error creating load balancer: %q",
		"operation error Elastic Load Balancing: CreateLoadBalancer, https response error StatusCode: "+answer)
}

func answered(status int, after string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}}
}

const pauseOfTest = 9 * time.Second

// grpcError is an error of Google's newer clients.
func grpcError(code codes.Code, after time.Duration) error {
	refused := status.New(code, "no")
	if after > 0 {
		refused, _ = refused.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	return &gaxError{refused.Err(), refused}
}

// clientErrors are errors by the client that makes them. text is the reason of what is left where a cloud's code wraps the error
// as text.
var clientErrors = []struct {
	err          error
	reason, text provider.Reason
	after        time.Duration
}{
	// smithy (AWS)
	{&smithyError{"Throttling"}, provider.RateLimited, provider.CloudError, rateLimitPause},
	{&smithyError{"RequestLimitExceeded"}, provider.RateLimited, provider.CloudError, rateLimitPause},
	{&smithyError{"UnauthorizedOperation"}, provider.PermissionMissing, provider.CloudError, 0},
	{&smithyError{"AuthFailure"}, provider.CredentialsInvalid, provider.CloudError, 0},
	{&smithyError{"AddressLimitExceeded"}, provider.QuotaExceeded, provider.CloudError, 0},
	{&smithyError{"InvalidParameter"}, provider.CloudError, provider.CloudError, 0},
	{
		&smithyHTTP{&smithyResponse{answered(400, "9")}, &smithyError{"Throttling"}},
		provider.RateLimited, provider.RateLimited, pauseOfTest,
	},
	{&smithyHTTP{&smithyResponse{answered(403, "")}, &smithyError{"Other"}}, provider.PermissionMissing, provider.PermissionMissing, 0},
	// googleapi and gax
	{&googleError{Code: 429, Header: http.Header{"Retry-After": {"9"}}}, provider.RateLimited, provider.RateLimited, pauseOfTest},
	{&googleError{Code: 403, Message: "no"}, provider.PermissionMissing, provider.PermissionMissing, 0},
	{&googleError{Code: 401, Message: "no"}, provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	{&googleError{Code: 500}, provider.CloudError, provider.CloudError, 0},
	{
		&googleError{Code: 403, Errors: []googleItem{{Reason: "rateLimitExceeded"}}},
		provider.RateLimited, provider.RateLimited, rateLimitPause,
	},
	{&googleError{Code: 403, Errors: []googleItem{{Reason: "quotaExceeded"}}}, provider.QuotaExceeded, provider.QuotaExceeded, 0},
	{grpcError(codes.ResourceExhausted, pauseOfTest), provider.RateLimited, provider.RateLimited, pauseOfTest},
	{grpcError(codes.Unauthenticated, 0), provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	{grpcError(codes.PermissionDenied, 0), provider.PermissionMissing, provider.PermissionMissing, 0},
	{grpcError(codes.Unavailable, 0), provider.CloudUnavailable, provider.CloudError, 0},
	{grpcError(codes.NotFound, 0), provider.CloudError, provider.CloudError, 0},
	// hcloud
	{
		hcloudError{"rate_limit_exceeded", "no", &hcloudResponse{answered(429, "9")}},
		provider.RateLimited, provider.CloudError, pauseOfTest,
	},
	{hcloudError{Code: "rate_limit_exceeded"}, provider.RateLimited, provider.CloudError, rateLimitPause},
	{hcloudError{Code: "unauthorized"}, provider.CredentialsInvalid, provider.CloudError, 0},
	{hcloudError{Code: "forbidden"}, provider.PermissionMissing, provider.CloudError, 0},
	{hcloudError{Code: "token_readonly"}, provider.PermissionMissing, provider.CloudError, 0},
	{hcloudError{Code: "resource_limit_exceeded"}, provider.QuotaExceeded, provider.CloudError, 0},
	// azcore
	{&azureError{"TooManyRequests", 429, answered(429, "9")}, provider.RateLimited, provider.RateLimited, pauseOfTest},
	{&azureError{"ExpiredAuthenticationToken", 401, nil}, provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	{&azureError{"Conflict", 403, nil}, provider.PermissionMissing, provider.PermissionMissing, 0},
	// godo
	{&godoError{Response: answered(429, "9")}, provider.RateLimited, provider.RateLimited, pauseOfTest},
	{&godoError{Response: answered(401, "")}, provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	{&godoError{Response: answered(404, "")}, provider.CloudError, provider.CloudError, 0},
	// gophercloud
	{gophercloudError{Actual: 403}, provider.PermissionMissing, provider.PermissionMissing, 0},
	{
		gophercloudError{Actual: 429, ResponseHeader: http.Header{"Retry-After": {"9"}}},
		provider.RateLimited, provider.RateLimited, pauseOfTest,
	},
	{gophercloud401{gophercloudError{Actual: 401}}, provider.CredentialsInvalid, provider.CloudError, 0},
	{
		&gophercloudAfterLogin{ErrOriginal: gophercloudError{Actual: 401}},
		provider.CredentialsInvalid, provider.CredentialsInvalid, 0,
	},
	{
		&gophercloudAfterLogin{ErrOriginal: gophercloudError{Actual: 429, ResponseHeader: http.Header{"Retry-After": {"9"}}}},
		provider.RateLimited, provider.RateLimited, pauseOfTest,
	},
	{
		&gophercloudNoLogin{ErrOriginal: gophercloudError{Actual: 401}, ErrReauth: gophercloudError{Actual: 401}},
		provider.CredentialsInvalid, provider.CredentialsInvalid, 0,
	},
	{ // the credentials were not refused: Keystone did not answer
		&gophercloudNoLogin{ErrOriginal: gophercloudError{Actual: 401}, ErrReauth: gophercloudError{Actual: 503}},
		provider.CloudUnavailable, provider.CloudError, 0,
	},
	// linodego: its numbers below 100 are no statuses
	{&linodeError{answered(429, "9"), 429, "Too many requests"}, provider.RateLimited, provider.CloudError, pauseOfTest},
	{&linodeError{answered(401, ""), 401, "Invalid Token"}, provider.CredentialsInvalid, provider.CloudError, 0},
	{linodeError{Code: 403, Message: "no"}, provider.PermissionMissing, provider.CloudError, 0},
	{&linodeError{Code: 2, Message: "no"}, provider.CloudError, provider.CloudError, 0},
	// oci
	{ociError{401, "NotAuthenticated", "no"}, provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	{ociError{429, "TooManyRequests", "no"}, provider.RateLimited, provider.RateLimited, rateLimitPause},
	{ociError{403, "NotAllowed", "no"}, provider.PermissionMissing, provider.PermissionMissing, 0},
	{ociError{404, "NotAuthorizedOrNotFound", "no"}, provider.CloudError, provider.CloudError, 0},
	// egoscale
	{fmt.Errorf("GetZone: http response: %w: slow down", egoscaleTooMany), provider.RateLimited, provider.RateLimited, rateLimitPause},
	{fmt.Errorf("GetZone: http response: %w: no", egoscaleUnauthorized), provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	// govultr, text alone
	{errors.New(`{"error":"Invalid API token.","status":401}`), provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	{errors.New("error returned from api : Invalid API token."), provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	{errors.New("error returned from api : no"), provider.CloudError, provider.CloudError, 0},
	// CloudStack
	{&cloudstackError{401, 0, "no"}, provider.CredentialsInvalid, provider.CredentialsInvalid, 0},
	{&cloudstackError{431, 9999, "no"}, provider.CloudError, provider.CloudError, 0},
	// the network
	{&net.OpError{Op: "dial", Err: errors.New("refused")}, provider.CloudUnavailable, provider.CloudError, 0},
	{&net.DNSError{Err: "no such host"}, provider.CloudUnavailable, provider.CloudError, 0},
	// upstream
	{cloudprovider.NotImplemented, provider.CloudError, provider.CloudError, 0},
	{api.NewRetryError("soon", 3*time.Second), provider.OperationInProgress, provider.CloudError, 3 * time.Second},
}

func TestErrorsOfClientsHaveTheReasonOfTheAnswer(t *testing.T) {
	for _, test := range clientErrors {
		for _, err := range []error{
			test.err, fmt.Errorf("wrapped: %w", test.err), errors.Join(errors.New("401 others"), test.err),
		} {
			expect(t, err, test.reason, test.after)
		}
		if test.reason != provider.OperationInProgress { // apimachinery's aggregates hide their errors from errors.As
			expect(t, utilerrors.NewAggregate([]error{test.err}), test.reason, test.after)
		}
		after := time.Duration(0)
		if test.text == provider.RateLimited {
			after = rateLimitPause
		}
		expect(t, fmt.Errorf("wrapped: %v", test.err), test.text, after)
		expect(t, fmt.Errorf("wrapped: %q", test.err.Error()), test.text, after)
	}
	if err := classifier(nil).asError(context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := classifier(nil).asError(nil); err != nil {
		t.Error(err)
	}
}

// A client's limit of time is a cloud that does not answer; the end of the call stays what it is.
func TestTheLimitOfAnHTTPClientIsACloudThatDoesNotAnswer(t *testing.T) {
	release := make(chan struct{})
	cloud := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer cloud.Close()
	defer close(release)
	_, err := (&http.Client{Timeout: time.Millisecond}).Get(cloud.URL)
	expect(t, err, provider.CloudUnavailable, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, cloud.URL, nil)
	_, err = http.DefaultClient.Do(request)
	if kept := classifier(nil).asError(err); kept != err || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(kept)
	}
}

func expect(t *testing.T, err error, reason provider.Reason, after time.Duration) {
	t.Helper()
	var named *provider.Error
	if !errors.As(classifier(nil).asError(err), &named) || named.Reason != reason || named.RetryAfter != after {
		t.Errorf("%T %v: %v after %v, expected %v after %v", err, err, named.Reason, named.RetryAfter, reason, after)
	}
}

// Forms in which clients of clouds have a status in a text.
func TestATextHasAStatusInTheFormsOfClientsAlone(t *testing.T) {
	forms := []string{
		`{"error":"Invalid API token.","status":%d}`, // govultr
		`gave up after 4 attempts, last error: "{\"error\":\"no\",\"status\":%d}"`,
		`{"statusCode": %d, "message": "no"}`, `{"http_status": %d}`,
		"unmapped HTTP error: status code %d, message: no", // egoscale
		"Service error:No. no. http status code: %d", "Status Code: %d", "status code=%d", "StatusCode: %d, RequestID: 1",
		"server replied HTTP %d", "request failed (HTTP %d)", "HTTP/1.1 %d Unauthorized", "HTTP/2 %d", "http error %d: no", "HTTP status %d.",
		"POST https://api.example.com/v2/x: %d no", "put http://10.0.0.1:403/x: %d (request \"1\") no",
		"googleapi: got HTTP response code %d with body: <html>", "googleapi: Error %d: no",
		"CloudStack API error %d (CSExceptionErrorCode: 0): no",
		"Expected HTTP response code [200 204] when accessing [GET http://a/403], but got %d instead: {}",
	}
	reasons := map[int]provider.Reason{
		401: provider.CredentialsInvalid, 403: provider.PermissionMissing, 429: provider.RateLimited,
		400: provider.CloudError, 404: provider.CloudError, 500: provider.CloudError,
	}
	for _, form := range forms {
		for status, reason := range reasons {
			after := time.Duration(0)
			if reason == provider.RateLimited {
				after = rateLimitPause
			}
			expect(t, fmt.Errorf(form, status), reason, after)
			expect(t, fmt.Errorf("load balancer lb-403: "+form, status), reason, after)
		}
	}
	for answer, reason := range map[string]provider.Reason{
		"400, RequestID: 7, api error Throttling: Rate exceeded": provider.RateLimited,
		"403, RequestID: , api error UnauthorizedOperation: no":  provider.PermissionMissing,
		"400, RequestID: 7, TooManyLoadBalancers: no":            provider.QuotaExceeded,
		"400, RequestID: 7, DuplicateListener: no":               provider.CloudError,
	} {
		after := time.Duration(0)
		if reason == provider.RateLimited {
			after = rateLimitPause
		}
		expect(t, flattened(answer), reason, after)
	}
	expect(t, errors.New("HTTP 401: HTTP 503"), provider.CloudError, 0)
	expect(t, errors.New("HTTP 401, HTTP 401"), provider.CredentialsInvalid, 0)
}

// Numbers that are IDs, ports, amounts, or parts of them.
var misleading = []string{
	"no load balancer: Throttling: off", "lb-401", "instance i-0401429403 not found", "port 401 is in use", "403", "[401] Invalid Token",
	"server 401: not found", "(403)", "429 of 429 servers are ready", "10.0.4.29", "node-429.example.com", `{"id": 401, "code": 403}`,
	`{"status": 4010}`, `{"status": 401.5}`, `{"status": "401"}`, `{"status": -401}`, `{"laststatus": 401}`, `{"status": "active", "count": 429}`,
	"status code: 4013", "status code: 40", "status code 401ms", "exit status 401", "status: 403", "HTTP 4030", "HTTP 403-9", "HTTP 403/tcp",
	"HTTPS 403", "xHTTP 403", "http://10.0.0.1/401", "https://a.example.com:403/x", "GET https://a/401: connection refused",
	"GET https://a/x: 4290 bytes", "response 401 of 500", "error 403", "API error 429", "googleapi: Error 4290: no", "rateLimitExceeded",
	"Unauthorized: no", "http response: Unauthorizeds: no", "code = Unauthenticated", "Invalid API token", "Too Many Requests", "Forbidden.",
}

// A text with such numbers is an error of one object: it must not stop all calls.
func TestANumberInATextIsNoStatus(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	for _, text := range misleading {
		expect(t, fmt.Errorf("wrapped: %s", text), provider.CloudError, 0)
	}
	for range 5000 {
		text := pick(misleading) + "; " + pick(misleading) + "; " + pick(misleading)
		expect(t, errors.New(text), provider.CloudError, 0)
	}
	// Any ID with the number in it, after any word.
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_/"
	words := []string{"status code: ", "HTTP ", `"status": `, "StatusCode: ", "googleapi: Error ", "http error ", "id ", "", "GET https://a/x: "}
	for range 5000 {
		text := pick(words) + pick([]string{"401", "403", "429"})
		for range 1 + random.IntN(9) {
			text += string(letters[random.IntN(len(letters))])
		}
		expect(t, errors.New(text), provider.CloudError, 0)
	}
}

// Annotations, names, ports and provider IDs are the words of users and kubelets, however a cloud quotes them.
func TestWhatAnErrorMayQuoteIsNoAnswerOfTheCloud(t *testing.T) {
	for _, test := range []struct {
		text   string
		quoted []string
	}{
		{"Invalid backend protocol http 401 for x", []string{"x HTTP 401"}},
		{`Invalid instance name ("aws:///%zz HTTP 429 ")`, []string{"aws:///%zz HTTP 429 "}},
		{"bad: \"{\\\"status\\\":429}\"", []string{`{"status":429}`}},
		{"bad: [HTTP 401]", []string{"HTTP,401"}},
		{"no listener for HTTP 403 (x)", []string{"403"}},
		{"bad: x HTTP 503", []string{"x HTTP 5031"}}, // cut
		{"bad: HTTP 401 ", []string{"aws:///x/HTTP%20%34%30%31%20"}},
		{"bad: HTTP 401", []string{`["HTTP \u0034\u0030\u0031"]`}},
		{"HTTP 401: HTTP 503", []string{"503"}}, // it takes no part from two that differ
		{"https response error StatusCode: 400, RequestID: , Throttling: ", []string{"response error StatusCode: 400", "throttling: "}},
		{"bad: [http response: Too Many Requests: ]", []string{"http response: Too,Many,Requests: "}},
		{"bad: rpc error: code = Unauthenticated desc = ", []string{"rpc error: code = Unauthenticated desc = "}},
		{`bad: x is forbidden: User "a" cannot y`, []string{`x is forbidden: User "a" cannot y`}},
		{`bad: x is forbidden: User "a, b" cannot y`, []string{`x is forbidden: User "a`, `b" cannot y`}},
		{"cannot " + lacksRights, []string{"cannot " + lacksRights}},
	} {
		object := &v1.Service{Annotations: map[string]string{}}
		for i, value := range test.quoted {
			object.Annotations[fmt.Sprint(i)] = value
		}
		expect(t, about(errors.New(test.text), object), provider.CloudError, 0)
		expect(t, about(errors.New(test.text), service(), []*v1.Node{{}, {Annotations: object.Annotations}}), provider.CloudError, 0)
	}
	expect(t, about(errors.New("no listener for HTTP 401"), &v1.Service{Ports: []*v1.ServicePort{{Port: 401}}}), provider.CloudError, 0)
	// Classes of errors with a status or code stay, and so do those of texts whose words the objects do not have.
	for _, test := range clientErrors {
		text := test.err.Error()
		of := &v1.Service{Annotations: map[string]string{"a": text, "b": "401 403 429 Throttling"}}
		switch fmt.Sprintf("%T", test.err) {
		case "*errors.errorString", "*fmt.wrapError": // text alone
			expect(t, about(test.err, of), provider.CloudError, 0)
		default:
			expect(t, about(test.err, of), test.reason, test.after)
		}
		expect(t, about(errors.New(text), of), provider.CloudError, 0)
		if test.text != provider.RateLimited {
			expect(t, about(errors.New(text), service(), named("ip-10-4-0-1", "i-0401429403")), test.text, 0)
		}
	}
	other := &v1.Service{Annotations: map[string]string{"a": "{\"timeout\": 400}\n"}}
	expect(t, about(flattened("400, RequestID: 7, api error Throttling: no"), other), provider.RateLimited, rateLimitPause)
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "a", errors.New("forbidden"))
	expect(t, about(refused, &v1.Node{ProviderId: refused.Error()}), provider.PermissionMissing, 0)
}

func TestThePauseIsTheClouds(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	date := func(after time.Duration) string { return now.Add(after).Format(http.TimeFormat) }
	for _, test := range []struct {
		after, sent string
		pause       time.Duration
	}{
		{"9", "", 9 * time.Second},
		{"0", "", time.Second},
		{"7200", "", time.Hour}, // the contract knows no longer one
		{"99999999999999999999", "", 0},
		{"-9", "", 0}, {"soon", "", 0}, {"", "", 0}, {"1.5", "", 0},
		{date(90 * time.Second), "", 90 * time.Second},
		{date(9 * time.Hour), "", time.Hour},
		{date(-time.Minute), "", time.Second},
		{date(90 * time.Second), date(80 * time.Second), 10 * time.Second}, // the server's clock, not this one's
	} {
		header := http.Header{"Retry-After": {test.after}, "Date": {test.sent}}
		if pause := retryAfter(header, now); pause != test.pause {
			t.Errorf("%q sent at %q: %v, expected %v", test.after, test.sent, pause, test.pause)
		}
	}
	limited := &googleError{Code: 429, Header: http.Header{"Retry-After": {"86400"}}}
	expect(t, limited, provider.RateLimited, time.Hour)
	expect(t, grpcError(codes.ResourceExhausted, 24*time.Hour), provider.RateLimited, time.Hour)
}
