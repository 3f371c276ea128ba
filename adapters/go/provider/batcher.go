// This file joins calls of the controller to one call of a cloud.

package provider

import (
	"context"
	"fmt"
	"sync"
)

// Batcher is for a cloud that takes many routes, or answers many lookups, by one call: callers that wait together share one
// call of the cloud, which begins after each of them has come. One such call runs at a time; one that outlives all of its
// callers, whatever its context says, does not keep the next from beginning.
type Batcher[Item, Result any] struct {
	most int
	call func(ctx context.Context, items []Item) ([]Result, error)

	mu        sync.Mutex
	waiting   []waiter[Item, Result]
	isRunning bool
}

// waiter is a caller of Do.
type waiter[Item, Result any] struct {
	ctx   context.Context
	item  Item
	ended chan outcome[Result]
}

// NewBatcher returns a Batcher whose call gets 1 to most items and returns one result for each of them, in their order. An
// error of the call goes to each of its callers; a Result may have one of its item alone. The context of the call has the
// values of one of its callers, and ends when the contexts of all of them have ended.
func NewBatcher[Item, Result any](most int, call func(ctx context.Context, items []Item) ([]Result, error)) *Batcher[Item, Result] {
	return &Batcher[Item, Result]{most: most, call: call}
}

// Do waits for the result of a call with this item. An item whose caller is gone before its call begins is left out of it.
func (b *Batcher[Item, Result]) Do(ctx context.Context, item Item) (Result, error) {
	ended := make(chan outcome[Result], 1)
	b.mu.Lock()
	b.waiting = append(b.waiting, waiter[Item, Result]{ctx, item, ended})
	if !b.isRunning {
		b.isRunning = true
		go func() {
			for together := b.take(); len(together) > 0; together = b.take() {
				b.share(together)
			}
		}()
	}
	b.mu.Unlock()
	select {
	case result := <-ended:
		return result.value, result.err
	case <-ctx.Done():
		var none Result
		return none, ctx.Err()
	}
}

// take returns the callers of the next call; none: no caller waits.
func (b *Batcher[Item, Result]) take() (together []waiter[Item, Result]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) > 0 && len(together) < b.most {
		next := b.waiting[0]
		b.waiting = b.waiting[1:]
		if err := Check(next.ctx); err != nil {
			next.ended <- outcome[Result]{err: err}
		} else {
			together = append(together, next)
		}
	}
	b.isRunning = len(together) > 0
	return together
}

func (b *Batcher[Item, Result]) share(together []waiter[Item, Result]) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(together[0].ctx))
	defer cancel()
	go func() {
		for _, caller := range together {
			select {
			case <-caller.ctx.Done():
			case <-ctx.Done():
			}
		}
		cancel()
	}()
	var items []Item
	for _, caller := range together {
		items = append(items, caller.item)
	}
	done := make(chan outcome[[]Result], 1)
	go func() {
		results, err := Recovered(ctx, func() ([]Result, error) { return b.call(ctx, items) })
		done <- outcome[[]Result]{results, err}
	}()
	var called outcome[[]Result]
	select {
	case called = <-done:
	case <-ctx.Done(): // all of its callers are gone, and it may never return
		return
	}
	results, err := called.value, called.err
	if err == nil && len(results) != len(items) {
		err = fmt.Errorf("the shared call returned %d results for %d items", len(results), len(items))
	}
	for index, caller := range together {
		result := outcome[Result]{err: err}
		if err == nil {
			result.value = results[index]
		}
		caller.ended <- result
	}
}
