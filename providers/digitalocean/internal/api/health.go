package api

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Health is what the last calls have shown about the API and the credentials, for GetStatus.
type Health struct {
	mu          sync.Mutex
	api         condition
	credentials condition
	quota       *v1.QuotaStatus
}

type condition struct {
	wrong       string
	lastSuccess time.Time
}

func (c *condition) set(wrong string) {
	c.wrong = wrong
	if wrong == "" {
		c.lastSuccess = time.Now()
	}
}

func (h *Health) noToken(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.credentials.set(err.Error())
}

func (h *Health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.api.set("the last request got no answer: " + err.Error())
}

func (h *Health) answered(response *http.Response) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		h.api.set("")
		h.credentials.set("the API refuses the token; write a valid one into the token file")
	case response.StatusCode == http.StatusTooManyRequests:
		h.api.set("the API limits the rate of requests")
	case response.StatusCode >= http.StatusInternalServerError:
		h.api.set("the API's last answer was " + response.Status)
	default:
		h.api.set("")
		h.credentials.set("")
	}
	h.noteQuota(response.Header)
}

func (h *Health) noteQuota(header http.Header) {
	limit, limitErr := strconv.ParseUint(header.Get("Ratelimit-Limit"), 10, 64)
	left, leftErr := strconv.ParseUint(header.Get("Ratelimit-Remaining"), 10, 64)
	if limitErr != nil || leftErr != nil {
		return
	}
	h.quota = &v1.QuotaStatus{Name: "api-requests", Limit: limit, Remaining: left}
	if reset, err := strconv.ParseInt(header.Get("Ratelimit-Reset"), 10, 64); err == nil && reset > 0 {
		h.quota.ResetsAt = timestamppb.New(time.Unix(reset, 0))
	}
}

// Status is the answer to GetStatus. Nothing is BROKEN: a restart mends neither the cloud nor a token.
func (h *Health) Status() *v1.GetStatusResponse {
	h.mu.Lock()
	defer h.mu.Unlock()
	status := &v1.GetStatusResponse{
		Readiness: v1.Readiness_READINESS_READY,
		Dependencies: []*v1.DependencyStatus{
			dependency("digitalocean-api", h.api), dependency("credentials", h.credentials),
		},
	}
	for _, part := range status.Dependencies {
		if part.Readiness != v1.Readiness_READINESS_READY {
			status.Readiness = v1.Readiness_READINESS_DEGRADED
		}
	}
	if h.quota != nil {
		status.Quotas = []*v1.QuotaStatus{h.quota}
	}
	return status
}

func dependency(name string, is condition) *v1.DependencyStatus {
	status := &v1.DependencyStatus{Name: name, Readiness: v1.Readiness_READINESS_READY, Message: is.wrong}
	if is.wrong != "" {
		status.Readiness = v1.Readiness_READINESS_DEGRADED
	}
	if !is.lastSuccess.IsZero() {
		status.LastSuccess = timestamppb.New(is.lastSuccess)
	}
	return status
}
