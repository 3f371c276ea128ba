// This file has the clients of a load balancer.

package traffic

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// every is the time between two connections, whether the earlier ones were answered or not.
	every = 20 * time.Millisecond
	// lostAfter is how long a connection waits for its answer.
	lostAfter = time.Second
)

// connection is one that has ended.
type connection struct {
	began      time.Time
	isAnswered bool
	// pod is the answer.
	pod string
}

// connect opens a connection for one request.
func connect(ctx context.Context, address string) connection {
	made := connection{began: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return made
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return made
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	made.isAnswered, made.pod = err == nil && answer.StatusCode == http.StatusOK, string(body)
	return made
}

// clients connect until they are stopped.
type clients struct {
	mu    sync.Mutex
	ended []connection
	stop  func()
}

// begin has connections to an address made from now on.
func begin(ctx context.Context, address string) *clients {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	c := &clients{stop: func() { cancel(); running.Wait() }}
	running.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			running.Go(func() {
				made := connect(ctx, address)
				if ctx.Err() != nil {
					return // it was not the load balancer that ended it
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				c.ended = append(c.ended, made)
			})
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return c
}

// window is what became of the connections of some time.
type window struct {
	all, lost int
	// outage is the time from the beginning of the first lost connection to that of the last one; 0: none was lost.
	outage time.Duration
	// quiet is the time since the last lost connection began, or since the window began.
	quiet time.Duration
	// pods have answered.
	pods map[string]bool
}

// since is the window from a moment until now, without the connections that have not ended.
func (c *clients) since(moment time.Time) window {
	c.mu.Lock()
	defer c.mu.Unlock()
	return windowOf(c.ended, moment, time.Now())
}

func windowOf(ended []connection, from, now time.Time) window {
	w := window{pods: map[string]bool{}}
	var first, last time.Time
	for _, made := range ended {
		switch {
		case made.began.Before(from):
			continue
		case made.isAnswered:
			w.pods[made.pod] = true
		default:
			w.lost++
			if first.IsZero() || made.began.Before(first) {
				first = made.began
			}
			if made.began.After(last) {
				last = made.began
			}
		}
		w.all++
	}
	w.outage, w.quiet = last.Sub(first), now.Sub(from)
	if w.lost > 0 {
		w.quiet = now.Sub(last)
	}
	return w
}
