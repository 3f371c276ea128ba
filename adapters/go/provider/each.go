// This file works on the items of a batch one by one, with a deadline and with errors that concern all of them.

package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// answerMargin is how long before its deadline a batch of lookups is answered, at most: enough to send the answer.
const answerMargin = time.Second

// Errors of items that were not answered in time, and of items that were not begun. They have no
// reason: the controller asks about each object again in a call of its own.
var (
	errNotAnswered = fmt.Errorf("the cloud has not answered about this object: %w", context.DeadlineExceeded)
	errNotAsked    = fmt.Errorf("not asked about, other objects took the time: %w", context.DeadlineExceeded)
)

// Each works on each item of a batch by itself, at most concurrency at a time. An error or a panic concerns
// its item only. Once the cloud limits the rate, refuses the credentials or is away, the items that were not
// begun yet get that error too; once the caller is gone, what runs ends and no other item is begun.
//
// Shortly before the deadline of ctx, which lookups have and changes do not, it returns the results that are there,
// and an error for each other item: one that hangs must not take the answers about the others with it. The order
// changes from call to call, so that no item is always behind those that hang.
func Each[I item, T proto.Message](ctx context.Context, concurrency int, items []I,
	work func(ctx context.Context, item I) (Result[T], error),
) (Results[T], error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	order := slices.Clone(items)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var mu sync.Mutex
	results := make(Results[T], len(items))
	note := func(item I, result Result[T]) {
		mu.Lock()
		defer mu.Unlock()
		if results != nil { // the batch is not answered yet
			results[item.ItemKey()] = result
		}
	}
	for _, item := range items {
		note(item, Result[T]{Err: errNotAsked})
	}
	ended := make(chan error, 1)
	go func() {
		ended <- each(ctx, concurrency, order, func(ctx context.Context, item I) (Result[T], error) {
			note(item, Result[T]{Err: errNotAnswered})
			return work(ctx, item)
		}, note)
	}()
	var err error
	select {
	case err = <-ended:
	case <-beforeDeadline(ctx):
	}
	mu.Lock()
	defer mu.Unlock()
	answered := results
	results = nil
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

// each hands the result of each item to done. The rest is skipped after an error that stops the class of calls:
// the next call would fail alike, and a cloud that limits the rate counts each try.
func each[I item, T proto.Message](ctx context.Context, concurrency int, items []I,
	work func(context.Context, I) (Result[T], error), done func(I, Result[T]),
) error {
	var (
		mu      sync.Mutex
		next    int
		stop    error
		workers sync.WaitGroup
	)
	take := func() (item I, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(items) || stop != nil || Check(ctx) != nil {
			return item, false
		}
		next++
		return items[next-1], true
	}
	for range min(max(concurrency, 1), len(items)) {
		workers.Go(func() {
			for item, ok := take(); ok; item, ok = take() {
				result, err := Recovered(ctx, func() (Result[T], error) { return work(ctx, item) })
				if err != nil {
					result.Err = err
				}
				done(item, result)
				if stopsTheClass(result.Err) {
					mu.Lock()
					stop = result.Err
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if stop != nil {
		for _, item := range items[next:] {
			done(item, Result[T]{Err: again(stop)})
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
