// This file shows the state that several processes share.

package cloud_test

import (
	"fmt"
	"os"
	"path/filepath"

	"outrigger.dev/bench/cloud"
)

// ExampleStore powers a machine of the durable cloud off, as another process would see it.
func ExampleStore() {
	directory, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(directory) }()
	store := cloud.Store{Path: filepath.Join(directory, "cloud.json")}
	err = store.Update(func(state *cloud.State) error { state.Machines["worker-0"] = true; return nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := store.Read()
	fmt.Println(state.Machines, err)
	// Output: map[worker-0:true] <nil>
}
