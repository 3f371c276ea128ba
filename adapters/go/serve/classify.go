// This file gives errors of Go clouds, which have no class, one of the contract's reasons.

package serve

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
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
	var request *url.Error
	switch {
	case err == nil, errors.As(err, &named):
		return err
	case isKubernetesRefusal(err):
		return provider.Errorf(provider.PermissionMissing, "%w", err)
	case c != nil:
		bare := err
		if of, ok := err.(*quoting); ok {
			bare = of.error // Classify may compare it
		}
		if named = c(bare); named != nil {
			return named
		}
	}
	switch {
	case errors.As(err, &running):
		return provider.Errorf(provider.OperationInProgress, "%w", err).WithRetryAfter(askAgain)
	case errors.As(err, &retry):
		return provider.Errorf(provider.OperationInProgress, "%w", err).WithRetryAfter(retry.RetryAfter())
	case errors.As(err, &request) && request.Timeout() && request.Err != context.DeadlineExceeded:
		// The limit of http.Client itself, which also says that it is a context's: the caller still waits.
		return provider.Errorf(provider.CloudUnavailable, "%w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	default:
		// NotImplemented too, which is about one object: upstream tries again, and an UNIMPLEMENTED would switch the
		// method off for all.
		return wellKnown(err)
	}
}

// wellKnown reads what the clients of many clouds have in common.
func wellKnown(err error) *provider.Error {
	shown := answerIn(err)
	reason := shown.reason()
	switch {
	case reason == provider.RateLimited:
		return provider.RateLimitedFor(cmp.Or(shown.retryAfter, rateLimitPause), err)
	case reason == provider.CloudError && (shown.unreachable || slices.Contains(shown.statuses, http.StatusServiceUnavailable)):
		reason = provider.CloudUnavailable
	}
	return provider.Errorf(reason, "%w", err)
}

// Codes of clouds' errors, in lower case without separators.
var (
	rateLimited = []string{
		"throttling", "throttlingexception", "throttledexception", "ec2throttledexception", "requestlimitexceeded", "toomanyrequests",
		"toomanyrequestsexception", "requestthrottled", "requestthrottledexception", "slowdown", "bandwidthlimitexceeded",
		"ratelimitexceeded", "userratelimitexceeded", "resourceexhausted",
	}
	credentialsInvalid = []string{
		"authfailure", "invalidclienttokenid", "expiredtoken", "expiredtokenexception", "unrecognizedclientexception",
		"signaturedoesnotmatch", "missingauthenticationtoken", "unauthorized", "invalidauthenticationtoken",
		"expiredauthenticationtoken", "notauthenticated", "invalidclient", "invalidgrant",
		"unauthenticated", "invalidapitoken",
	}
	permissionMissing = []string{
		"unauthorizedoperation", "accessdenied", "accessdeniedexception", "forbidden", "authorizationfailed", "tokenreadonly",
		"notauthorized", "permissiondenied",
	}
	quotaExceeded = []string{"quotaexceeded", "resourcelimitexceeded", "limitexceeded", "toomanyloadbalancers"}
)

// reason is that of the answer; CloudError where it shows no other.
func (a *answer) reason() provider.Reason {
	if slices.Contains(a.statuses, http.StatusTooManyRequests) {
		return provider.RateLimited
	}
	for _, code := range a.codes {
		code = strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(code))
		switch {
		case slices.Contains(rateLimited, code):
			return provider.RateLimited
		case slices.Contains(credentialsInvalid, code):
			return provider.CredentialsInvalid
		case slices.Contains(permissionMissing, code):
			return provider.PermissionMissing
		case slices.Contains(quotaExceeded, code), strings.HasSuffix(code, "limitexceeded"):
			return provider.QuotaExceeded
		}
	}
	switch {
	case slices.Contains(a.statuses, http.StatusUnauthorized):
		return provider.CredentialsInvalid
	case slices.Contains(a.statuses, http.StatusForbidden):
		return provider.PermissionMissing
	default:
		return provider.CloudError
	}
}
