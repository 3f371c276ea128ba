// This file shows how writes are counted.

package audit_test

import (
	"fmt"
	"os"
	"path/filepath"

	"outrigger.dev/bench/audit"
)

// Example counts the writes of one program from a place in the log.
func Example() {
	directory, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(directory) }()
	path := filepath.Join(directory, "audit.log")
	line := `{"stage": "ResponseComplete", "verb": "patch", "userAgent": "outrigger/v1", "objectRef": {"resource": "nodes", "name": "a"}}`
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	log, err := audit.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	requests, err := log.Since(0, "outrigger")
	fmt.Println(len(requests), requests[0].Verb, requests[0].Name, requests[0].Changes(), err)
	// Output: 1 patch a true <nil>
}
