// This file has the figures of all rounds, and the rows of their table.

package sidebyside

import (
	"fmt"
	"strconv"
	"strings"

	"outrigger.dev/bench/report"
)

// The marks of the tables of a whole run, in full and as the README has it, and of the largest cluster.
var (
	fullMark     = report.Mark("table")
	summaryMark  = report.Mark("summary")
	envelopeMark = report.Mark("envelope")
)

// Report is a whole run.
type Report struct {
	report.Conditions
	Processors  int                  `json:"processors"`
	Nodes       int                  `json:"nodes"`
	Services    int                  `json:"services"`
	Rounds      int                  `json:"rounds"`
	Latency     string               `json:"latency"`
	Contestants []*report.Contestant `json:"contestants"`

	envelope bool
}

// Figures are those of each round, and their spread beside them.
func (r *Report) Figures() any {
	return struct {
		*Report
		Spread map[string]map[string]report.Spread `json:"spread"`
	}{r, report.Spreads(r.Contestants)}
}

// Table has all measures.
func (r *Report) Table() [][]string { return r.table(full) }

// Sections are the table of docs/performance.md, and the shorter one of the README.
func (r *Report) Sections() map[string]string {
	table := report.Section(r.conditions()+"; the median, with the least and the most", r.table(full))
	if r.envelope {
		return map[string]string{envelopeMark: table}
	}
	return map[string]string{
		fullMark:    table,
		summaryMark: report.Section("Side by side, by [one command](lab/bench/README.md): "+r.conditions()+"; medians", r.table(summary)),
	}
}

// conditions under which the figures were measured.
func (r *Report) conditions() string {
	return fmt.Sprintf("%s, %d processors, which API server and etcd share; %d nodes, %d Services, %s a call to the cloud. Rounds: %s",
		r.Conditions, r.Processors, r.Nodes, r.Services, r.Latency, r.rounds())
}

// rounds of all, and of each contestant that ran in fewer.
func (r *Report) rounds() string {
	text := strconv.Itoa(r.Rounds)
	for _, contestant := range r.Contestants {
		if count := len(contestant.Measured["cold.seconds"]); count < r.Rounds {
			text += fmt.Sprintf(" (%s: %d)", contestant.Title, count)
		}
	}
	return text
}

// measure is a row of the table.
type measure struct {
	name, title string
	// inSummary: the README has it too.
	inSummary bool
}

// allMeasures are the rows in their order.
var allMeasures = []measure{
	{"cold.seconds", "{nodes} nodes from a cold start, s", true},
	{"cold.ratio", "cold start as a multiple of the floor, the same writes with no logic", false},
	{"cold.writes", "cold start: API writes", false},
	{"cold.events", "cold start: events", false},
	{"cold.calls", "cold start: calls to the cloud", false},
	{"cold.apiserver", "cold start: CPU of the API server, s", false},
	{"services.seconds", "{services} Services together until the last has its address, s", true},
	{"services.writes", "Services: API writes", false},
	{"services.events", "Services: events", false},
	{"services.calls", "Services: calls to the cloud", false},
	{"services.apiserver", "Services: CPU of the API server, s", false},
	{"memory.sum", "peak memory until then, all processes, MiB", false},
	{"memory.controller", "peak memory: controller", false},
	{"memory.provider", "peak memory: provider", false},
	{"cpu.sum", "CPU until then, all processes, s", false},
	{"cpu.controller", "CPU: controller", false},
	{"cpu.provider", "CPU: provider", false},
	{"leave.seconds", "a Node is deleted, until the last load balancer is without it, s", true},
	{"leave.changes", "a Node is deleted: calls that change the cloud", false},
	{"exclusion.seconds", "{excluded} Nodes get the label that excludes them, until the last load balancer is without them, s", false},
	{"exclusion.changes", "{excluded} Nodes are excluded: calls that change the cloud", false},
	{"restart.writes", "restart over all of it: API writes", false},
	{"restart.events", "restart: events", false},
	{"restart.changes", "restart: calls that change the cloud", true},
	{"restart.calls", "restart: calls to the cloud, lookups included", false},
	{"failover.sigterm", "fail-over after SIGTERM, s", false},
	{"failover.kill", "fail-over after `kill -9`, s", false},
	{"deletion.seconds", "all Services deleted, s", false},
}

// detail of a table.
type detail int

const (
	// full has all measures, and least and most where they differ from the median.
	full detail = iota
	// summary has some measures, the medians alone.
	summary
)

func (r *Report) table(shown detail) [][]string {
	header := []string{""}
	for _, contestant := range r.Contestants {
		header = append(header, contestant.Title)
	}
	rows := [][]string{header}
	sizes := strings.NewReplacer("{nodes}", strconv.Itoa(r.Nodes), "{services}", strconv.Itoa(r.Services), "{excluded}", strconv.Itoa(excluded(r.Nodes)))
	for _, measure := range allMeasures {
		if shown == summary && !measure.inSummary {
			continue
		}
		row := []string{sizes.Replace(measure.title)}
		for _, contestant := range r.Contestants {
			row = append(row, report.Cell(contestant.Measured[measure.name], shown == full))
		}
		rows = append(rows, row)
	}
	return rows
}
