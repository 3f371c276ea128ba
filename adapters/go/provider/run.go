// This file admits calls and runs their handlers, and counts the running ones for the drain.

package provider

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// cancelGrace is how long the context of a changing handler outlives its caller.
const cancelGrace = 30 * time.Second

// core is the state that the services of one server share.
type core struct {
	provider     *Provider
	capabilities *v1.Capabilities
	running      *running
	log          *slog.Logger

	mu sync.RWMutex
	// session is the latest handshake: a process serves one controller at a time (an old one may drain
	// while the next starts).
	session *session
	// bootID and offered are those of the latest offer.
	bootID  string
	offered *v1.Capabilities
}

// session is the result of a handshake.
type session struct {
	cluster Cluster
	// maxSendBytes is the largest message that the controller accepts.
	maxSendBytes int
}

// request is a request with a context, which all but Handshake and GetStatus have.
type request interface {
	Method() *v1.Method
	GetContext() *v1.CallContext
}

func (c *core) shakeHands(cluster Cluster, maxReceiveBytes uint64) {
	maxSendBytes := maxMessageBytes
	if maxReceiveBytes > 0 {
		maxSendBytes = int(min(maxReceiveBytes, 1<<31-1))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.session; old != nil && cluster.UID == "" && cluster.Name == old.cluster.Name {
		// The caller has fewer rights, which must not make existing resources another cluster's.
		cluster.UID = old.cluster.UID
	}
	c.session = &session{cluster: cluster, maxSendBytes: maxSendBytes}
}

// sessionOf returns the handshake under which calls about the cluster are made.
func (c *core) sessionOf(cluster string) (*session, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.session == nil:
		return nil, Errorf(v1.ErrorReason_ERROR_REASON_NOT_HANDSHAKED,
			"no handshake since this provider process started; call Handshake first")
	case c.session.cluster.Name != cluster:
		return nil, Errorf(v1.ErrorReason_ERROR_REASON_NOT_HANDSHAKED,
			"the call is about cluster %q, the latest handshake about %q; call Handshake first", cluster,
			c.session.cluster.Name)
	default:
		return c.session, nil
	}
}

// admit returns the facts of a call, if it may run.
func (c *core) admit(ctx context.Context, request request) (Call, error) {
	if c.running.isDraining() {
		return Call{}, errShuttingDown
	}
	sent := request.GetContext()
	session, err := c.sessionOf(sent.GetClusterName())
	if err != nil {
		return Call{}, err
	}
	call := Call{
		RPC: request.Method().Name, RequestID: sent.GetRequestId(), Cluster: session.cluster,
		Traceparent: strings.Join(metadata.ValueFromIncomingContext(ctx, "traceparent"), ","),
		method:      request.Method(), maxSendBytes: session.maxSendBytes, hold: c.running.hold,
	}
	if hinted, ok := request.(interface {
		GetIdentity() *v1.LoadBalancerIdentity
	}); ok {
		call.Identity = hinted.GetIdentity()
	}
	if sent.GetClusterUid() != "" {
		call.Cluster.UID = sent.GetClusterUid() // it may have become known since
	}
	call.Log = c.log.With("rpc", call.RPC, "request_id", call.RequestID)
	if call.Traceparent != "" {
		call.Log = call.Log.With("traceparent", call.Traceparent)
	}
	return call, nil
}

// start runs a handler in a goroutine of its own, so that its end does not depend on its caller.
// ended gets its result once, when it has ended. The context of one that changes the cloud outlives its caller.
func start[T any](c *core, ctx context.Context, request request, handler func(context.Context) (T, error)) (ended <-chan outcome[T], err error) {
	call, err := c.admit(ctx, request)
	if err != nil {
		return nil, err
	}
	release, ok := c.running.begin()
	if !ok {
		return nil, errShuttingDown
	}
	gone, leave := context.WithCancel(ctx)
	unhook := context.AfterFunc(c.running.stop, leave)
	handlerCtx, end := context.WithCancel(ctx)
	if call.method.ChangesCloud {
		handlerCtx, end = outliving(gone, ctx)
	}
	call.callerGone = gone.Done()
	handlerCtx = WithCall(handlerCtx, call)
	result := make(chan outcome[T], 1)
	go func() {
		began := time.Now()
		defer release()
		value, err := Recovered(handlerCtx, func() (T, error) { return handler(handlerCtx) })
		end()
		unhook()
		leave()
		logEnd(call.Log, time.Since(began), err)
		result <- outcome[T]{value, err}
	}()
	return result, nil
}

