// These tests hold the table, and the flags.

package sidebyside

import (
	"slices"
	"testing"

	"outrigger.dev/bench/report"
)

func measured(rounds ...map[string]float64) *Report {
	contestant := &report.Contestant{ID: "one", Title: "One"}
	for _, round := range rounds {
		contestant.Add(round)
	}
	return &Report{Nodes: 10, Services: 5, Rounds: len(rounds), Latency: "20ms", Contestants: []*report.Contestant{contestant}}
}

func rowOf(t *testing.T, table [][]string, title string) []string {
	t.Helper()
	place := slices.IndexFunc(table, func(row []string) bool { return row[0] == title })
	if place < 0 {
		t.Fatalf("no row %q in %q", title, table)
	}
	return table[place]
}

func TestTableHasMedianAndSpread(t *testing.T) {
	result := measured(
		map[string]float64{"cold.seconds": 12.34, "restart.changes": 0},
		map[string]float64{"cold.seconds": 3.456, "restart.changes": 0},
		map[string]float64{"cold.seconds": 250.4, "restart.changes": 0},
	)
	seconds, writes := "10 nodes from a cold start, s", "restart: calls that change the cloud"
	for _, expected := range []struct {
		shown detail
		row   []string
	}{
		{full, []string{seconds, "12.3 (3.46–250)"}}, {summary, []string{seconds, "12.3"}},
		{full, []string{writes, "0"}}, {summary, []string{writes, "0"}},
		{full, []string{"CPU: provider", "–"}},
	} {
		row := rowOf(t, result.table(expected.shown), expected.row[0])
		if !slices.Equal(row, expected.row) {
			t.Errorf("%q, expected %q", row, expected.row)
		}
	}
}

func TestTheLargestClusterHasAPlaceOfItsOwn(t *testing.T) {
	result := measured(map[string]float64{"cold.seconds": 1})
	if sections := result.Sections(); len(sections) != 2 || sections[fullMark] == "" || sections[summaryMark] == "" {
		t.Error(sections)
	}
	result.envelope = true
	if sections := result.Sections(); len(sections) != 1 || sections[envelopeMark] == "" {
		t.Error(sections)
	}
}

func TestSizesAreDefaultsThatOtherFlagsChange(t *testing.T) {
	o, err := parse([]string{"--quick", "--nodes=7", "--contestants=mock,adapter"})
	if err != nil || o.nodes != 7 || o.services != 20 || o.rounds != 1 || ids(o.contestants) != "mock,adapter" {
		t.Error(o, err)
	}
	o, err = parse([]string{"--envelope", "--services=9"})
	if err != nil || o.nodes != 5000 || o.services != 9 || o.rounds != 1 || ids(o.contestants) != ids(inEnvelope) {
		t.Error(o, err)
	}
	for _, wrong := range [][]string{{"--rounds=0"}, {"--contestants=other"}, {"nodes"}, {"--quick", "--envelope"}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}
