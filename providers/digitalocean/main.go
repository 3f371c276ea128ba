// Command digitalocean is Outrigger's provider for DigitalOcean: droplets as instances, and load
// balancers for Services.
package main

import (
	"context"
	"flag"

	"outrigger.dev/adapters/go/provider"
)

func main() {
	var settings settings
	provider.MainWithFlags(
		func(flags *flag.FlagSet) { settings.register(flags) },
		func(ctx context.Context) (*provider.Provider, error) { return settings.provider(ctx) },
	)
}
