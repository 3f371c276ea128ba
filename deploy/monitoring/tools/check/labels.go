// This file checks the metrics of a query, and the labels that it names.

package main

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// named checks each metric of a query with its labels, and returns the labels that the series of the query can have: those of
// all its metrics, and those that a scrape gives.
func (c *checker) named(at string, expr parser.Expr) []string {
	all := slices.Clone(scraped)
	c.each(expr, func(node parser.Node) {
		if selector, ok := node.(*parser.VectorSelector); ok {
			c.selected(at, selector)
			all = append(all, c.labels[selector.Name]...)
		}
	})
	c.each(expr, func(node parser.Node) {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			c.has(at, node.Expr.String(), all, node.Grouping...)
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				c.has(at, node.String(), all, node.VectorMatching.MatchingLabels...)
			}
		}
	})
	return all
}

func (c *checker) each(expr parser.Expr, see func(parser.Node)) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		see(node)
		return nil
	})
}

func (c *checker) selected(at string, selector *parser.VectorSelector) {
	documented, exists := c.labels[selector.Name]
	if !exists {
		c.problem(at, "%s has no metric %s", metrics, selector.Name)
		return
	}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name != labels.MetricName {
			c.has(at, selector.Name, slices.Concat(documented, scraped), matcher.Name)
			c.values(at, selector.Name, matcher)
		}
	}
}

// values reports those that a matcher asks for and that the code never gives a label. Codes are those of HTTP and gRPC.
func (c *checker) values(at, metric string, matcher *labels.Matcher) {
	if matcher.Name == "code" || slices.Contains(scraped, matcher.Name) {
		return
	}
	values := matcher.SetMatches()
	if matcher.Type == labels.MatchEqual || matcher.Type == labels.MatchNotEqual {
		values = []string{matcher.Value}
	}
	for _, value := range values {
		isRPC := matcher.Name == "rpc" && strings.Contains(c.code, "rpc "+value+"(")
		if !isRPC && !strings.Contains(c.code, `"`+value+`"`) {
			c.problem(at, "%s: no %s is %s anywhere in the code", metric, matcher.Name, value)
		}
	}
}

// has reports those of names that are not among the labels of an operand.
func (c *checker) has(at, operand string, all []string, names ...string) {
	for _, name := range names {
		if !slices.Contains(all, name) {
			c.problem(at, "%s has no label %s", operand, name)
		}
	}
}
