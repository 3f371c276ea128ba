// This file shows how provider IDs are read.

package instances_test

import (
	"fmt"

	"outrigger.dev/providers/digitalocean/internal/instances"
)

// ExampleDropletID reads the provider ID of a Node.
func ExampleDropletID() {
	fmt.Println(instances.DropletID("digitalocean://1001"))
	_, err := instances.DropletID("digitalocean://01001")
	fmt.Println(err)
	// Output:
	// 1001 <nil>
	// "digitalocean://01001" is no provider ID of a droplet: it should read digitalocean://123456
}
