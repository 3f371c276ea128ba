// This file shows the table of a run.

package sidebyside_test

import (
	"fmt"

	"outrigger.dev/bench/report"
	"outrigger.dev/bench/sidebyside"
)

// ExampleReport_Table has the median of all rounds, with the least and the most.
func ExampleReport_Table() {
	mock := &report.Contestant{ID: "mock", Title: "Outrigger, mock"}
	for _, seconds := range []float64{2, 4, 3} {
		mock.Add(map[string]float64{"cold.seconds": seconds})
	}
	result := &sidebyside.Report{Nodes: 1000, Contestants: []*report.Contestant{mock}}
	for _, row := range result.Table()[:2] {
		fmt.Printf("%q\n", row)
	}
	// Output:
	// ["" "Outrigger, mock"]
	// ["1000 nodes from a cold start, s" "3 (2–4)"]
}
