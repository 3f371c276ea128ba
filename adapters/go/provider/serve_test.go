// These tests hold the limits of messages, the socket's file and the drain.

package provider_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

func TestTheSocketIsTheGroupsAndTakenOverOnlyWhenItIsStale(t *testing.T) {
	s := serve(t, &provider.Provider{})
	info, err := os.Stat(s.endpoint.Path())
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Fatal(info.Mode(), err)
	}
	if directory, err := os.Stat(filepath.Dir(s.endpoint.Path())); err != nil || directory.Mode().Perm() != 0o770 {
		t.Fatal(directory.Mode(), err)
	}
	second := &provider.Provider{Name: "second"}
	if err := second.ServeUntil(t.Context(), s.endpoint); err == nil || !strings.Contains(err.Error(), "another process serves") {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(s.endpoint.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the socket is still there", err)
	}
	// A dead process leaves its file, or one that it had not moved there yet.
	private := filepath.Join(filepath.Dir(s.endpoint.Path()), ".new")
	if err := errors.Join(os.Mkdir(private, 0o700), os.WriteFile(filepath.Join(private, "s"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.endpoint.Path()})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- second.ServeUntil(ctx, s.endpoint) }()
	until(t, "the stale socket to be taken over", func() bool {
		_, err := provider.Probe(s.endpoint, true, time.Second)
		return err == nil
	})
	if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the private directory is still there", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.endpoint.Path(), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.ServeUntil(t.Context(), s.endpoint); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Fatal(err)
	}
}

func TestADrainLetsCallsEndAndRefusesNewOnes(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, &provider.Provider{Instances: &cloud{
		lookup: func(context.Context, *v1.Node) (provider.Lookup, error) {
			entered <- struct{}{}
			<-leave
			return provider.Absent(), nil
		},
	}})
	s.handshake()
	client := v1.NewInstancesServiceClient(s.client)
	request := &v1.BatchGetInstancesRequest{Context: attempt(), Items: []*v1.Node{{Name: "a"}}}
	ended := make(chan error, 1)
	go func() { _, err := client.BatchGetInstances(context.Background(), request); ended <- err }()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	until(t, "new calls to be refused", func() bool {
		_, err := v1.NewProviderServiceClient(s.client).GetStatus(t.Context(), &v1.GetStatusRequest{})
		return err != nil && reasonOf(t, err) == "SHUTTING_DOWN"
	})
	got, err := grpc_health_v1.NewHealthClient(s.client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || got.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Fatal(got, err)
	}
	close(leave)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

func TestAProbeTellsHowTheProviderIs(t *testing.T) {
	got := &v1.GetStatusResponse{}
	var mu sync.Mutex
	s := serve(t, &provider.Provider{Status: func() *v1.GetStatusResponse {
		mu.Lock()
		defer mu.Unlock()
		return proto.CloneOf(got)
	}})
	for _, test := range []struct {
		readiness   v1.Readiness
		alive, good bool
		word        string
	}{
		{v1.Readiness_READINESS_READY, true, true, "ready"},
		{v1.Readiness_READINESS_DEGRADED, true, true, "degraded: api (is slow)"},
		{v1.Readiness_READINESS_STARTING, true, false, "starting"},
		{v1.Readiness_READINESS_BROKEN, false, false, "broken"},
	} {
		mu.Lock()
		got.Readiness = test.readiness
		got.Dependencies = nil
		if test.readiness == v1.Readiness_READINESS_DEGRADED {
			got.Dependencies = []*v1.DependencyStatus{{Name: "api", Readiness: test.readiness, Message: "is slow"}}
		}
		mu.Unlock()
		for ready, want := range map[bool]bool{false: test.alive, true: test.good} {
			sentence, err := provider.Probe(s.endpoint, ready, patience)
			if err != nil {
				sentence = err.Error()
			}
			if (err == nil) != want || !strings.Contains(sentence, test.word) {
				t.Errorf("%v, ready %v: %q", test.readiness, ready, sentence)
			}
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Probe(s.endpoint, false, patience); err == nil || !strings.Contains(err.Error(), "no provider serves") {
		t.Fatal(err)
	}
}
