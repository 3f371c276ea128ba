// These tests share calls of a cloud.

package provider

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallersThatWaitTogetherShareACallThatBeginsAfterEachOfThem(t *testing.T) {
	begun, end := make(chan []int), make(chan error)
	batcher := NewBatcher(3, func(_ context.Context, items []int) ([]int, error) {
		begun <- items
		return items, <-end
	})
	var callers sync.WaitGroup
	ask := func(ctx context.Context, item int, want error) {
		callers.Go(func() {
			if got, err := batcher.Do(ctx, item); !errors.Is(err, want) || (err == nil && got != item) {
				t.Error(item, got, err)
			}
		})
	}
	await := func(count int) {
		for waiting := -1; waiting != count; time.Sleep(time.Millisecond) {
			batcher.mu.Lock()
			waiting = len(batcher.waiting)
			batcher.mu.Unlock()
		}
	}
	ask(t.Context(), 0, nil)
	<-begun
	left, leave := context.WithCancel(t.Context())
	leave()
	ask(left, 9, context.Canceled)
	failed := errors.New("no")
	for item := 1; item <= 3; item++ {
		ask(t.Context(), item, failed)
	}
	await(4)
	ask(t.Context(), 4, nil)
	await(5)
	end <- nil
	together := <-begun
	slices.Sort(together)
	if !slices.Equal(together, []int{1, 2, 3}) {
		t.Error(together)
	}
	end <- failed
	if last := <-begun; !slices.Equal(last, []int{4}) {
		t.Error(last)
	}
	end <- nil
	callers.Wait()
}

func TestACallOfACloudThatForgetsAnItemOrPanicsIsAnErrorOfEach(t *testing.T) {
	for _, call := range []func(context.Context, []int) ([]int, error){
		func(context.Context, []int) ([]int, error) { return nil, nil },
		func(context.Context, []int) ([]int, error) { panic("oh") },
	} {
		if _, err := NewBatcher(3, call).Do(t.Context(), 1); err == nil {
			t.Error("no error")
		}
	}
}

func TestTheContextOfASharedCallEndsWithThatOfItsLastCaller(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	batcher := NewBatcher(3, func(ctx context.Context, items []int) ([]int, error) {
		begun <- struct{}{}
		<-ctx.Done()
		close(ended)
		return items, nil
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() { _, _ = batcher.Do(ctx, 1) }()
	<-begun
	leave()
	<-ended
}

func TestACallThatNeverReturnsKeepsNoLaterOneFromBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		batcher := NewBatcher(3, func(_ context.Context, items []int) ([]int, error) {
			if slices.Contains(items, 1) {
				<-release // whatever its context says
			}
			return items, nil
		})
		ask := func(item int) error {
			ctx, leave := context.WithTimeout(t.Context(), time.Minute)
			defer leave()
			_, err := batcher.Do(ctx, item)
			return err
		}
		if err := ask(1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := ask(2); err != nil {
			t.Error(err)
		}
	})
}
