// Command check holds the alerts and dashboards of the chart against what is documented: each metric and each of its
// labels is in docs/endpoints.md, each value of a label is in the code, each alert has a runbook and unit tests, and each runbook looks for what exists. It
// runs in the root of the repository.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const (
	alerts     = "deploy/chart/outrigger/files/alerts.yaml"
	tests      = "deploy/monitoring/alerts_test.yaml"
	dashboards = "deploy/chart/outrigger/files/dashboards/*.json"
	metrics    = "docs/endpoints.md"
	runbooks   = "docs/runbooks.md"
)

// scraped are labels that a scrape gives to every series; a Prometheus of several clusters adds that of the cluster.
var scraped = []string{"cluster", "instance", "job", "namespace", "pod"}

type checker struct {
	// The labels of each series.
	labels map[string][]string
	// The controller's, without its tests.
	code     string
	problems []string
	queries  int
}

func main() {
	endpoints := read(metrics)
	check := &checker{labels: documented(endpoints), code: code()}
	names := check.rules()
	check.tested(names)
	check.runbooks(names, string(read(runbooks)), string(endpoints))
	boards, err := filepath.Glob(dashboards)
	if err != nil || len(boards) == 0 {
		fail("%s: no dashboards (%v)", dashboards, err)
	}
	for _, board := range boards {
		check.dashboard(board)
	}
	for _, problem := range check.problems {
		_, _ = fmt.Fprintln(os.Stderr, problem)
	}
	if len(check.problems) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d alerts and %d dashboards: %d queries name metrics, labels and values that exist\n", len(names), len(boards), check.queries)
}

func fail(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func read(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		fail("%v; run this in the root of the repository", err)
	}
	return content
}

func (c *checker) problem(at, format string, args ...any) {
	c.problems = append(c.problems, at+": "+fmt.Sprintf(format, args...))
}

var quoted = regexp.MustCompile("`([^`]+)`")

// documented are the series of the tables in docs/endpoints.md with their labels.
func documented(page []byte) map[string][]string {
	series := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !slices.Contains([]string{"counter", "gauge", "histogram"}, strings.TrimSpace(cells[2])) {
			continue
		}
		var names []string
		for _, match := range quoted.FindAllStringSubmatch(cells[3], -1) {
			names = append(names, match[1])
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[1], -1) {
			if strings.TrimSpace(cells[2]) != "histogram" {
				series[match[1]] = names
				continue
			}
			series[match[1]+"_bucket"] = append(slices.Clone(names), labels.BucketLabel)
			series[match[1]+"_sum"], series[match[1]+"_count"] = names, names
		}
	}
	return series
}

// query checks a query, and the labels that the text shown with it uses.
func (c *checker) query(at, query, shown string) {
	c.queries++
	expr, err := parser.ParseExpr(query)
	if err != nil {
		c.problem(at, "%v in %s", err, query)
		return
	}
	all := c.named(at, expr)
	for _, match := range label.FindAllStringSubmatch(shown, -1) {
		c.has(at, "a series of the query", all, match[1])
	}
}

// label in a legend, or in a template of an alert.
var label = regexp.MustCompile(`{{\s*(?:\$labels\.)?(\w+)`)

// rules checks each alert, and returns their names.
func (c *checker) rules() []string {
	groups, errs := rulefmt.Parse(read(alerts), false, model.UTF8Validation)
	for _, err := range errs {
		c.problem(alerts, "%v", err)
	}
	if groups == nil {
		return nil
	}
	var names []string
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Alert)
			at := alerts + ": " + rule.Alert
			shown := strings.NewReplacer("{{ $value", "").Replace(rule.Annotations["summary"] + rule.Annotations["description"])
			c.query(at, rule.Expr, shown)
			if !strings.HasSuffix(rule.Annotations["runbook_url"], "/"+runbooks+"#"+strings.ToLower(rule.Alert)) {
				c.problem(at, "runbook_url does not lead to its section of %s", runbooks)
			}
		}
	}
	return names
}

// tested checks that each alert is seen to fire and to be quiet.
func (c *checker) tested(names []string) {
	var file struct {
		Tests []struct{ Name string }
	}
	if err := yaml.Unmarshal(read(tests), &file); err != nil {
		c.problem(tests, "%v", err)
	}
	for _, name := range names {
		for _, kind := range []string{" fires", " is quiet"} {
			if !slices.ContainsFunc(file.Tests, func(test struct{ Name string }) bool { return test.Name == name+kind }) {
				c.problem(tests, "no test %q", name+kind)
			}
		}
	}
}

// variables of a dashboard that are no labels' values.
var variables = strings.NewReplacer("$__rate_interval", "5m")

func (c *checker) dashboard(path string) {
	var board struct {
		Panels []struct {
			Type, Title, Description string
			Targets                  []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(read(path), &board); err != nil {
		c.problem(path, "%v", err)
	}
	for _, panel := range board.Panels {
		at := path + ": " + panel.Title
		if panel.Type != "row" && (panel.Description == "" || len(panel.Targets) == 0) {
			c.problem(at, "a panel needs a description and a query")
		}
		for _, target := range panel.Targets {
			c.query(at, variables.Replace(target.Expr), target.LegendFormat)
		}
	}
}