// outcome is how a handler ended.
type outcome[T any] struct {
	value T
	err   error
}

// outliving is a context that ends cancelGrace after gone: a cloud request in flight ends by itself.
func outliving(gone, values context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(values))
	unhook := context.AfterFunc(gone, func() { time.AfterFunc(cancelGrace, cancel) })
	return ctx, func() { unhook(); cancel() }
}

// run waits for a handler, at most until its caller is gone; the handler goes on by itself then.
func run[T any](c *core, ctx context.Context, request request, handler func(context.Context) (T, error)) (T, error) {
	ended, err := start(c, ctx, request, handler)
	if err == nil {
		select {
		case result := <-ended:
			return result.value, result.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	var none T
	return none, err
}

// stream runs a handler that sends messages, and sends empty ones before the caller takes its silence for a loss. The
// handler's send fails once the caller is gone.
func stream[M any](c *core, request request, out grpc.ServerStreamingServer[M], handler func(ctx context.Context, send func(*M) error) error) error {
	ctx := out.Context()
	messages := make(chan *M)
	ended, err := start(c, ctx, request, func(ctx context.Context) (struct{}, error) {
		gone := CallOf(ctx).callerGone
		return struct{}{}, handler(ctx, func(message *M) error {
			select {
			case messages <- message:
				return nil
			case <-gone:
				return errCallerGone
			}
		})
	})
	if err != nil {
		return err
	}
	for {
		var message *M
		select {
		case message = <-messages:
		case <-time.After(request.Method().MaxSilence / 3): // the deadline bounds a handler that has nothing yet
			message = new(M)
		case result := <-ended:
			return result.err
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := out.Send(message); err != nil {
			return err
		}
	}
}

// Recovered runs work, and turns a panic of it into an error. The text of a panic may contain anything, so it is logged but not sent.
// Handlers run so already; work that outlives its handler, in a goroutine of its own, needs it.
func Recovered[T any](ctx context.Context, work func() (T, error)) (value T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			call := CallOf(ctx)
			call.Log.Error("the provider's code panicked", "panic", cut(fmt.Sprint(cause)), "stack", string(debug.Stack()))
			err = fmt.Errorf("the provider panicked: look for request id %s in its log", call.RequestID)
		}
	}()
	return work()
}

func logEnd(log *slog.Logger, took time.Duration, err error) {
	milliseconds := float64(took.Microseconds()) / 1e3
	if err == nil {
		log.Debug("call ended", "duration_ms", milliseconds)
		return
	}
	status, _ := statusOf(err)
	log.Info("call failed", "duration_ms", milliseconds, "code", codes.Code(status.Code).String(), "reason", reasonOf(err),
		"error", err.Error())
}

// running counts the handlers that run, and says whether more may start.
type running struct {
	mu       sync.Mutex
	count    int
	draining chan struct{}
	idle     chan struct{}
	// stop ends the wait of each call for its caller.
	stop   context.Context
	cancel context.CancelFunc
}

func newRunning() *running {
	stop, cancel := context.WithCancel(context.Background())
	return &running{draining: make(chan struct{}), idle: make(chan struct{}), stop: stop, cancel: cancel}
}

// begin counts one more handler until release is called; not ok once the drain has begun.
func (r *running) begin() (release func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isDraining() {
		return nil, false
	}
	r.count++
	return r.end, true
}

// hold counts more work of a handler that runs.
func (r *running) hold() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	return sync.OnceFunc(r.end)
}

func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count--
	if r.count == 0 && r.isDraining() {
		close(r.idle)
	}
}

func (r *running) isDraining() bool {
	select {
	case <-r.draining:
		return true
	default:
		return false
	}
}

// drain refuses new calls from now on and waits for the running ones: patience for them to end by
// themselves, grace more once their callers count as gone. It returns the number of those
// that still run.
func (r *running) drain(patience, grace time.Duration) int {
	r.mu.Lock()
	close(r.draining)
	if r.count == 0 {
		close(r.idle)
	}
	r.mu.Unlock()
	for _, wait := range []time.Duration{patience, grace} {
		select {
		case <-r.idle:
			return 0
		case <-time.After(wait):
			r.cancel()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}
