// A provider for the cloud my-cloud.
package main

import (
	"context"

	"outrigger.dev/adapters/go/provider"
)

func main() {
	provider.Main(func(context.Context) (*provider.Provider, error) {
		return &provider.Provider{
			Name: "my-cloud", Version: "0.1.0",
			ServiceAnnotationPrefixes: []string{"my-cloud.example/"}, // others are not sent, and lead to no call
			Instances:                 machines,
		}, nil
	})
}
