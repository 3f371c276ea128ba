// Package api calls DigitalOcean's API: the token, the health that calls have shown, errors in the
// contract's words, and lists of many pages.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/digitalocean/godo"
)

// DefaultURL is DigitalOcean's API.
const DefaultURL = "https://api.digitalocean.com"

// requestTimeout bounds one request, so that a connection that died without a word does not hold a key.
const requestTimeout = 20 * time.Second

// Client is godo's client with the health of its calls. Its requests are never repeated by it: the
// controller repeats calls, and each repetition counts against the rate limit.
type Client struct {
	*godo.Client
	// Health is what the last calls have shown.
	Health *Health
}

// NewClient makes a client; nothing is called. baseURL is DefaultURL except in tests and behind gateways.
func NewClient(baseURL string, token Token, userAgent string) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, fmt.Errorf("the API's URL %q is no http or https URL", baseURL)
	}
	health := newHealth()
	client, err := godo.New(
		&http.Client{
			Transport: &transport{base: http.DefaultTransport, token: token, health: health},
			Timeout:   requestTimeout,
		},
		godo.SetBaseURL(strings.TrimSuffix(baseURL, "/")+"/"),
		godo.SetUserAgent(userAgent),
	)
	if err != nil {
		return nil, fmt.Errorf("the API's client: %w", err)
	}
	return &Client{Client: client, Health: health}, nil
}

// transport authorises requests and notes how they end. It logs no header and no body.
type transport struct {
	base   http.RoundTripper
	token  Token
	health *Health
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := t.token()
	if err != nil {
		t.health.noToken(err)
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, &noTokenError{err}
	}
	begin := time.Now()
	response, err := t.send(request, token)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		// The token may have been replaced while the request was on its way.
		if fresh, freshErr := t.token(); freshErr == nil && fresh != token && rewind(request) {
			_ = response.Body.Close()
			response, err = t.send(request, fresh)
		}
	}
	log := slog.With("method", request.Method, "path", request.URL.Path, "took", time.Since(begin).String())
	if err != nil {
		t.health.failed(err)
		log.Debug("request failed", "error", err.Error())
		return nil, err
	}
	t.health.answered(response)
	log.Debug("request answered", "status", response.StatusCode)
	return response, nil
}

func (t *transport) send(request *http.Request, token string) (*http.Response, error) {
	authorised := request.Clone(request.Context())
	authorised.Header.Set("Authorization", "Bearer "+token)
	return t.base.RoundTrip(authorised)
}

func rewind(request *http.Request) bool {
	if request.Body == nil || request.Body == http.NoBody {
		return true
	}
	if request.GetBody == nil {
		return false
	}
	body, err := request.GetBody()
	if err != nil {
		return false
	}
	request.Body = body
	return true
}

// noTokenError says that no request was sent.
type noTokenError struct{ err error }

func (e *noTokenError) Error() string { return e.err.Error() }
func (e *noTokenError) Unwrap() error { return e.err }

// PageSize is the largest that the API takes.
const PageSize = 200

// All hands every item of a list to each, page after page. The list is not read at one moment: an item
// may come twice, or be passed over because another one went. Items that matter are asked for by
// themselves.
func All[T any](ctx context.Context, list func(context.Context, *godo.ListOptions) ([]T, *godo.Response, error),
	each func(T) error,
) (total int, err error) {
	for page := 1; ; page++ {
		items, response, err := list(ctx, &godo.ListOptions{Page: page, PerPage: PageSize})
		if err != nil {
			return 0, err
		}
		for _, item := range items {
			if err := each(item); err != nil {
				return 0, err
			}
		}
		total += len(items)
		if len(items) == 0 || response.Links == nil || response.Links.IsLastPage() {
			return total, nil
		}
	}
}
