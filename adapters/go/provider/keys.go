// This file limits changes: one at a time for each key, and in all as many as the provider declares.

package provider

import (
	"context"
	"sync"
	"time"
)

const (
	// keyPatience is how long a call waits for another of its key.
	keyPatience = 10 * time.Second
	// defaultInFlight is the contract's for a capability that leaves max_in_flight out.
	defaultInFlight = 16
)

// changes admits calls that change the cloud. The controller keeps to the limits too, but a handler outlives a call whose
// caller is gone.
type changes struct {
	// room has a place for each call that may run at a time.
	room chan struct{}

	mu sync.Mutex
	// running has a channel for each key, which is closed when the call about it has ended.
	running map[string]chan struct{}
}

func newChanges(most uint32) *changes {
	return &changes{room: make(chan struct{}, most), running: map[string]chan struct{}{}}
}

// begin waits until no other call has the key and there is room. ctx is that of a call.
func (c *changes) begin(ctx context.Context, key string) (end func(), err error) {
	patience := time.NewTimer(keyPatience)
	defer patience.Stop()
	gone := CallOf(ctx).callerGone
	for other := c.take(key); other != nil; other = c.take(key) {
		select {
		case <-other:
		case <-gone:
			return nil, errCallerGone
		case <-patience.C:
			return nil, Errorf(OperationInProgress, "another call about %s is running", key)
		}
	}
	select {
	case c.room <- struct{}{}:
		return func() { <-c.room; c.release(key) }, nil
	case <-gone:
		c.release(key)
		return nil, errCallerGone
	}
}

// take takes the key. If another call has it, it returns the channel that is closed when that call has ended.
func (c *changes) take(key string) (other chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.running[key]; other != nil {
		return other
	}
	c.running[key] = make(chan struct{})
	return nil
}

func (c *changes) release(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.running[key])
	delete(c.running, key)
}
