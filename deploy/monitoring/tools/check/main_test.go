// These tests check queries that name what does not exist, and runbooks that look for what does not exist.

package main

import (
	"slices"
	"strings"
	"testing"
)

func TestQueriesThatNameNothing(t *testing.T) {
	series := map[string][]string{
		"depth": {"name"}, "leads": {"name", "manager"}, "left": {"quota"}, "limit": {"quota"}, "up": nil,
		"took_bucket": {"rpc", "le"}, "took_sum": {"rpc"},
	}
	for _, test := range []struct{ query, shown, problem string }{
		{"depth > 5", "{{instance}} {{name}}", ""},
		{"sum by (name) (rate(depth[5m]))", "{{ $labels.name }}", ""},
		{"histogram_quantile(0.9, sum by (le, rpc) (rate(took_bucket[5m])))", "{{rpc}}", ""},
		{"depth and on (instance) (max by (instance) (leads) == 1)", "{{name}}", ""},
		{"left / limit < 0.1", "{{quota}}", ""},
		{"time() - (left > 0)", "{{quota}}", ""},
		{"depth * on (instance) group_left (manager) leads", "{{name}} {{manager}}", ""},
		{"topk(3, depth)", "{{name}}", ""},
		{"absent(up)", "", ""},
		{`sum(depth{name="Nodes"}) or sum(up)`, "", ""},
		{`depth{name=~"Nodes|Routes", instance="a"} or depth{name=~".*s"}`, "", ""},

		{"other", "", "docs/endpoints.md has no metric other"},
		{`depth{state="x"}`, "", "depth has no label state"},
		{`depth{name="Node"}`, "", "depth: no name is Node anywhere in the code"},
		{`depth{name!~"Nodes|Route"}`, "", "depth: no name is Route anywhere in the code"},
		{"sum by (state) (depth)", "", "depth has no label state"},
		{"depth and on (state) leads", "", "has no label state"},
		{"depth", "{{quota}}", "a series of the query has no label quota"},
		{"sum by (name (depth)", "", "parse error"},
	} {
		check := &checker{labels: series, code: `["Nodes", "Routes"]`}
		check.query("here", test.query, test.shown)
		if test.problem == "" && len(check.problems) > 0 {
			t.Errorf("%s: %v", test.query, check.problems)
		}
		if test.problem != "" && !slices.ContainsFunc(check.problems, func(problem string) bool { return strings.Contains(problem, test.problem) }) {
			t.Errorf("%s with %q: %v", test.query, test.shown, check.problems)
		}
	}
}

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
