package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// answerMargin is how long before its deadline a batch of lookups is answered, at most: enough to send the answer.
const answerMargin = time.Second

// Errors of the items of a batch that were not answered in time, and of those that were not begun. They have no
// reason: the controller asks about each again in a call of its own.
var (
	errNotAnswered = fmt.Errorf("the cloud has not answered about this object: %w", context.DeadlineExceeded)
	errNotAsked    = fmt.Errorf("not asked about, other objects took the time: %w", context.DeadlineExceeded)
)

// lookupEach is each for lookups. It returns shortly before the deadline of ctx with the results that are there, and an
// error for each other item: one that hangs must not take the answers about the others with it. The order changes from
// call to call, so that no item is for ever behind those that hang.
func lookupEach[T any, R interface{ failure() error }](ctx context.Context, concurrency int, items []T, key func(T) string,
	lookup func(context.Context, T) (R, error), failed func(error) R,
) (map[string]R, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	order := make([]T, len(items))
	for to, from := range rand.Perm(len(items)) {
		order[to] = items[from]
	}
	var mu sync.Mutex
	found := make(map[string]R, len(items))
	note := func(item T, result R) {
		mu.Lock()
		defer mu.Unlock()
		if found != nil { // else it is answered
			found[key(item)] = result
		}
	}
	for _, item := range items {
		note(item, failed(errNotAsked))
	}
	ended := make(chan error, 1)
	go func() {
		ended <- each(ctx, concurrency, order, func(item T) error {
			note(item, failed(errNotAnswered))
			result, err := recovered(ctx, func() (R, error) { return lookup(ctx, item) })
			if err != nil {
				result = failed(err)
			}
			note(item, result)
			return result.failure()
		}, func(item T, err error) { note(item, failed(err)) })
	}()
	var err error
	select {
	case err = <-ended:
	case <-beforeDeadline(ctx):
	}
	mu.Lock()
	defer mu.Unlock()
	answered := found
	found = nil
	return answered, err
}

// beforeDeadline fires while there is time to answer; never where ctx has no deadline.
func beforeDeadline(ctx context.Context) <-chan time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	left := time.Until(deadline)
	return time.After(left - min(answerMargin, left/10))
}

// each works on items, at most concurrency at a time. Once the caller is gone, what runs ends and no
// other item is begun. Once an error stops the class of calls, the rest is skipped with it: asking on
// would only meet the same wall, and a cloud that limits the rate counts each try.
func each[T any](ctx context.Context, concurrency int, items []T, work func(T) error, skipped func(T, error)) error {
	var (
		mu      sync.Mutex
		next    int
		wall    error
		workers sync.WaitGroup
	)
	take := func() (item T, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(items) || wall != nil || Check(ctx) != nil {
			return item, false
		}
		next++
		return items[next-1], true
	}
	for range min(max(concurrency, 1), len(items)) {
		workers.Go(func() {
			for item, ok := take(); ok; item, ok = take() {
				if err := work(item); stopsTheClass(err) {
					mu.Lock()
					wall = err
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if wall != nil {
		for _, item := range items[next:] {
			skipped(item, again(wall))
		}
	}
	return Check(ctx)
}

// again is the same failure of another item; effects stay with the first.
func again(err error) error {
	var named *Error
	if errors.As(err, &named) {
		return &Error{Reason: named.Reason, RetryAfter: named.RetryAfter, err: err}
	}
	return err
}
