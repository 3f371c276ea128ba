// This file limits changes: one at a time for each key, and so many in all as the provider declares.

package provider

import (
	"context"
	"sync"
	"time"
)

// keys lets one changing call per key run at a time.
type keys struct {
	// patience is how long a call waits for another of its key.
	patience time.Duration
	// retryAfter is when the controller repeats a call that did not get its key; 0: not named.
	retryAfter time.Duration

	mu sync.Mutex
	// released of a key that is held is closed when it is released.
	released map[string]chan struct{}
}

func newKeys(patience, retryAfter time.Duration) *keys {
	return &keys{patience: patience, retryAfter: retryAfter, released: map[string]chan struct{}{}}
}

// hold waits until no other call has the key.
func (k *keys) hold(ctx context.Context, key string) (release func(), err error) {
	patience := time.NewTimer(k.patience)
	defer patience.Stop()
	for {
		release, released := k.tryHold(key)
		if release != nil {
			return release, nil
		}
		select {
		case <-released:
		case <-CallOf(ctx).callerGone:
			return nil, errCallerGone
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-patience.C:
			return nil, Errorf(OperationInProgress, "another call about %s is running", key).WithRetryAfter(k.retryAfter)
		}
	}
}

// tryHold returns the function that releases the key, or what is closed once another call has released it.
func (k *keys) tryHold(key string) (release func(), released chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if released, isHeld := k.released[key]; isHeld {
		return nil, released
	}
	ended := make(chan struct{})
	k.released[key] = ended
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.released, key)
		close(ended)
	}, nil
}

// room is for so many calls, or keys, as may be worked on at a time; nil: any number. The controller keeps to that
// number of calls, but a handler outlives a call whose caller is gone, and one update is about many Services.
type room chan struct{}

func newRoom(most uint32) room {
	if most == 0 {
		return nil
	}
	return make(room, most)
}

func (r room) enter(ctx context.Context) (leave func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	select {
	case r <- struct{}{}:
		return func() { <-r }, nil
	case <-CallOf(ctx).callerGone:
		return nil, errCallerGone
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
