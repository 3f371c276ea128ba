// This file limits changes: one at a time for each key, and in all as many as the provider declares.

package provider

import (
	"context"
	"sync"
	"time"
)

// keyLocks lets one changing call per key run at a time.
type keyLocks struct {
	// patience is how long a call waits for another of its key.
	patience time.Duration
	// retryAfter is the delay that a call which did not get its key names to the controller; 0: it names none.
	retryAfter time.Duration

	mu sync.Mutex
	// released has a channel for each locked key, which is closed when the key is released.
	released map[string]chan struct{}
}

func newKeyLocks(patience, retryAfter time.Duration) *keyLocks {
	return &keyLocks{patience: patience, retryAfter: retryAfter, released: map[string]chan struct{}{}}
}

// lock waits until no other call has the key.
func (k *keyLocks) lock(ctx context.Context, key string) (release func(), err error) {
	patience := time.NewTimer(k.patience)
	defer patience.Stop()
	for {
		release, released := k.tryLock(key)
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

// tryLock returns the function that releases the key. If another call has the key, it returns the channel that is closed
// when that call releases it.
func (k *keyLocks) tryLock(key string) (release func(), released chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if released, isLocked := k.released[key]; isLocked {
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

// semaphore limits how many calls, or keys, are worked on at a time; nil: no limit. The controller keeps to the limit of
// calls too, but a handler outlives a call whose caller is gone, and one update is about many Services.
type semaphore chan struct{}

func newSemaphore(limit uint32) semaphore {
	if limit == 0 {
		return nil
	}
	return make(semaphore, limit)
}

func (s semaphore) enter(ctx context.Context) (leave func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-CallOf(ctx).callerGone:
		return nil, errCallerGone
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
