// This file has the figures of all rounds.

package sidebyside

import (
	"fmt"
	"strconv"

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
