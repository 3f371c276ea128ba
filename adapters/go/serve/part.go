// This file asks a cloud for its parts, which may not be there when the process starts.

package serve

import (
	"context"
	"sync"
	"time"

	"outrigger.dev/adapters/go/provider"
)

// askAfter is how long a part that is not there is left alone by the status, which asks every few seconds.
const askAfter = time.Minute

// part is a part of a cloud, such as its LoadBalancer. A cloud says that it has none also while it cannot reach its API. The
// part is offered once it was there.
type part[T comparable] struct {
	// name is that of the cloud's method, and ask is the method.
	name string
	ask  func() (T, bool)
	// isKept: what it has returned once counts for ever, as for upstream's controllers of Services and routes. Upstream
	// asks for InstancesV2 each time.
	isKept bool

	mu sync.Mutex
	// first is what it has returned first; zero: nothing yet.
	first   T
	asking  bool
	askedAt time.Time
}

func newPart[T comparable](name string, isKept bool, ask func() (T, bool)) *part[T] {
	p := &part[T]{name: name, ask: ask, isKept: isKept}
	p.look()
	return p
}

// get is the part for a call.
func (p *part[T]) get() (T, error) {
	p.mu.Lock()
	value := p.first
	p.mu.Unlock()
	var none T
	if !p.isKept || value == none {
		value = p.look()
	}
	if value == none {
		return none, provider.Errorf(provider.CloudUnavailable, "the cloud has no %s at the moment", p.name)
	}
	return value, nil
}

// look asks the cloud; zero: the part is not there.
func (p *part[T]) look() T {
	value, isThere := p.ask()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.askedAt = time.Now()
	var none T
	if !isThere {
		return none
	}
	if p.first == none {
		p.first = value
	}
	if p.isKept {
		return p.first
	}
	return value
}

// Available tells whether the part was there once. It does not wait for the cloud: it has a part that was not looked for.
func (p *part[T]) Available() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var none T
	if p.first == none && !p.asking && time.Since(p.askedAt) > askAfter {
		p.asking = true
		go func() {
			_, _ = provider.Recovered(context.Background(), func() (T, error) { return p.look(), nil })
			p.mu.Lock()
			defer p.mu.Unlock()
			p.asking, p.askedAt = false, time.Now()
		}()
	}
	return p.first != none
}
