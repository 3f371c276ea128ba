// This target reads errors of clouds: their texts are whatever a cloud sends.

package serve

import (
	"errors"
	"net/http"
	"strconv"
	"testing"

	"outrigger.dev/adapters/go/provider"
)

// FuzzErrorsOfClouds gives each error a reason of the contract, the same each time, and a pause that the contract knows.
func FuzzErrorsOfClouds(f *testing.F) {
	for _, text := range []string{
		"Throttling: Rate exceeded", "status code: 429, request id: 1", "Too Many Requests", "googleapi: Error 403: x, rateLimitExceeded",
		`{"code": "unauthorized"}`, "RESPONSE 401: 401 Unauthorized", "HTTP 99999999999999999999", "retry after 1e999 s", "\xff\x00", "",
	} {
		f.Add(text, "Retry-After", "5", http.StatusTooManyRequests)
	}
	f.Add("x", "Retry-After", "99999999999999999999", http.StatusForbidden)
	f.Add("x", "Retry-After", "-1", 0)
	f.Add("x", "Retry-After", "Thu, 01 Jan 1970 00:00:00 GMT", -1)
	f.Fuzz(func(t *testing.T, text, header, value string, status int) {
		response := &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: http.Header{}}
		response.Header.Set(header, value)
		for _, err := range []error{errors.New(text), &godoError{Response: response, Message: text}} {
			var named *provider.Error
			if !errors.As(classifier(nil).asError(err), &named) {
				t.Fatalf("%v has no reason", err)
			}
			if named.RetryAfter < 0 || named.RetryAfter > maxPause || named.Reason == provider.RateLimited && named.RetryAfter == 0 {
				t.Fatalf("%v: %v", named.Reason, named.RetryAfter)
			}
			if !errors.Is(named, err) {
				t.Fatalf("%v hides %v", named, err)
			}
			if again := classifier(nil).asError(err).(*provider.Error); again.Reason != named.Reason {
				t.Fatalf("%v, then %v", named.Reason, again.Reason)
			}
		}
	})
}
