// This file shows the fake cloud behind godo.

package fakecloud_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/digitalocean/godo"

	"outrigger.dev/providers/digitalocean/internal/api"
	"outrigger.dev/providers/digitalocean/internal/fakecloud"
)

// Example lists the droplets of a fake cloud with godo.
func Example() {
	cloud := fakecloud.New("token")
	cloud.AddDroplet("node-1")
	server := httptest.NewServer(cloud)
	defer server.Close()
	client, err := api.NewClient(server.URL, api.FixedToken("token"), "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	total, err := api.All(context.Background(), client.Droplets.List, func(droplet godo.Droplet) error {
		fmt.Println(droplet.ID, droplet.Name, droplet.Status)
		return nil
	})
	fmt.Println(total, err)
	// Output:
	// 1001 node-1 active
	// 1 <nil>
}
