// The bench's cloud behind the Go adapter, with the adapter's default options.
package main

import (
	"outrigger.dev/adapters/go/serve"
	"outrigger.dev/bench/cloud"
)

func main() { serve.Main(cloud.FromEnvironment) }
