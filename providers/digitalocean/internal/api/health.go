// This file keeps what calls have shown about the API, the credentials and the quota.

package api

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// Names of the dependencies in GetStatus.
const (
	theAPI      = "digitalocean-api"
	credentials = "credentials"
)

// Health is what the last calls have shown about the API and the credentials, for GetStatus.
type Health struct {
	shown *provider.Dependencies

	mu    sync.Mutex
	quota *v1.QuotaStatus
}

func newHealth() *Health {
	return &Health{shown: provider.NewDependencies(theAPI, credentials)}
}

func (h *Health) noToken(err error) { h.shown.Fails(credentials, err.Error()) }

func (h *Health) failed(err error) {
	h.shown.Fails(theAPI, "the last request got no answer: "+err.Error())
}

func (h *Health) answered(response *http.Response) {
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		h.shown.Works(theAPI)
		h.shown.Fails(credentials, "the API refuses the token; write a valid one into the token file")
	case response.StatusCode == http.StatusTooManyRequests:
		h.shown.Fails(theAPI, "the API limits the rate of requests")
	case response.StatusCode >= http.StatusInternalServerError:
		h.shown.Fails(theAPI, "the API's last answer was "+response.Status)
	default:
		h.shown.Works(theAPI, credentials)
	}
	h.noteQuota(response.Header)
}

func (h *Health) noteQuota(header http.Header) {
	limit, limitErr := strconv.ParseUint(header.Get("Ratelimit-Limit"), 10, 64)
	left, leftErr := strconv.ParseUint(header.Get("Ratelimit-Remaining"), 10, 64)
	if limitErr != nil || leftErr != nil {
		return
	}
	quota := &v1.QuotaStatus{Name: "api-requests", Limit: limit, Remaining: left}
	if reset, err := strconv.ParseInt(header.Get("Ratelimit-Reset"), 10, 64); err == nil && reset > 0 {
		quota.ResetsAt = timestamppb.New(time.Unix(reset, 0))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.quota = quota
}

// Status is the answer to GetStatus.
func (h *Health) Status() *v1.GetStatusResponse {
	status := h.shown.Status()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.quota != nil {
		status.Quotas = []*v1.QuotaStatus{h.quota}
	}
	return status
}
