// These tests run handlers with a clock of their own.

package provider

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// pages is the stream of a list.
type pages struct {
	grpc.ServerStream
	ctx  context.Context
	sent []*v1.ListRoutesResponse
}

func (p *pages) Context() context.Context { return p.ctx }

func (p *pages) Send(page *v1.ListRoutesResponse) error {
	p.sent = append(p.sent, page)
	return nil
}

// Upstream's ListRoutes, for one, returns all routes at once.
func TestAListThatHasNothingForLongIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := &core{running: newRunning(), log: logger(), session: &session{maxSendBytes: maxMessageBytes}}
		out := &pages{ctx: t.Context()}
		err := list(core, &v1.ListRoutesRequest{}, out, func(_ context.Context, send func(*v1.Route) error) error {
			time.Sleep(70 * time.Second)
			return send(&v1.Route{})
		})
		if err != nil || len(out.sent) != 4 {
			t.Fatal(out.sent, err)
		}
		for index, page := range out.sent {
			if isLast := index == 3; page.Complete != isLast || (len(page.Items) == 1) != isLast {
				t.Error(index, page)
			}
		}
	})
}

func TestACallThatHasEndedLeavesNothingBehind(t *testing.T) {
	values, freed := &pages{}, make(chan struct{})
	runtime.AddCleanup(values, func(freed chan struct{}) { close(freed) }, freed)
	gone, leave := context.WithCancel(context.Background())
	_, end := outliving(gone, context.WithValue(context.Background(), callKey{}, values))
	end()
	leave()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
		}
	}
	t.Error("its values are held")
}
