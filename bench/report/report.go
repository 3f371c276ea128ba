// Package report has the figures of a run: their spread over the rounds, as a table, as JSON and in the docs.
package report

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"golang.org/x/term"
)

// Report is a whole run.
type Report struct {
	Date        string        `json:"date"`
	Kubernetes  string        `json:"kubernetes"`
	Upstream    string        `json:"upstream"`
	Processors  int           `json:"processors"`
	Nodes       int           `json:"nodes"`
	Services    int           `json:"services"`
	Rounds      int           `json:"rounds"`
	Latency     string        `json:"latency"`
	Contestants []*Contestant `json:"contestants"`
}

// Contestant is one way to run the controllers, with the figures of its rounds by the name of the measure.
type Contestant struct {
	ID       string               `json:"id"`
	Title    string               `json:"title"`
	Measured map[string][]float64 `json:"measured"`
}

// Add adds the figures of a round.
func (c *Contestant) Add(round map[string]float64) {
	if c.Measured == nil {
		c.Measured = map[string][]float64{}
	}
	for name, value := range round {
		c.Measured[name] = append(c.Measured[name], value)
	}
}

// Spread of a figure over the rounds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// spreadOf some values.
func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	last := len(sorted) - 1
	return Spread{Min: sorted[0], Median: (sorted[last/2] + sorted[(last+1)/2]) / 2, Max: sorted[last]}
}

// Show writes a table to a terminal and JSON to all else.
func (r *Report) Show(out *os.File) error {
	return Show(out, r.withSpread(), r.table(full))
}

// Show writes the table to a terminal, and the figures as JSON to all else.
func Show(out *os.File, figures any, table [][]string) error {
	if term.IsTerminal(int(out.Fd())) {
		return writeTable(out, table)
	}
	return json.NewEncoder(out).Encode(figures)
}

func writeTable(out io.Writer, table [][]string) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range table {
		for _, cell := range row {
			if _, err := io.WriteString(columns, cell+"\t"); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(columns, "\n"); err != nil {
			return err
		}
	}
	return columns.Flush()
}

// withSpread has the figures of each round, and their spread beside them.
func (r *Report) withSpread() any {
	spread := map[string]map[string]Spread{}
	for _, one := range r.Contestants {
		spread[one.ID] = map[string]Spread{}
		for name, values := range one.Measured {
			spread[one.ID][name] = spreadOf(values)
		}
	}
	return struct {
		*Report
		Spread map[string]map[string]Spread `json:"spread"`
	}{r, spread}
}
