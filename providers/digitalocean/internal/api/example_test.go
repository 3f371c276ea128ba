// This file shows how an error is explained.

package api_test

import (
	"context"
	"errors"
	"fmt"

	"outrigger.dev/adapters/go/provider"
	"outrigger.dev/providers/digitalocean/internal/api"
)

// ExampleExplain gives an error without an answer of the API the contract's reason.
func ExampleExplain() {
	err := api.Explain(context.Background(), "list droplets", "droplet:read", &timeoutError{})
	var reason *provider.Error
	if errors.As(err, &reason) {
		fmt.Println(reason.Reason)
	}
	fmt.Println(err)
	// Output:
	// ERROR_REASON_CLOUD_UNAVAILABLE
	// cannot list droplets: no answer from the API: connection refused
}

// timeoutError has the shape of the errors of net/http.
type timeoutError struct{}

func (*timeoutError) Error() string { return "connection refused" }
func (*timeoutError) Timeout() bool { return false }
