// This file shows a wait for a condition.

package rig_test

import (
	"context"
	"fmt"

	"outrigger.dev/bench/rig"
)

// ExampleUntil waits for a condition. It would also end with an error of the condition, or when a process has ended.
func ExampleUntil() {
	checks := 0
	err := rig.Until(context.Background(), "the third check", nil, func() (bool, error) {
		checks++
		return checks == 3, nil
	})
	fmt.Println(checks, err)
	// Output: 3 <nil>
}
