package report

import (
	"slices"
	"strings"
	"testing"
)

func measured(rounds ...map[string]float64) *Report {
	one := &Contestant{ID: "one", Title: "One"}
	for _, round := range rounds {
		one.Add(round)
	}
	return &Report{Nodes: 10, Services: 5, Rounds: len(rounds), Latency: "20ms", Contestants: []*Contestant{one}}
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
	report := measured(
		map[string]float64{"cold.seconds": 12.34, "restart.writes": 0},
		map[string]float64{"cold.seconds": 3.456, "restart.writes": 0},
		map[string]float64{"cold.seconds": 250.4, "restart.writes": 0},
	)
	seconds, writes := "10 nodes from a cold start, s", "restart over all of it: API writes"
	for _, expected := range []struct {
		shown detail
		row   []string
	}{
		{full, []string{seconds, "12.3 (3.46–250)"}}, {summary, []string{seconds, "12.3"}},
		{full, []string{writes, "0"}}, {summary, []string{writes, "0"}},
		{full, []string{"CPU: provider", "–"}},
	} {
		row := rowOf(t, report.table(expected.shown), expected.row[0])
		if !slices.Equal(row, expected.row) {
			t.Errorf("%q, expected %q", row, expected.row)
		}
	}
}

func TestMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle(t *testing.T) {
	if spread := spreadOf([]float64{4, 1, 3, 2}); spread != (Spread{1, 2.5, 4}) {
		t.Errorf("%+v", spread)
	}
}

func TestOnlyTheTextBetweenTheMarksIsReplaced(t *testing.T) {
	report := measured(map[string]float64{"cold.seconds": 1.5})
	text := "before\n" + summaryMark + "\n| stale |\n" + endMark + "\nafter " + endMark + "\n"
	once, err := replaced(text, report)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(once, "before\n") || !strings.HasSuffix(once, "\nafter "+endMark+"\n") ||
		strings.Contains(once, "stale") || !strings.Contains(once, "| 10 nodes from a cold start, s | 1.50 |") {
		t.Error(once)
	}
	if twice, err := replaced(once, report); err != nil || twice != once {
		t.Error("writing it again changes it", err, twice)
	}
	for _, broken := range []string{"no marks", "before " + fullMark + " no end"} {
		if _, err := replaced(broken, report); err == nil {
			t.Errorf("%q was accepted", broken)
		}
	}
}
