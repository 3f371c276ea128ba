// This file shows how a step is judged.

package migration_test

import (
	"fmt"

	"outrigger.dev/bench/cloud"
	"outrigger.dev/bench/migration"
)

// ExampleExpected_Judge names a change of the cloud that nothing asked for.
func ExampleExpected_Judge() {
	expected := migration.Expected{Created: []string{"default/new"}}
	touched, wrong := expected.Judge([]cloud.Change{
		{Action: cloud.Created, Service: "default/new"}, {Action: cloud.Deleted, Service: "default/old"},
	})
	fmt.Println(touched)
	fmt.Println(wrong)
	// Output:
	// 1 created, 1 deleted
	// [the load balancer of default/old was deleted (joined [], left [])]
}
