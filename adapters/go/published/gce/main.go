// Google's published cloud provider behind the adapter, in the lines that the adapter's README shows.
package main

import (
	_ "k8s.io/cloud-provider-gcp/providers/gce"

	"outrigger.dev/adapters/go/serve"
)

func main() { serve.Main(serve.Registered("gce")) }
