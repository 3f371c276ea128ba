// This file puts errors of the API into the contract's words.

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	"outrigger.dev/adapters/go/provider"
)

// The waits that a rate limit can name: the contract's bounds of a class of calls.
const (
	minPause = time.Second
	maxPause = time.Hour
)

// IsNotFound tells whether the API answered that there is no such thing.
func IsNotFound(err error) bool { return statusOf(err) == http.StatusNotFound }

// IsNameTaken tells whether a load balancer was refused because another one has its name. Names are
// unique in a team, which keeps two processes from making one each.
func IsNameTaken(err error) bool {
	answer := answerOf(err)
	return answer != nil && answer.Response.StatusCode == http.StatusUnprocessableEntity &&
		strings.Contains(strings.ToLower(answer.Message), "name is not unique")
}

func answerOf(err error) *godo.ErrorResponse {
	var answer *godo.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer
	}
	return nil
}

func statusOf(err error) int {
	if answer := answerOf(err); answer != nil {
		return answer.Response.StatusCode
	}
	return 0
}

// Explain puts an error of the API into the contract's words. action is read after "cannot", and scope is
// the token's scope that it needs. The end of ctx stays as it is.
func Explain(ctx context.Context, action, scope string, err error) error {
	if err == nil {
		return nil
	}
	var named *provider.Error
	if errors.As(err, &named) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("cannot %s: %w", action, ctx.Err())
	}
	var noToken *noTokenError
	if errors.As(err, &noToken) {
		return provider.Errorf(provider.CredentialsInvalid, "cannot %s: %w", action, err)
	}
	answer := answerOf(err)
	if answer == nil {
		if notJSON(err) {
			return provider.Errorf(provider.CloudError, "cannot %s: the API's answer cannot be read: %w", action, err)
		}
		return provider.Errorf(provider.CloudUnavailable, "cannot %s: no answer from the API: %w", action, err)
	}
	switch status := answer.Response.StatusCode; {
	case status == http.StatusUnauthorized:
		return provider.Errorf(provider.CredentialsInvalid,
			"cannot %s: the API refuses the token (401): write a valid one into the token file", action)
	case status == http.StatusForbidden:
		return provider.Errorf(provider.PermissionMissing,
			"cannot %s: the token may not: it needs the scope %s: %w", action, scope, err)
	case status == http.StatusTooManyRequests:
		return provider.RateLimitedFor(pause(answer.Response.Header, time.Now()), fmt.Errorf("cannot %s: %w", action, err))
	case status == http.StatusConflict:
		return provider.Errorf(provider.Conflict, "cannot %s: %w", action, err)
	case isQuota(answer):
		return provider.Errorf(provider.QuotaExceeded, "cannot %s: %w", action, err)
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return provider.Errorf(provider.CloudUnavailable, "cannot %s: %w", action, err)
	default:
		return provider.Errorf(provider.CloudError, "cannot %s: %w", action, err)
	}
}

// isQuota recognises the refusal of an account's limit, which the API has no code of its own for.
func isQuota(answer *godo.ErrorResponse) bool {
	switch answer.Response.StatusCode {
	case http.StatusUnprocessableEntity, http.StatusPaymentRequired:
		message := strings.ToLower(answer.Message)
		return strings.Contains(message, "limit") &&
			(strings.Contains(message, "exceed") || strings.Contains(message, "reached"))
	default:
		return false
	}
}

// notJSON tells whether there was an answer, but not of the API: net/http wraps all that failed before.
func notJSON(err error) bool {
	var request interface{ Timeout() bool } // url.Error
	return !errors.As(err, &request)
}

// pause is how long the API wants no requests: Retry-After where it says so (the limit of a minute), else
// the time at which the oldest request of the hour expires.
func pause(header http.Header, now time.Time) time.Duration {
	after := 30 * time.Second
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if reset, err := strconv.ParseInt(header.Get("Ratelimit-Reset"), 10, 64); err == nil {
		after = time.Unix(reset, 0).Sub(now)
	}
	return min(max(after, minPause), maxPause)
}
