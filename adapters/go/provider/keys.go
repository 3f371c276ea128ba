package provider

import (
	"context"
	"sync"
	"time"
)

// keyPatience is how long a call waits for another of its key. A batch must not fall silent for 60 s
// because of one.
const keyPatience = 10 * time.Second

// keys lets one changing call per key run at a time, and of all keys no more than the provider declared.
type keys struct {
	mu    sync.Mutex
	locks map[string]*keyLock
	// slots has room for each key that may be worked on at a time; nil: all of them.
	slots chan struct{}
}

type keyLock struct {
	turn    chan struct{}
	claimed int
}

// newKeys makes keys of which at most `most` are worked on at a time; 0: any number. The controller
// keeps to that number of calls, but a handler outlives a call whose caller is gone, and one update is
// about many Services.
func newKeys(most uint32) *keys {
	made := &keys{locks: map[string]*keyLock{}}
	if most > 0 {
		made.slots = make(chan struct{}, most)
	}
	return made
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

// tryHold has the key if no other call has it now; release is nil if one has. For keys without a limit
// of their number.
func (k *keys) tryHold(key string) (release func()) {
	lock := k.claim(key)
	select {
	case lock.turn <- struct{}{}:
		return func() { <-lock.turn; k.unclaim(key, lock) }
	default:
		k.unclaim(key, lock)
		return nil
	}
}

// hold waits for its turn, in the order of arrival.
func (k *keys) hold(ctx context.Context, what, key string) (release func(), err error) {
	lock := k.claim(key)
	gone := CallOf(ctx).callerGone
	patience := time.NewTimer(keyPatience)
	defer patience.Stop()
	select {
	case lock.turn <- struct{}{}:
	case <-gone:
		k.unclaim(key, lock)
		return nil, errCallerGone
	case <-ctx.Done():
		k.unclaim(key, lock)
		return nil, ctx.Err()
	case <-patience.C:
		k.unclaim(key, lock)
		return nil, Errorf(OperationInProgress, "another call about %s %s has been running for %v", what, key,
			keyPatience)
	}
	release = func() { <-lock.turn; k.unclaim(key, lock) }
	if k.slots == nil {
		return release, nil
	}
	select {
	case k.slots <- struct{}{}:
		free := release
		return func() { <-k.slots; free() }, nil
	case <-gone:
		release()
		return nil, errCallerGone
	case <-ctx.Done():
		release()
		return nil, ctx.Err()
	}
}
