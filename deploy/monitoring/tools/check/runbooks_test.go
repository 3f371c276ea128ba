// This test checks a runbook with faults.

package main

import (
	"slices"
	"testing"
)

func TestRunbooks(t *testing.T) {
	const code = `warn!("the route cannot be made"); event("NoRoute")`
	const endpoints = "| `/debug/queues` | `watch-nodes` |"
	for page, problem := range map[string]string{
		"## A\n`logs \\| grep 'route cannot'`; `logs \\| grep -E 'routes? cannot be'`": "",
		"## A\n`--field-selector reason=NoRoute`; `ask /debug/queues`":                 "",
		"## A\n`ask /readyz/watch-nodes`; `ask '/debug/queues?verbose'`":               "",
		"":                                     "no section A",
		"## A\n## B":                           "B is no alert",
		"## A\n`logs \\| grep 'cannot route'`": "nothing in the controller logs 'cannot route'",
		"## A\n`reason=NoRoutes`":              "no event of the controller has the reason NoRoutes",
		"## A\n`ask /debug/stores`":            "docs/endpoints.md has no path or check stores",
		"## A\n`ask /readyz/nodes`":            "docs/endpoints.md has no path or check nodes",
	} {
		check := &checker{code: code}
		check.runbooks([]string{"A"}, page, endpoints)
		var expected []string
		if problem != "" {
			expected = []string{"docs/runbooks.md: " + problem}
		}
		if !slices.Equal(check.problems, expected) {
			t.Errorf("%q: %q, not %q", page, check.problems, expected)
		}
	}
}
