// This test holds the README's numbers against docs/performance.md.

package sidebyside

import (
	"os"
	"strings"
	"testing"

	"outrigger.dev/bench/report"
)

// block is a table of the docs, by the title of the row and then the header of the column.
func block(t *testing.T, path, mark string) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(text), mark)
	inside, _, ends := strings.Cut(rest, report.Mark("end"))
	if !begins || !ends {
		t.Fatalf("%s has no %s … %s", path, mark, report.Mark("end"))
	}
	rows, header := map[string]map[string]string{}, []string(nil)
	for line := range strings.Lines(inside) {
		line, isRow := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !isRow {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, " |"), " | ")
		if header == nil {
			header = cells
			continue
		}
		row := map[string]string{}
		for place, cell := range cells[1:] {
			row[header[place+1]] = cell
		}
		rows[cells[0]] = row
	}
	return rows
}

func TestNumbersOfTheReadmeStandInTheTable(t *testing.T) {
	measured := block(t, "../../../docs/performance.md", fullMark)
	said := block(t, "../../../README.md", summaryMark)
	for title, row := range said {
		for column, number := range row {
			if median, _, _ := strings.Cut(measured[title][column], " ("); median != number {
				t.Errorf("%s, %s: the README says %q, docs/performance.md %q; run the bench with "+
					"--markdown for both", title, column, number, measured[title][column])
			}
		}
	}
}
