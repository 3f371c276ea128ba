// This file admits and routes requests, and writes answers and pages.

package fakecloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP is the API.
func (c *Cloud) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.Refusal == AnswerNothing {
		c.refused.Wait()
	}
	path := strings.Trim(strings.TrimPrefix(request.URL.Path, "/v2"), "/")
	c.calls = append(c.calls, request.Method+" "+path)
	c.requests++
	if c.Refusal == RefuseAsDown {
		refuse(out, http.StatusServiceUnavailable, "service_unavailable", "The cloud is off.")
		return
	}
	if request.Method != http.MethodGet && strings.HasPrefix(path, "load_balancers") {
		c.changes++
	}
	limit := c.RequestsPerHour
	if limit == 0 {
		limit = 5000
	}
	left, reset := max(limit-c.spent, 0), 90*time.Second
	if c.Refusal == RefuseAsTooMany {
		left, reset = 0, time.Second
	}
	header := out.Header()
	header.Set("ratelimit-limit", strconv.Itoa(limit))
	header.Set("ratelimit-remaining", strconv.Itoa(left))
	header.Set("ratelimit-reset", strconv.FormatInt(c.clock().Add(reset).Unix(), 10))
	token := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	if c.Refusal == RefuseTokens || !slices.Contains(c.Tokens, token) {
		refuse(out, http.StatusUnauthorized, "unauthorized", "Unable to authenticate you")
		return
	}
	if left == 0 {
		refuse(out, http.StatusTooManyRequests, "too_many_requests", "API rate limit exceeded.")
		return
	}
	c.spent++
	fault := c.fault(request.Method, path)
	if fault != nil && fault.Status != 0 {
		if fault.RetryAfter > 0 {
			header.Set("retry-after", strconv.Itoa(fault.RetryAfter))
		}
		refuse(out, fault.Status, strings.ReplaceAll(strings.ToLower(http.StatusText(fault.Status)), " ", "_"), fault.Message)
		return
	}
	if fault != nil {
		c.route(discard{http.Header{}}, request, path)
		panic(http.ErrAbortHandler) // the connection breaks, without an answer
	}
	c.route(out, request, path)
}

func (c *Cloud) fault(method, path string) *Fault {
	for _, fault := range c.faults {
		if fault.Times > 0 && (fault.Method == "" || fault.Method == method) && strings.HasPrefix(path, fault.Path) {
			fault.Times--
			return fault
		}
	}
	return nil
}

func (c *Cloud) route(out http.ResponseWriter, request *http.Request, path string) {
	parts := strings.Split(path, "/")
	id := ""
	if len(parts) > 1 {
		id = parts[1]
	}
	switch route := request.Method + " " + parts[0]; {
	case len(parts) == 1 && route == "GET droplets":
		c.listDroplets(out, request)
	case len(parts) == 2 && route == "GET droplets":
		c.getDroplet(out, id)
	case len(parts) <= 2 && parts[0] == "load_balancers":
		c.loadBalancers(out, request, id)
	case len(parts) <= 2 && route == "GET certificates":
		c.certificates(out, request, id)
	case len(parts) == 1 && route == "POST tags":
		c.createTag(out, request)
	case len(parts) == 3 && route == "POST tags" && parts[2] == "resources":
		c.tagResources(out, request, id)
	case len(parts) == 2 && route == "DELETE tags":
		c.deleteTag(out, id)
	default:
		refuse(out, http.StatusNotFound, "not_found", "The resource you were accessing could not be found.")
	}
}

// discard is the writer of an answer that is lost.
type discard struct{ header http.Header }

func (d discard) Header() http.Header             { return d.header }
func (d discard) Write(bytes []byte) (int, error) { return len(bytes), nil }
func (d discard) WriteHeader(int)                 {}

func answer(out http.ResponseWriter, status int, body any) {
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(status)
	_ = json.NewEncoder(out).Encode(body)
}

func refuse(out http.ResponseWriter, status int, id, message string) {
	answer(out, status, map[string]any{"id": id, "message": message, "request_id": "4d9d8375-3c56-4925-a3e7-eb137fed17e9"})
}

func notFound(out http.ResponseWriter) {
	refuse(out, http.StatusNotFound, "not_found", "The resource you were accessing could not be found.")
}

// page answers with one page of a list.
func (c *Cloud) page(out http.ResponseWriter, request *http.Request, name string, items []map[string]any) {
	query := request.URL.Query()
	number := func(key string, fallback int) int {
		if value, err := strconv.Atoi(query.Get(key)); err == nil && value > 0 {
			return value
		}
		return fallback
	}
	size, page := number("per_page", 20), number("page", 1)
	if most := c.MaxPage; most > 0 {
		size = min(size, most)
	}
	size = min(size, 200)
	begin := min((page-1)*size, len(items))
	end := min(begin+size, len(items))
	pages := map[string]any{}
	link := func(to int) string {
		return fmt.Sprintf("https://api.digitalocean.com%s?page=%d&per_page=%d", request.URL.Path, to, size)
	}
	if page > 1 {
		pages["first"], pages["prev"] = link(1), link(page-1)
	}
	if end < len(items) {
		pages["next"], pages["last"] = link(page+1), link((len(items)+size-1)/size)
	}
	links := map[string]any{}
	if len(pages) > 0 {
		links["pages"] = pages
	}
	answer(out, http.StatusOK, map[string]any{
		name: items[begin:end], "links": links, "meta": map[string]any{"total": len(items)},
	})
}
