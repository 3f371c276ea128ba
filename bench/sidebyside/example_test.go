// This file shows the table of a run.

package sidebyside_test

import (
	"fmt"

	"outrigger.dev/bench/sidebyside"
)

// ExampleReport_Table has the median of all rounds, with the least and the most.
func ExampleReport_Table() {
	mock := &sidebyside.Contestant{ID: "mock", Title: "Outrigger, mock"}
	for _, seconds := range []float64{2, 4, 3} {
		mock.Add(map[string]float64{"cold.seconds": seconds})
	}
	report := &sidebyside.Report{Nodes: 1000, Contestants: []*sidebyside.Contestant{mock}}
	for _, row := range report.Table()[:2] {
		fmt.Printf("%q\n", row)
	}
	// Output:
	// ["" "Outrigger, mock"]
	// ["1000 nodes from a cold start, s" "3 (2–4)"]
}
