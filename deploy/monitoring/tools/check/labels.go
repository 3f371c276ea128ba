// This file derives the labels of the series that a query returns.

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// returned are the labels of the series that an expression returns. Its problems are labels that it names and that
// its operands do not have: such an expression is legal, and returns nothing or lumps series together.
func (c *checker) returned(at string, expr parser.Expr) []string {
	switch expr := expr.(type) {
	case *parser.ParenExpr:
		return c.returned(at, expr.Expr)
	case *parser.StepInvariantExpr:
		return c.returned(at, expr.Expr)
	case *parser.SubqueryExpr:
		return c.returned(at, expr.Expr)
	case *parser.UnaryExpr:
		return c.returned(at, expr.Expr)
	case *parser.MatrixSelector:
		return c.returned(at, expr.VectorSelector)
	case *parser.VectorSelector:
		return c.selected(at, expr)
	case *parser.AggregateExpr:
		return c.aggregated(at, expr)
	case *parser.Call:
		return c.called(at, expr)
	case *parser.BinaryExpr:
		return c.combined(at, expr)
	default:
		return nil
	}
}

func (c *checker) selected(at string, selector *parser.VectorSelector) []string {
	documented, exists := c.labels[selector.Name]
	if !exists {
		c.problem(at, "%s has no metric %s", metrics, selector.Name)
	}
	all := slices.Concat(documented, scraped)
	for _, matcher := range selector.LabelMatchers {
		if exists && matcher.Name != labels.MetricName {
			c.has(at, selector.Name, all, matcher.Name)
			c.values(at, selector.Name, matcher)
		}
	}
	return all
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
		if !strings.Contains(c.code, `"`+value+`"`) {
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

func (c *checker) aggregated(at string, expr *parser.AggregateExpr) []string {
	all := c.returned(at, expr.Expr)
	c.has(at, expr.Expr.String(), all, expr.Grouping...)
	switch {
	case expr.Op == parser.TOPK || expr.Op == parser.BOTTOMK:
		return all
	case expr.Without:
		return without(all, expr.Grouping)
	default:
		return expr.Grouping
	}
}

func (c *checker) called(at string, call *parser.Call) []string {
	var all []string
	for _, argument := range call.Args {
		all = append(all, c.returned(at, argument)...)
	}
	switch call.Func.Name {
	case "histogram_quantile":
		c.has(at, call.String(), all, labels.BucketLabel)
		return without(all, []string{labels.BucketLabel})
	case "absent", "absent_over_time", "scalar", "vector":
		return nil
	case "label_join", "label_replace":
		c.problem(at, "%s: the labels that it makes are not known here", call.Func.Name)
	}
	return all
}

func (c *checker) combined(at string, expr *parser.BinaryExpr) []string {
	left, right := c.returned(at, expr.LHS), c.returned(at, expr.RHS)
	match := expr.VectorMatching
	if match == nil { // One of both is a number.
		return slices.Concat(left, right)
	}
	if match.On {
		c.has(at, expr.LHS.String(), left, match.MatchingLabels...)
		c.has(at, expr.RHS.String(), right, match.MatchingLabels...)
	} else if expr.Op != parser.LOR && !same(without(left, match.MatchingLabels), without(right, match.MatchingLabels)) {
		c.problem(at, "the sides of %s never match: %s", expr.Op, fmt.Sprint(left, right))
	}
	switch {
	case expr.Op == parser.LOR:
		return slices.Concat(left, right)
	case expr.Op.IsSetOperator():
		return left
	case match.Card == parser.CardManyToOne:
		return slices.Concat(left, match.Include)
	case match.Card == parser.CardOneToMany:
		return slices.Concat(right, match.Include)
	case match.On:
		return match.MatchingLabels
	default:
		return without(left, match.MatchingLabels)
	}
}

func without(all, names []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
}

func same(left, right []string) bool {
	return len(without(left, right)) == 0 && len(without(right, left)) == 0
}
