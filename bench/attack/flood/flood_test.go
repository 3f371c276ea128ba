// This test floods a server of Go with each kind of traffic.

package flood

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// seen is what a server of Go sees of a flood.
type observed struct {
	mutex             sync.Mutex
	peers, paths      map[string]bool
	atOnce, mostOnce  int
	bytes             int64
	protocol, payload string
}

func (s *observed) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	s.mutex.Lock()
	peer, _, _ := strings.Cut(in.RemoteAddr, ":")
	s.peers[peer], s.paths[in.URL.Path], s.protocol = true, true, in.Proto
	s.atOnce++
	s.mostOnce = max(s.mostOnce, s.atOnce)
	s.mutex.Unlock()
	body, _ := io.ReadAll(in.Body)
	time.Sleep(5 * time.Millisecond)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.atOnce--
	s.bytes, s.payload = max(s.bytes, int64(len(body))), in.Header.Get("Authorization")+string(body)
	out.WriteHeader(http.StatusTooManyRequests)
}

func TestFloodIsOfManyPeersAndKeepsItsStreamsBusy(t *testing.T) {
	for name, test := range map[string]struct {
		send     Traffic
		protocol string
		atOnce   int
		bytes    int64
		contains string
	}{
		"streams": {send: Streams(10), protocol: "HTTP/2.0", atOnce: 30},
		"uploads": {send: Uploads(100_000), protocol: "HTTP/2.0", atOnce: 3, bytes: 100_000},
		"paths":   {send: Paths(), protocol: "HTTP/1.1", atOnce: 3},
		"tokens":  {send: Tokens(), protocol: "HTTP/1.1", atOnce: 3, contains: "Bearer "},
		"reviews": {send: Reviews(), protocol: "HTTP/1.1", atOnce: 3, contains: "volumeHandle"},
	} {
		t.Run(name, func(t *testing.T) {
			all := &observed{peers: map[string]bool{}, paths: map[string]bool{}}
			server := httptest.NewUnstartedServer(all)
			server.EnableHTTP2 = true
			server.StartTLS()
			defer server.Close()
			flood := &Flood{Server: server.Listener.Addr().String(), Peers: 3, Connections: 1, Send: test.send}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			go func() {
				for ctx.Err() == nil && flood.Answers.Load() < 200 {
					time.Sleep(time.Millisecond)
				}
				stop()
			}()
			flood.Run(ctx)
			all.mutex.Lock()
			defer all.mutex.Unlock()
			if flood.Answers.Load() < 200 || flood.Refused.Load() != flood.Answers.Load() {
				t.Error(flood.Answers.Load(), flood.Refused.Load())
			}
			if len(all.peers) != 3 || all.protocol != test.protocol || all.mostOnce > test.atOnce || all.mostOnce < test.atOnce/2 {
				t.Error(all.peers, all.protocol, all.mostOnce)
			}
			if all.bytes < test.bytes || !strings.Contains(all.payload, test.contains) {
				t.Error(all.bytes, all.payload)
			}
		})
	}
}
