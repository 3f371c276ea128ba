// This file reads the class of an error from what the clients of clouds have in common.

package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/cloud-provider/api"

	"outrigger.dev/adapters/go/provider"
)

// rateLimitPause is the pause of a cloud that limits the rate and does not say for how long.
const rateLimitPause = 30 * time.Second

// classifier turns the errors of Go clouds, which have no class, into those of the contract.
type classifier func(error) *provider.Error

// asError names what the controller does with an error of a call about one object. Nil stays nil; the
// end of a context stays what it is.
func (c classifier) asError(err error) error {
	var named *provider.Error
	var retry *api.RetryError
	var running *stillRunning
	switch {
	case err == nil, errors.As(err, &named):
		return err
	case isKubernetesRefusal(err):
		return provider.Errorf(provider.PermissionMissing, "%w", err)
	case c != nil:
		if named = c(err); named != nil {
			return named
		}
	}
	switch {
	case errors.As(err, &running):
		return provider.Errorf(provider.OperationInProgress, "%w", err).WithRetryAfter(askAgain)
	case errors.As(err, &retry):
		return provider.Errorf(provider.OperationInProgress, "%w", err).WithRetryAfter(retry.RetryAfter())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	default:
		// NotImplemented too, which is about one object: upstream tries again, and an UNIMPLEMENTED would switch the
		// method off for all.
		return wellKnown(err)
	}
}

// wellKnown reads what the clients of many clouds have in common, without depending on any of them:
// smithy (AWS), googleapi, azcore, godo, hcloud, gophercloud.
func wellKnown(err error) *provider.Error {
	if reason, ok := codeReason(err); ok {
		return named(reason, err)
	}
	switch httpStatus(err) {
	case http.StatusTooManyRequests:
		return named(provider.RateLimited, err)
	case http.StatusUnauthorized:
		return named(provider.CredentialsInvalid, err)
	case http.StatusForbidden:
		return named(provider.PermissionMissing, err)
	}
	var operation *net.OpError
	var lookup *net.DNSError
	if errors.As(err, &operation) || errors.As(err, &lookup) {
		return named(provider.CloudUnavailable, err)
	}
	return named(provider.CloudError, err)
}

func named(reason provider.Reason, err error) *provider.Error {
	if reason != provider.RateLimited {
		return provider.Errorf(reason, "%w", err)
	}
	after := rateLimitPause
	if response := field[*http.Response](err, "Response"); response != nil {
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds >= 0 {
			after = time.Duration(seconds) * time.Second
		}
	}
	return provider.RateLimitedFor(after, err)
}

// Codes of clouds' errors, in lower case without separators.
var (
	rateLimited = []string{
		"throttling", "throttlingexception", "throttledexception", "ec2throttledexception", "requestlimitexceeded", "toomanyrequests",
		"toomanyrequestsexception", "requestthrottled", "requestthrottledexception", "slowdown", "bandwidthlimitexceeded",
		"ratelimitexceeded", "userratelimitexceeded",
	}
	credentialsInvalid = []string{
		"authfailure", "invalidclienttokenid", "expiredtoken", "expiredtokenexception", "unrecognizedclientexception",
		"signaturedoesnotmatch", "missingauthenticationtoken", "unauthorized", "invalidauthenticationtoken",
	}
	permissionMissing = []string{
		"unauthorizedoperation", "accessdenied", "accessdeniedexception", "forbidden", "authorizationfailed",
	}
	quotaExceeded = []string{"quotaexceeded", "resourcelimitexceeded", "limitexceeded", "toomanyloadbalancers"}
)

// smithyCode is the code in the text of an error of AWS's client, which AWS's provider wraps as text alone.
var smithyCode = regexp.MustCompile(`https response error StatusCode: \d+, RequestID: [^,]*, (?:api error )?([\w.]+):`)

// codeReason is the reason for an error with a code that clouds use alike.
func codeReason(err error) (provider.Reason, bool) {
	var coded interface{ ErrorCode() string }
	code := ""
	if errors.As(err, &coded) {
		code = coded.ErrorCode()
	} else if code = field[string](err, "Code", "ErrorCode"); code == "" {
		if match := smithyCode.FindStringSubmatch(err.Error()); match != nil {
			code = match[1]
		}
	}
	code = strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(code))
	switch {
	case code == "":
		return 0, false
	case slices.Contains(rateLimited, code):
		return provider.RateLimited, true
	case slices.Contains(credentialsInvalid, code):
		return provider.CredentialsInvalid, true
	case slices.Contains(permissionMissing, code):
		return provider.PermissionMissing, true
	case slices.Contains(quotaExceeded, code) || strings.HasSuffix(code, "limitexceeded"):
		return provider.QuotaExceeded, true
	default:
		return 0, false
	}
}

// httpStatus is the status of the answer that an error was made from; 0: not known.
func httpStatus(err error) int {
	var smithy interface{ HTTPStatusCode() int }
	var gophercloud interface{ GetStatusCode() int }
	switch {
	case errors.As(err, &smithy):
		return smithy.HTTPStatusCode()
	case errors.As(err, &gophercloud):
		return gophercloud.GetStatusCode()
	}
	for _, name := range []string{"StatusCode", "Code"} {
		if status := field[int](err, name); status != 0 {
			return status
		}
	}
	if response := field[*http.Response](err, "Response"); response != nil {
		return response.StatusCode
	}
	return 0
}

// field is the exported field of the first error in the chain that is a struct with one of these names and this kind.
func field[T any](err error, names ...string) (none T) {
	kind := reflect.TypeFor[T]()
	for ; err != nil; err = errors.Unwrap(err) {
		for _, name := range names {
			if value := structField(err, name); value.IsValid() && value.Kind() == kind.Kind() && value.CanConvert(kind) {
				return value.Convert(kind).Interface().(T)
			}
		}
	}
	return none
}

func structField(err error, name string) reflect.Value {
	value := reflect.ValueOf(err)
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	if value.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	field, ok := value.Type().FieldByName(name)
	if !ok || !field.IsExported() || len(field.Index) != 1 {
		return reflect.Value{}
	}
	return value.FieldByIndex(field.Index)
}
