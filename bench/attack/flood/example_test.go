// This file shows a flood of a server.

package flood_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"outrigger.dev/bench/attack/flood"
)

// Example floods a server until the context ends.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.WriteHeader(http.StatusTooManyRequests)
		stop()
	}))
	defer server.Close()
	attack := &flood.Flood{Server: server.Listener.Addr().String(), Peers: 1, Connections: 1, Send: flood.Paths()}
	attack.Run(ctx)
	fmt.Println(attack.Refused.Load() == attack.Answers.Load())
	// Output: true
}
