package provider

import (
	"context"
	"errors"
	"sync"
)

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
