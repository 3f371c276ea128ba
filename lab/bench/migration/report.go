// This file has the report of all steps.

package migration

import (
	"fmt"
	"strconv"

	"outrigger.dev/bench/report"
)

// mark of its table in a page.
var mark = report.Mark("migration")

// Report is a whole run.
type Report struct {
	report.Conditions
	Nodes    int    `json:"nodes"`
	Services int    `json:"services"`
	Steps    []Step `json:"steps"`
}

// Step is a change of controllers, or a preparation of one.
type Step struct {
	Title string `json:"title"`
	// Leaderless are the seconds from the signal to the old controller until the new one leads; nil: none changed.
	Leaderless *float64 `json:"leaderless"`
	// Served are the seconds from that signal until a Node and a Service that came right after it are served.
	Served    *float64 `json:"served"`
	Upstream  Writes   `json:"upstream"`
	Outrigger Writes   `json:"outrigger"`
	// Calls are those that change load balancers or find that there is nothing to change.
	Calls   int     `json:"calls"`
	Touched Touched `json:"touched"`
	// Wrong are the differences that should not be.
	Wrong []string `json:"wrong"`
}

// Wrong are the faults of all steps.
func (r *Report) Wrong() []string {
	var all []string
	for _, step := range r.Steps {
		for _, fault := range step.Wrong {
			all = append(all, step.Title+": "+fault)
		}
	}
	return all
}

// Table has a header and a row for each step.
func (r *Report) Table() [][]string {
	rows := [][]string{{
		"step", "no leader, s", "served after, s", "Nodes", "Services", "events", "new and gone objects", "Lease",
		"calls for load balancers", "changes in the cloud",
	}}
	for _, step := range r.Steps {
		row := []string{step.Title, seconds(step.Leaderless), seconds(step.Served)}
		for _, count := range []func(Writes) int{
			func(w Writes) int { return w.Nodes }, func(w Writes) int { return w.Services },
			func(w Writes) int { return w.Events }, func(w Writes) int { return w.Others },
			func(w Writes) int { return w.Leases },
		} {
			row = append(row, fmt.Sprintf("%d / %d", count(step.Upstream), count(step.Outrigger)))
		}
		rows = append(rows, append(row, strconv.Itoa(step.Calls), step.Touched.String()))
	}
	return rows
}

// Figures are the report itself.
func (r *Report) Figures() any { return r }

// Sections has the table.
func (r *Report) Sections() map[string]string {
	conditions := fmt.Sprintf("%s, %d Nodes, %d Services; API writes as upstream's / Outrigger's", r.Conditions, r.Nodes, r.Services)
	return map[string]string{mark: report.Section(conditions, r.Table())}
}

func seconds(value *float64) string {
	if value == nil {
		return "–"
	}
	return strconv.FormatFloat(*value, 'f', 1, 64)
}
