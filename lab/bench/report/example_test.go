// This file shows a section of a page.

package report_test

import (
	"fmt"

	"outrigger.dev/bench/report"
)

// ExampleSection is a section of a page, as it stands after its mark.
func ExampleSection() {
	fmt.Print(report.Section("2026-01-02, one round", [][]string{{"", "upstream"}, {"seconds", "1.5"}}))
	// Output:
	// 2026-01-02, one round.
	//
	// |  | upstream |
	// |---|---|
	// | seconds | 1.5 |
}
