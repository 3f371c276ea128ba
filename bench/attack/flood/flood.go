// Package flood attacks a server with clients that have no credential: so that it ends, loses its probes, or fills its log.
package flood

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Flood is connections that send requests, each the next one as soon as one is answered, and are opened again as soon as
// they are closed.
type Flood struct {
	// Server is its address and port.
	Server string
	// Peers is the number of source addresses, all of loopback.
	Peers int
	// Connections of each of them.
	Connections int
	// Send is the traffic of one connection.
	Send Traffic

	// Answers and Refused count answers, and those among them with code 429.
	Answers, Refused atomic.Int64
}

// Traffic is the requests of one connection.
type Traffic struct {
	protocol string
	// send sends requests until the connection ends.
	send func(f *Flood, wire net.Conn) error
}

// Run attacks until the context ends.
func (f *Flood) Run(ctx context.Context) {
	var all sync.WaitGroup
	for peer := range f.Peers {
		for range f.Connections {
			all.Go(func() { f.keep(ctx, peer) })
		}
	}
	all.Wait()
}

func (f *Flood) keep(ctx context.Context, peer int) {
	for ctx.Err() == nil {
		_ = f.connect(ctx, peer)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (f *Flood) connect(ctx context.Context, peer int) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(peer+1))}, Timeout: 10 * time.Second}
	wire, err := dialer.DialContext(ctx, "tcp", f.Server)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = wire.Close() })()
	secured := tls.Client(wire, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{f.Send.protocol}})
	defer func() { _ = secured.Close() }()
	if err := secured.HandshakeContext(ctx); err != nil {
		return err
	}
	return f.Send.send(f, secured)
}

func (f *Flood) answered(code int) {
	f.Answers.Add(1)
	if code == 429 {
		f.Refused.Add(1)
	}
}

// random is a name that no server has seen.
func random() string {
	var bytes [12]byte
	_, _ = rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}

// review is an AdmissionReview about a volume with a guessed handle.
func review() string {
	handle := random()
	return fmt.Sprintf(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": %q,
"resource": {"group": "", "version": "v1", "resource": "persistentvolumes"}, "operation": "CREATE", "name": %q,
"object": {"metadata": {"name": %q}, "spec": {"csi": {"driver": %q, "volumeHandle": %q}}}}}`, handle, handle, handle, Driver, handle)
}

// Driver is that of the volumes in reviews.
const Driver = "disk.example"
