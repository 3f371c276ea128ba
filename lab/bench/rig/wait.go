// This file waits for conditions, and for the end of all writes.

package rig

import (
	"context"
	"fmt"
	"time"
)

// quiet is how long nothing is written until work counts as done.
const quiet = 2 * time.Second

// Until checks a condition over and over until it holds, it fails, the deadline of ctx passes or one of the processes has ended.
func Until(ctx context.Context, goal string, alive []*Process, condition func() (bool, error)) error {
	const interval = 10 * time.Millisecond
	for {
		if done, err := condition(); done || err != nil {
			return err
		}
		for _, process := range alive {
			if err := process.Ended(); err != nil {
				return err
			}
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", goal, ctx.Err())
		}
	}
}

// Quiet waits until the programs with these user agents have written nothing for a while, and calls, unless it is nil, has
// returned the same number as long. Lookups do not count: they never end. It returns the time of the last write or call.
func (r *Rig) Quiet(ctx context.Context, alive []*Process, calls func() (int, error), agents ...string) (time.Time, error) {
	last, before := time.Now(), -1
	mark, err := r.Audit.Mark()
	if err != nil {
		return last, err
	}
	err = Until(ctx, "the end of all writes", alive, func() (bool, error) {
		next, err := r.Audit.Mark()
		if err != nil {
			return false, err
		}
		for _, agent := range agents {
			requests, err := r.Audit.Since(mark, agent)
			if err != nil {
				return false, err
			}
			for _, request := range requests {
				if request.Changes() && request.At.After(last) {
					last = request.At
				}
			}
		}
		mark = next
		if calls != nil {
			now, err := calls()
			if err != nil {
				return false, err
			}
			if now != before {
				last, before = time.Now(), now
			}
		}
		return time.Since(last) > quiet, nil
	})
	return last, err
}
