// Package report puts the result of a run where it is read: a table on a terminal, JSON in a pipe, and sections of the docs.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"golang.org/x/term"
)

// Result is what a command of the bench has measured.
type Result interface {
	// Figures are encoded as JSON.
	Figures() any
	// Table has a header and a row for each measure.
	Table() [][]string
	// Sections are the texts of the docs by the mark before each.
	Sections() map[string]string
}

// Conditions of a run.
type Conditions struct {
	Date       string `json:"date"`
	Kubernetes string `json:"kubernetes"`
	Upstream   string `json:"upstream"`
}

// String is the beginning of a section of the docs.
func (c Conditions) String() string {
	return fmt.Sprintf("%s, Kubernetes %s, upstream's library %s", c.Date, c.Kubernetes, c.Upstream)
}

// Show writes the table to a terminal, and the figures as JSON to anything else.
func Show(out *os.File, result Result) error {
	if term.IsTerminal(int(out.Fd())) {
		return writeTable(out, result.Table())
	}
	return json.NewEncoder(out).Encode(result.Figures())
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
