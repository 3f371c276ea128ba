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

	mu    sync.Mutex
	locks map[string]*keyLock
}

type keyLock struct {
	turn    chan struct{}
	claimed int
}

func newKeys(patience, retryAfter time.Duration) *keys {
	return &keys{patience: patience, retryAfter: retryAfter, locks: map[string]*keyLock{}}
}

func (k *keys) claim(key string) *keyLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	lock := k.locks[key]
	if lock == nil {
		lock = &keyLock{turn: make(chan struct{}, 1)}
		k.locks[key] = lock
	}
	lock.claimed++
	return lock
}

func (k *keys) unclaim(key string, lock *keyLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if lock.claimed--; lock.claimed == 0 {
		delete(k.locks, key)
	}
}

// hold waits for its turn, in the order of arrival.
func (k *keys) hold(ctx context.Context, key string) (release func(), err error) {
	lock := k.claim(key)
	release = func() { <-lock.turn; k.unclaim(key, lock) }
	select {
	case lock.turn <- struct{}{}:
		return release, nil
	default:
	}
	select {
	case lock.turn <- struct{}{}:
		return release, nil
	case <-CallOf(ctx).callerGone:
		err = errCallerGone
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(k.patience):
		err = Errorf(OperationInProgress, "another call about %s is running", key).WithRetryAfter(k.retryAfter)
	}
	k.unclaim(key, lock)
	return nil, err
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
