// This file shows the contract's table of methods and reasons.

package cloudproviderv1_test

import (
	"fmt"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Example prints the rules of a method, and the gRPC code of a reason.
func Example() {
	method := (&v1.EnsureLoadBalancerRequest{}).Method()
	fmt.Println(method.Name, method.Deadline, method.ChangesCloud)
	fmt.Println(v1.ErrorReason_ERROR_REASON_RATE_LIMITED.Code())
	// Output:
	// EnsureLoadBalancer 2m0s true
	// ResourceExhausted
}
