// This file runs the cloud's calls, which have no deadline, for callers that have one.

package serve

import (
	"context"
	"sync"
	"time"

	"outrigger.dev/adapters/go/provider"
)

// keptResult is how long the result of a call that outlived its caller waits to be asked for: the
// controller asks again within 5 min.
const keptResult = 10 * time.Minute

// bridge runs a cloud's calls, which have no deadline, for callers that have one. A call that takes
// longer than a caller waits goes on by itself, alone for its key, and its result is handed to the next
// caller that asks for the same. Its context is the process's, not the caller's: a change that is cut
// off in the middle leaves half of itself behind.
type bridge struct {
	// process ends when the provider does.
	process context.Context
	// wait is how long a caller waits, limit how long a call may run.
	wait, limit time.Duration
	// slots has room for each call that may run at a time, until its context ends.
	slots chan struct{}
	// outcomes learns of the calls that have ended, waited for or not.
	outcomes *outcomes

	mu      sync.Mutex
	running map[string]*bridged
}

// bridged is a call that runs, or one whose result was not fetched yet.
type bridged struct {
	what    string
	goal    string
	since   time.Time
	done    chan struct{}
	result  any
	err     error
	endedAt time.Time
}

// stillRunning says that no result is there yet.
type stillRunning struct {
	text string
	// begun: a call about this key runs; else none was begun yet.
	begun bool
}

func (e *stillRunning) Error() string { return e.text }

func newBridge(process context.Context, wait, limit time.Duration, most int, outcomes *outcomes) *bridge {
	return &bridge{
		process: process, wait: wait, limit: limit, slots: make(chan struct{}, most), outcomes: outcomes, running: map[string]*bridged{},
	}
}

// through calls work for key and waits for its result, at most as long as a caller waits: the error is
// stillRunning then. goal names the desired state: a call that runs for another goal is waited for, and
// its result dropped.
func through[T any](b *bridge, ctx context.Context, key, what, goal string, work func(context.Context) (T, error)) (T, error) {
	var none T
	patience := time.NewTimer(b.wait)
	defer patience.Stop()
	for {
		call, err := b.join(ctx, patience.C, key, what, goal, func(ctx context.Context) (any, error) { return work(ctx) })
		if err != nil {
			return none, err
		}
		select {
		case <-call.done:
		case <-patience.C:
			provider.CallOf(ctx).Log.Info("a call of the cloud goes on by itself", "call", call.what,
				"running_seconds", int(time.Since(call.since).Seconds()))
			return none, &stillRunning{call.running(), true}
		case <-provider.CallerGone(ctx):
			return none, context.Canceled
		}
		b.forget(key, call)
		if call.goal == goal {
			result, _ := call.result.(T)
			return result, call.err
		}
	}
}

// join is the call that runs for key, or a new one once there is room for it.
func (b *bridge) join(ctx context.Context, patience <-chan time.Time, key, what, goal string, work func(context.Context) (any, error)) (*bridged, error) {
	if call := b.call(key); call != nil {
		return call, nil
	}
	select {
	case b.slots <- struct{}{}:
	case <-patience:
		return nil, &stillRunning{what + " waits for another call", false}
	case <-provider.CallerGone(ctx):
		return nil, context.Canceled
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if call := b.running[key]; call != nil { // it came while this one waited for room
		<-b.slots
		return call, nil
	}
	// On another connection its successor may have been answered already.
	if err := provider.Check(ctx); err != nil {
		<-b.slots
		return nil, err
	}
	call := &bridged{what: what, goal: goal, since: time.Now(), done: make(chan struct{})}
	b.running[key] = call
	release := provider.Hold(ctx)
	callCtx, cancel := context.WithTimeout(provider.WithCall(b.process, provider.CallOf(ctx)), b.limit)
	// A call that outlives its context, and may never return, gives its room to others.
	context.AfterFunc(callCtx, func() { <-b.slots })
	go func() {
		defer release()
		defer cancel()
		result, err := provider.Recovered(callCtx, func() (any, error) { return work(callCtx) })
		// Options.Classify is the vendor's code, too.
		_, _ = provider.Recovered(callCtx, func() (struct{}, error) { return struct{}{}, b.outcomes.saw(err) })
		b.mu.Lock()
		defer b.mu.Unlock()
		call.result, call.err, call.endedAt = result, err, time.Now()
		close(call.done)
	}()
	return call, nil
}

// call returns the call of a key; results that were not fetched in time are dropped.
func (b *bridge) call(key string) *bridged {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, call := range b.running {
		if !call.endedAt.IsZero() && time.Since(call.endedAt) > keptResult {
			delete(b.running, other)
		}
	}
	return b.running[key]
}

// forget drops a call whose result was taken.
func (b *bridge) forget(key string, call *bridged) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running[key] == call {
		delete(b.running, key)
	}
}

// running says what runs, without changing parts: equal messages are one condition.
func (c *bridged) running() string { return c.what + " has not returned yet" }
