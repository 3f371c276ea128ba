// This file has the figures and their table.

package traffic

import (
	"fmt"

	"outrigger.dev/bench/report"
)

// mark of the table in docs/comparison.md.
var mark = report.Mark("traffic")

// rows are the figures in their order.
var rows = []struct{ name, title string }{
	{"service", "a Service is made, until its first connection is answered, s"},
	{"restart.seconds", "SIGTERM, the controller is started again, a Service is made then: until it is answered, s"},
	{"restart.lost", "connections to another Service lost meanwhile"},
	{"kill.seconds", "`kill -9` of the leader beside a standby, a Service is made then: until it is answered, s"},
	{"kill.lost", "connections to another Service lost meanwhile"},
	{"off.lost", "a machine is turned off: connections lost"},
	{"off.outage", "from the first of them to the last, s"},
	{"deleted.lost", "a machine is deleted from the cloud: connections lost"},
	{"deleted.outage", "from the first of them to the last, s"},
	{"deleted.node", "until its Node is gone, s"},
}

// titles of figures, by name.
var titles = func() map[string]string {
	titles := map[string]string{}
	for _, row := range rows {
		titles[row.name] = row.title
	}
	return titles
}()

// outcome is a whole run.
type outcome struct {
	conditions  report.Conditions
	Rounds      int                  `json:"rounds"`
	Contestants []*report.Contestant `json:"contestants"`
}

// Figures are those of each round, and their spread beside them.
func (o *outcome) Figures() any {
	return struct {
		report.Conditions
		*outcome
		Spread map[string]map[string]report.Spread `json:"spread"`
	}{o.conditions, o, report.Spreads(o.Contestants)}
}

// Table has all figures.
func (o *outcome) Table() [][]string {
	header := []string{""}
	for _, contestant := range o.Contestants {
		header = append(header, contestant.Title)
	}
	table := [][]string{header}
	for _, row := range rows {
		cells := []string{row.title}
		for _, contestant := range o.Contestants {
			cells = append(cells, report.Cell(contestant.Measured[row.name], true))
		}
		table = append(table, cells)
	}
	return table
}

// Sections are the table of docs/comparison.md.
func (o *outcome) Sections() map[string]string {
	conditions := fmt.Sprintf("%s, default flags, %d machines, a connection each %s; %d rounds: the median, with the least and the most",
		o.conditions, machines, every, o.Rounds)
	return map[string]string{mark: report.Section(conditions, o.Table())}
}
