// These tests hold the account of connections.

package traffic

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"outrigger.dev/bench/rig"
)

func TestWindowBeginsWithAnEventAndHasItsOutage(t *testing.T) {
	event := time.Now()
	at := func(offset time.Duration, isAnswered bool) connection {
		return connection{began: event.Add(offset), isAnswered: isAnswered, pod: "a"}
	}
	ended := []connection{ // in the order in which they end: a lost one ends late
		at(-time.Second, false), at(time.Second, true), at(3*time.Second, true), at(5*time.Second, false), at(2*time.Second, false),
	}
	w := windowOf(ended, event, event.Add(9*time.Second))
	if w.all != 4 || w.lost != 2 || w.outage != 3*time.Second || w.quiet != 4*time.Second || len(w.pods) != 1 {
		t.Errorf("%+v", w)
	}
	if w := windowOf(ended[:3], event, event.Add(9*time.Second)); w.lost != 0 || w.outage != 0 || w.quiet != 9*time.Second {
		t.Errorf("without a lost one: %+v", w)
	}
}

func TestConnectionThatIsRefusedIsLostAndOneThatIsStoppedIsNot(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) { _, _ = answer.Write([]byte("pod-1")) }))
	clients := begin(t.Context(), strings.TrimPrefix(server.URL, "http://"))
	answered := func() (bool, error) { return clients.since(time.Time{}).pods["pod-1"], nil }
	if err := rig.Until(t.Context(), "an answer", nil, answered); err != nil {
		t.Fatal(err)
	}
	server.Close()
	lost := func() (bool, error) { return clients.since(time.Time{}).lost > 0, nil }
	if err := rig.Until(t.Context(), "a lost connection", nil, lost); err != nil {
		t.Fatal(err)
	}
	clients.stop()

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	clients = begin(t.Context(), silent.Addr().String())
	clients.stop()
	if w := clients.since(time.Time{}); w.all != 0 {
		t.Errorf("connections that the bench itself ended count: %+v", w)
	}
}
